"""Family length, the single fact: one anchor in a document, asked for at growing lengths."""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Cell, Parameter, Params, cells, derive_seed, task
from bunny_probe.families.planting import (
    VALUE_KINDS,
    ask,
    cluster_of,
    facts,
    filler_of,
    head_of,
    insertions,
    planted,
)
from bunny_probe.records import Expectation, Probe, Recipe
from bunny_probe.suites import Entry
from bunny_probe.text import Rng
from bunny_probe.text.haystack import domains
from bunny_probe.text.wording import wording

VALUE = Parameter("code", "what the planted value is", choices=VALUE_KINDS)


@task(
    "length",
    "single",
    summary="one planted fact, asked for: the plain decay with length",
    scorer="anchor",
    parameters={
        "value": VALUE,
        "distractors": Parameter(0, "other facts of the same form, spread evenly", low=0, high=30),
    },
    max_tokens=24,
)
def single(entry: Entry, params: Params) -> Iterator[Probe]:
    """The same document at every length; at each, the asked fact stands at each depth in turn."""
    for cell in cells(entry, domains(entry.languages[0])):
        yield from _single(cell, entry, params)


def _single(cell: Cell, entry: Entry, params: Params) -> Iterator[Probe]:
    count = 1 + params["distractors"]
    found = facts(Rng(derive_seed("facts", cell.seed)), cell.language, count, params["value"])
    others = [(index + 0.5) / max(count - 1, 1) for index in range(count - 1)]
    question = wording(cell.language, params["value"])["question"].format(key=found[0].key)
    for depth in entry.depths or (0.5,):
        places = [depth, *others]
        yield Probe(
            family="length",
            task="single",
            recipe=Recipe(
                head=head_of(cell),
                tail=ask(cell.language, question),
                filler=filler_of(cell),
                insertions=insertions(found, places),
            ),
            expectation=Expectation(
                "anchor", answers=(found[0].value,), distractors=tuple(fact.value for fact in found[1:])
            ),
            length_tokens=cell.length,
            depth=depth,
            language=cell.language,
            domain=cell.domain,
            seed=cell.seed,
            cluster=cluster_of(cell),
            max_tokens=24,
            anchors=planted(found, places, [0]),
        )
