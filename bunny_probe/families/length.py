"""Family length, planted facts: one, or several at once, asked for as the document grows."""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
from bunny_probe.families.planting import (
    VALUE_KINDS,
    facts,
    in_document,
    insertions,
    planted,
    spread,
)
from bunny_probe.records import Expectation, Probe
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, domains
from bunny_probe.text.wording import wording

__all__ = ["several", "single"]

_VALUE = Parameter("code", "what the planted value is", choices=VALUE_KINDS)


@task(
    "length",
    "single",
    summary="one planted fact, asked for: the plain decay with length",
    scorer="anchor",
    parameters={
        "value": _VALUE,
        "distractors": Parameter(0, "other facts of the same form, spread evenly", low=0, high=30),
        "near": Parameter(False, "keys that share their first word: hard distractors"),
    },
    max_tokens=24,
)
def single(entry: Entry, params: Params) -> Iterator[Probe]:
    """The same document at every length; in each, the asked fact stands at each depth in turn."""
    count = 1 + params["distractors"]
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("facts", cell.seed))
        found = facts(rng, cell.language, count, params["value"], near=params["near"])
        others = [(index + 0.5) / max(count - 1, 1) for index in range(count - 1)]
        question = wording(cell.language, params["value"])["question"].format(key=found[0].key)
        for depth in entry.depths or (0.5,):
            places = [depth, *others]
            yield in_document(
                cell,
                "length",
                "single",
                texts=insertions(found, places),
                question=question,
                expectation=Expectation(
                    "anchor",
                    answers=(found[0].value,),
                    distractors=tuple(fact.value for fact in found[1:]),
                ),
                depth=depth,
                max_tokens=64 if params["value"] == "uuid" else 24,
                anchors=planted(found, places, [0]),
            )


@task(
    "length",
    "several",
    summary="several planted facts, asked for in one question",
    scorer="items",
    parameters={
        "value": _VALUE,
        "asked": Parameter(3, "facts asked for", low=2, high=20),
        "distractors": Parameter(2, "further facts that are not asked for", low=0, high=30),
    },
    uses=("lengths", "languages", "domains"),
    max_tokens=96,
    chance=None,
)
def several(entry: Entry, params: Params) -> Iterator[Probe]:
    """A random answer gives as many planted values as were asked for: asked / planted of them are right."""
    asked, count = params["asked"], params["asked"] + params["distractors"]
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("facts", cell.seed))
        found = facts(rng, cell.language, count, params["value"])
        places = spread(rng, count)
        wanted = sorted(rng.sample(range(count), asked))
        words = wording(cell.language, "several")
        keys = words["comma"].join(found[index].key for index in wanted)
        yield in_document(
            cell,
            "length",
            "several",
            texts=insertions(found, places),
            question=words[params["value"]].format(keys=keys),
            expectation=Expectation(
                "items",
                answers=tuple(found[index].value for index in wanted),
                distractors=tuple(fact.value for index, fact in enumerate(found) if index not in wanted),
                params={"limit": asked},
                chance=asked / count,
            ),
            max_tokens=max(96, 40 * asked) if params["value"] in ("uuid", "sentence") else 24 * asked,
            anchors=planted(found, places, wanted),
        )
