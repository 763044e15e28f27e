"""Family length, tracking: facts that build on each other, spread through the document in order."""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
from bunny_probe.families.planting import in_document, spread, values
from bunny_probe.records import Anchor, Expectation, Insertion, Probe
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, domains
from bunny_probe.text.wording import anchor_words, wording

__all__ = ["state", "variables"]


@task(
    "length",
    "variables",
    summary="variables set to each other in chains: which of them hold a value",
    scorer="items",
    parameters={
        "hops": Parameter(4, "variables behind the first one in each chain", low=1, high=20),
        "chains": Parameter(2, "chains; one is asked for, the others distract", low=1, high=10),
    },
    uses=("lengths", "languages", "domains"),
    max_tokens=64,
    chance=None,
)
def variables(entry: Entry, params: Params) -> Iterator[Probe]:
    """Chains are mixed, and each keeps its own order. A random answer names as many variables as asked."""
    size, chains = params["hops"] + 1, params["chains"]
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("variables", cell.seed))
        words = wording(cell.language, "variables")
        names: dict[str, None] = {}
        while len(names) < size * chains:
            names[rng.pattern("@@@@@")] = None
        listed = list(names)
        roots = values(rng, cell.language, chains, "code")
        turn = rng.shuffled([chain for chain in range(chains) for _ in range(size)])
        places = spread(rng, size * chains)
        done = [0] * chains
        texts = []
        for chain, place in zip(turn, places, strict=True):
            name = listed[chain * size + done[chain]]
            if done[chain]:
                text = words["copy"].format(name=name, other=listed[chain * size + done[chain] - 1])
            else:
                text = words["set"].format(name=name, value=roots[chain])
            texts.append(Insertion(text, place))
            done[chain] += 1
        yield in_document(
            cell,
            "length",
            "variables",
            texts=texts,
            question=words["question"].format(value=roots[0], count=size),
            expectation=Expectation(
                "items",
                answers=tuple(listed[:size]),
                distractors=tuple(listed[size:]),
                params={"limit": size},
                chance=1 / chains,
            ),
            max_tokens=12 * size + 24,
        )


@task(
    "length",
    "state",
    summary="things are moved about through the whole document: where one of them is at the end",
    scorer="anchor",
    parameters={
        "moves": Parameter(4, "times that each thing is moved", low=1, high=12),
        "things": Parameter(2, "things that are moved; one is asked for", low=1, high=8),
    },
    uses=("lengths", "languages", "domains"),
    max_tokens=24,
    chance=None,
)
def state(entry: Entry, params: Params) -> Iterator[Probe]:
    """Every earlier place of the thing, and every place of the others, is a wrong answer."""
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("state", cell.seed))
        words, bank = wording(cell.language, "state"), anchor_words(cell.language)
        things = rng.sample(bank["things"], params["things"])
        routes = {thing: _route(rng, bank["places"], params["moves"] + 1) for thing in things}
        turn = rng.shuffled([thing for thing in things for _ in routes[thing]])
        places = spread(rng, len(turn))
        at = dict.fromkeys(things, 0)
        texts, anchors = [], []
        for thing, depth in zip(turn, places, strict=True):
            place = routes[thing][at[thing]]
            text = words["move" if at[thing] else "first"].format(thing=thing, place=place)
            last = at[thing] == params["moves"]
            texts.append(Insertion(text, depth))
            anchors.append(Anchor(thing, place, text, depth, asked=last and thing == things[0]))
            at[thing] += 1
        final = routes[things[0]][-1]
        seen = dict.fromkeys(place for route in routes.values() for place in route if place != final)
        asked = next(anchor for anchor in anchors if anchor.asked)
        yield in_document(
            cell,
            "length",
            "state",
            texts=texts,
            question=words["question"].format(thing=things[0]),
            expectation=Expectation(
                "anchor", answers=(final,), distractors=tuple(seen), chance=1 / (1 + len(seen))
            ),
            depth=asked.depth,
            max_tokens=24,
        )


def _route(rng: Rng, places: list[str], count: int) -> list[str]:
    """`count` places, no two alike in a row, and the last nowhere else."""
    last = rng.choice(places)
    route: list[str] = []
    while len(route) < count - 1:
        place = rng.choice(places)
        if place != last and (not route or place != route[-1]):
            route.append(place)
    return [*route, last]
