"""Family position: several anchors at known depths in one document, each asked for in turn.

All questions about a document stand behind the very same text, so a server's prefix cache reads it once.
"""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
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

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


@task(
    "position",
    "single",
    summary="an anchor at each depth, each asked for in turn: recall by depth and length",
    scorer="anchor",
    parameters={
        "value": Parameter("code", "what the planted value is", choices=VALUE_KINDS),
        "near": Parameter(False, "keys that share their first word: hard distractors"),
        "rotations": Parameter(
            1,
            "documents a sample, the same anchors moved on by one depth in each: paired design",
            low=1,
            high=101,
        ),
    },
    max_tokens=24,
)
def single(entry: Entry, params: Params) -> Iterator[Probe]:
    """One anchor a depth; rotation r puts anchor i at the depth of number i + r."""
    depths = entry.depths or DEPTHS
    for cell in cells(entry, domains(entry.languages[0])):
        rng = Rng(derive_seed("facts", cell.seed))
        found = facts(rng, cell.language, len(depths), params["value"], near=params["near"])
        question = wording(cell.language, params["value"])["question"]
        for rotation in range(min(params["rotations"], len(depths))):
            order = [found[(index - rotation) % len(found)] for index in range(len(found))]
            for asked, (fact, depth) in enumerate(zip(order, depths, strict=True)):
                yield Probe(
                    family="position",
                    task="single",
                    recipe=Recipe(
                        head=head_of(cell),
                        tail=ask(cell.language, question.format(key=fact.key)),
                        filler=filler_of(cell),
                        insertions=insertions(order, depths),
                    ),
                    expectation=Expectation(
                        "anchor",
                        answers=(fact.value,),
                        distractors=tuple(other.value for other in order if other is not fact),
                    ),
                    length_tokens=cell.length,
                    depth=depth,
                    variant=f"rotation {rotation}" if params["rotations"] > 1 else "",
                    language=cell.language,
                    domain=cell.domain,
                    seed=cell.seed,
                    cluster=cluster_of(cell),
                    max_tokens=24,
                    anchors=planted(order, depths, [asked]),
                )
