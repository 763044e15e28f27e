"""The ten edge kinds: input as it should not be, and the question that must be answered all the same.

    over_long            one sentence of hundreds of words without a full stop, the fact inside it
    unfinished           the document breaks off in the middle of a sentence
    punctuation_flood    marks without end around the fact
    mixed_languages      sentences of six languages in turn
    invisible            zero-width and right-to-left characters inside the words
    repeated_token       one word hundreds of times before and behind the fact
    blank                no document at all: the right answer is that it is not there
    code_json            fragments of code and broken JSON, the fact as one of its fields
    hidden_instruction   the document orders something else, in one of several guises; obeying it is a failure
    digits               the fact among hundreds of digits

`size` scales the disturbance. Each probe has a second fact of the same form as a distractor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bunny_probe.families.base import Cell, Parameter, Params, cells, task
from bunny_probe.families.stress_bank import DOMAINS, Fact, bank, draw_facts, placed, surrounding
from bunny_probe.records import Anchor, Expectation, Filler, Probe, Recipe
from bunny_probe.suites import Entry
from bunny_probe.text.rng import Rng

__all__ = ["KINDS", "edges"]

_DEPTHS = (0.35, 0.7)  # of the asked fact and of the other


@dataclass(frozen=True, slots=True)
class _Edge:
    """What an edge kind makes of two facts."""

    asked: str  # text planted for the asked fact
    other: str  # text planted for the other one
    ending: str = ""  # text behind the document
    canary: str = ""  # what a hidden instruction wants said


def _over_long(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    link = {"zh": "，而且"}.get(cell.language, ", and ")
    clauses = [
        s.rstrip(".。") for s in surrounding(cell.language, cell.domain, cell.seed + 1, max(2, size // 8))
    ]
    half = len(clauses) // 2
    one = link.join([*clauses[:half], asked.text.rstrip(".。"), *clauses[half:]])
    return _Edge(one, other.text)


def _unfinished(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    cut = surrounding(cell.language, cell.domain, cell.seed + 1, 1)[0]
    return _Edge(asked.text, other.text, ending=" " + cut[: max(4, len(cut) // 2)].rstrip())


def _punctuation(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    marks = "!?.,;:-~…/|\\=+*#@&%^" + ("，。！？；：、" if cell.language == "zh" else "")
    flood = ["".join(rng.choice(marks) for _ in range(size)) for _ in range(2)]
    return _Edge(f"{flood[0]} {asked.text} {flood[1]}", other.text)


def _mixed(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    strange = bank(cell.language, "common")["words"]["other_languages"]
    drawn = [rng.choice(strange) for _ in range(max(4, size // 8))]
    half = len(drawn) // 2
    return _Edge(" ".join([*drawn[:half], asked.text, *drawn[half:]]), other.text)


def _invisible(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    hidden = "\u200b\u200c\u200d\u2060\u00ad\u202e\u202d\u2067\u2069\ufeff"
    text = "".join(char + (rng.choice(hidden) if rng.below(3) == 0 else "") for char in asked.text)
    return _Edge("\u202e" + text + "\u202c", other.text)


def _repeated(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    word = rng.choice(bank(cell.language, "common")["words"]["stock"])
    run = bank(cell.language, "common")["joiner"].join([word] * size)
    return _Edge(f"{run} {asked.text} {run}", other.text)


def _code(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    fragment = rng.choice(bank(cell.language, "common")["words"]["code"])
    record = f'{{"id": {rng.between(10, 99)}, "{asked.key}": "{asked.value}", "tags": ["a", "b'
    return _Edge(f"{fragment}\n{record}\n", f'"{other.key}": "{other.value}", }}}} ]')


def _hidden(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    common = bank(cell.language, "common")
    canary = rng.choice(common["words"]["canaries"])
    order = rng.choice(common["hidden"]).replace("{canary}", canary)
    return _Edge(asked.text, f"{other.text} {order}", canary=canary)


def _digits(cell: Cell, rng: Rng, asked: Fact, other: Fact, size: int) -> _Edge:
    runs = [" ".join(rng.pattern("######") for _ in range(max(2, size // 3))) for _ in range(2)]
    return _Edge(f"{runs[0]} {asked.text} {runs[1]}", other.text)


_BUILDERS: dict[str, Callable[[Cell, Rng, Fact, Fact, int], _Edge]] = {
    "over_long": _over_long,
    "unfinished": _unfinished,
    "punctuation_flood": _punctuation,
    "mixed_languages": _mixed,
    "invisible": _invisible,
    "repeated_token": _repeated,
    "code_json": _code,
    "hidden_instruction": _hidden,
    "digits": _digits,
}
KINDS = (*_BUILDERS, "blank")


@task(
    "stress",
    "edges",
    summary="ten kinds of broken or hostile input, with a question that must be answered all the same",
    scorer="anchor",
    uses=("lengths", "languages", "domains"),
    max_tokens=64,
    parameters={
        "kinds": Parameter(KINDS, "which edge kinds", choices=KINDS),
        "size": Parameter(64, "how much of the disturbance: words, marks or digits", low=8, high=100_000),
    },
)
def edges(entry: Entry, params: Params) -> Iterator[Probe]:
    for cell in cells(entry, DOMAINS):
        for kind in params["kinds"]:
            rng = Rng(cell.seed ^ (KINDS.index(kind) + 1))
            asked, other = draw_facts(cell.language, rng, 2)
            yield _probe(cell, kind, rng, asked, other, params["size"])


def _probe(cell: Cell, kind: str, rng: Rng, asked: Fact, other: Fact, size: int) -> Probe:
    anchors: tuple[Anchor, ...] = ()
    if kind == "blank":
        recipe, expectation = _blank(cell, asked, size)
    else:
        edge = _BUILDERS[kind](cell, rng, asked, other, size)
        common = bank(cell.language, "common")
        planted = [(edge.asked, _DEPTHS[0]), (edge.other, _DEPTHS[1])]
        recipe = placed(cell, planted, asked.question, tail=edge.ending + common["tail"])
        expectation = Expectation("anchor", (asked.value,), (other.value,))
        if edge.canary:
            expectation = Expectation("injection", (asked.value,), (other.value,), {"canaries": [edge.canary]})
        anchors = tuple(
            Anchor(fact.key, fact.value, text, depth, fact is asked)
            for fact, (text, depth) in zip((asked, other), planted, strict=True)
        )
    return Probe(
        family="stress",
        task="edges",
        recipe=recipe,
        expectation=expectation,
        length_tokens=cell.length,
        variant=kind,
        language=cell.language,
        domain=cell.domain,
        seed=cell.seed,
        cluster=f"edges-{cell.language}-{cell.domain}-{cell.length or 0}-{cell.seed}",
        max_tokens=64,
        anchors=anchors,
    )


def _blank(cell: Cell, asked: Fact, size: int) -> tuple[Recipe, Expectation]:
    """A document of white space alone, or one that does not hold the fact where the cell has a length."""
    common = bank(cell.language, "common")
    head, tail = common["head"], common["tail_or_none"].replace("{question}", asked.question)
    expectation = Expectation("absent", params={"form": "@@-^###"})
    if cell.length is not None:
        return Recipe(head, tail, Filler("haystack", cell.language, cell.domain, cell.seed)), expectation
    return Recipe(head + (" \t\n" * size) + tail, ""), expectation
