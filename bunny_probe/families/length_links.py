"""Family length, links: walking a graph that is told edge by edge, and a hop over common knowledge."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
from bunny_probe.families.length_documents import people
from bunny_probe.families.planting import Fact, in_document, insertions, planted, spread
from bunny_probe.records import Expectation, Insertion, Probe
from bunny_probe.resources import resource_dir
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, domains
from bunny_probe.text.wording import wording

__all__ = ["frontier", "graph", "latent_hop"]

Edges = Sequence[tuple[str, str]]


@task(
    "length",
    "graph",
    summary="a directed graph told edge by edge: what is reached in exactly so many steps",
    scorer="items",
    parameters={
        "nodes": Parameter(12, "stations", low=6, high=200),
        "edges": Parameter(20, "tunnels", low=6, high=600),
        "steps": Parameter(2, "steps from the start", low=1, high=8),
    },
    uses=("lengths", "languages", "domains"),
    max_tokens=64,
    chance=None,
)
def graph(entry: Entry, params: Params) -> Iterator[Probe]:
    """Breadth-first search; a random answer names as many stations as there are right ones."""
    most = params["nodes"] * (params["nodes"] - 1) // 2
    if not params["steps"] <= params["edges"] <= most:
        message = (
            f"allowed with {params['nodes']} nodes and {params['steps']} steps: {params['steps']} to {most}"
        )
        raise SuiteError(message, file=entry.where, key="params.edges")
    if params["steps"] >= params["nodes"]:
        message = f"allowed with {params['nodes']} nodes: up to {params['nodes'] - 1}"
        raise SuiteError(message, file=entry.where, key="params.steps")
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("graph", cell.seed))
        words = wording(cell.language, "graph")
        names, edges, start, reached = _graph(rng, params["nodes"], params["edges"], params["steps"])
        places = spread(rng, len(edges))
        texts = [words["edge"].format(start=a, end=b) for a, b in edges]
        others = [name for name in names if name not in reached and name != start]
        yield in_document(
            cell,
            "length",
            "graph",
            texts=[Insertion(text, place) for text, place in zip(texts, places, strict=True)],
            question=words["question"].format(start=start, steps=params["steps"]),
            expectation=Expectation(
                "items",
                answers=tuple(reached),
                distractors=tuple(others),
                params={"limit": len(reached)},
                chance=len(reached) / (len(reached) + len(others)),
            ),
            max_tokens=12 * len(reached) + 24,
        )


def _graph(rng: Rng, nodes: int, edges: int, steps: int) -> tuple[list[str], Edges, str, list[str]]:
    """(stations, tunnels, start, stations at exactly `steps`), with one to five of the last."""
    names: dict[str, None] = {}
    while len(names) < nodes:
        names[rng.pattern("@@^#")] = None
    listed = list(names)
    for _ in range(1000):
        # a walk of the wanted depth first, so that there is an answer; then edges at random
        walk = rng.sample(listed, steps + 1)
        found = dict.fromkeys(pairwise(walk))
        while len(found) < edges:
            a, b = rng.sample(listed, 2)
            if (b, a) not in found:
                found[a, b] = None
        reached = frontier(list(found), walk[0], steps)
        if 1 <= len(reached) <= 5:
            return listed, rng.shuffled(list(found)), walk[0], reached
    raise SuiteError(
        f"{edges} edges over {nodes} nodes leave no answer at {steps} steps; allowed: fewer of either"
    )


def frontier(edges: Edges, start: str, steps: int) -> list[str]:
    """Nodes whose shortest distance from `start` is `steps`, in order of name."""
    seen, level = {start}, {start}
    for _ in range(steps):
        level = {b for a, b in edges if a in level} - seen
        seen |= level
    return sorted(level)


@task(
    "length",
    "latent_hop",
    summary="question and fact share no content word: common knowledge links them",
    scorer="anchor",
    parameters={"distractors": Parameter(3, "people of whom something else is told", low=0, high=10)},
    uses=("lengths", "depths", "languages", "domains"),
    max_tokens=24,
    chance=None,
)
def latent_hop(entry: Entry, params: Params) -> Iterator[Probe]:
    """A random answer is one of the people that the planted facts name."""
    count = 1 + params["distractors"]
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("hops", cell.seed))
        table = hops(cell.language)
        chosen = rng.sample(table["hops"], count)
        found = [
            Fact(name, name, table["plant"].format(person=name, fact=hop["fact"]))
            for name, hop in zip(people(rng, cell.language, count), chosen, strict=True)
        ]
        others = spread(rng, count - 1)
        question = wording(cell.language, "latent_hop")["question"]
        for depth in entry.depths or (0.5,):
            places = [depth, *others]
            yield in_document(
                cell,
                "length",
                "latent_hop",
                texts=insertions(found, places),
                question=question.format(question=chosen[0]["question"]),
                expectation=Expectation(
                    "anchor",
                    answers=(found[0].value,),
                    distractors=tuple(fact.value for fact in found[1:]),
                    chance=1 / count,
                ),
                depth=depth,
                max_tokens=24,
                anchors=planted(found, places, [0]),
            )


@lru_cache(maxsize=1)
def _hops() -> Mapping[str, Any]:
    with (resource_dir("data") / "latent_hops.toml").open("rb") as file:
        return tomllib.load(file)


def hops(language: str) -> Mapping[str, Any]:
    """The table of facts and the questions that common knowledge links to them, in one language."""
    if language not in _hops():
        raise SuiteError(unknown_choice("language of latent_hops.toml", language, _hops()))
    table: Mapping[str, Any] = _hops()[language]
    return table
