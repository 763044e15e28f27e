"""Family position: anchors at known depths of one document, each asked for in turn.

All questions about a document stand behind the very same text, so a server's prefix cache reads it once.
"""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
from bunny_probe.families.planting import VALUE_KINDS, facts, in_document, insertions, planted, spread
from bunny_probe.records import Expectation, Insertion, Probe
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, domains
from bunny_probe.text.wording import wording

__all__ = ["DEPTHS", "from_end", "multi_key", "single"]

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_VALUE = Parameter("code", "what the planted value is", choices=VALUE_KINDS)
_NEAR = Parameter(False, "keys that share their first word: hard distractors")


def _room(kind: str) -> int:
    return 64 if kind == "uuid" else 32 if kind == "sentence" else 24


@task(
    "position",
    "single",
    summary="an anchor at each depth, each asked for in turn: recall by depth and length",
    scorer="anchor",
    parameters={
        "value": _VALUE,
        "near": _NEAR,
        "rotations": Parameter(
            1,
            "documents a sample, the anchors moved on by one depth in each: paired design",
            low=1,
            high=101,
        ),
    },
    max_tokens=24,
)
def single(entry: Entry, params: Params) -> Iterator[Probe]:
    """One anchor a depth; rotation r puts anchor i at the depth of number i + r."""
    depths = entry.depths or DEPTHS
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("facts", cell.seed))
        found = facts(rng, cell.language, len(depths), params["value"], near=params["near"])
        question = wording(cell.language, params["value"])["question"]
        for rotation in range(min(params["rotations"], len(depths))):
            order = [found[(index - rotation) % len(found)] for index in range(len(found))]
            for asked, (fact, depth) in enumerate(zip(order, depths, strict=True)):
                yield in_document(
                    cell,
                    "position",
                    "single",
                    texts=insertions(order, depths),
                    question=question.format(key=fact.key),
                    expectation=Expectation(
                        "anchor",
                        answers=(fact.value,),
                        distractors=tuple(other.value for other in order if other is not fact),
                    ),
                    depth=depth,
                    variant=f"rotation {rotation}" if params["rotations"] > 1 else "",
                    max_tokens=_room(params["value"]),
                    anchors=planted(order, depths, [asked]),
                )


@task(
    "position",
    "multi_key",
    summary="one asked anchor at each depth in turn, among anchors with other keys that stay where they are",
    scorer="anchor",
    parameters={
        "value": _VALUE,
        "near": _NEAR,
        "keys": Parameter(3, "anchors with other keys", low=0, high=200),
    },
    max_tokens=24,
)
def multi_key(entry: Entry, params: Params) -> Iterator[Probe]:
    """With keys = 0, the plain needle in a haystack: nothing else is planted."""
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("facts", cell.seed))
        found = facts(rng, cell.language, 1 + params["keys"], params["value"], near=params["near"])
        others = spread(rng, params["keys"])
        question = wording(cell.language, params["value"])["question"].format(key=found[0].key)
        for depth in entry.depths or DEPTHS:
            places = [depth, *others]
            yield in_document(
                cell,
                "position",
                "multi_key",
                texts=insertions(found, places),
                question=question,
                expectation=Expectation(
                    "anchor",
                    answers=(found[0].value,),
                    distractors=tuple(fact.value for fact in found[1:]),
                ),
                depth=depth,
                variant="near" if params["near"] else "",
                max_tokens=_room(params["value"]),
                anchors=planted(found, places, [0]),
            )


@task(
    "position",
    "from_end",
    summary="anchors at distances from the end, in tokens, each asked for in turn",
    scorer="anchor",
    parameters={
        "value": _VALUE,
        "near": _NEAR,
        "distances": Parameter(
            (0, 128, 256, 512, 1024), "tokens of filling text behind the anchor", low=0, high=1_048_576
        ),
    },
    uses=("lengths", "languages", "domains"),
    max_tokens=24,
)
def from_end(entry: Entry, params: Params) -> Iterator[Probe]:
    """Only distances that lie inside the document; one document holds an anchor at each of them."""
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("facts", cell.seed))
        everything = facts(rng, cell.language, len(params["distances"]), params["value"], near=params["near"])
        inside = [d for d in params["distances"] if cell.length is None or d < cell.length - _FRAME]
        found = everything[: len(inside)]
        texts = [Insertion(fact.text, from_end=d) for fact, d in zip(found, inside, strict=True)]
        question = wording(cell.language, params["value"])["question"]
        for asked, (fact, distance) in enumerate(zip(found, inside, strict=True)):
            yield in_document(
                cell,
                "position",
                "from_end",
                texts=texts,
                question=question.format(key=fact.key),
                expectation=Expectation(
                    "anchor",
                    answers=(fact.value,),
                    distractors=tuple(other.value for other in found if other is not fact),
                ),
                variant=f"{distance} from the end",
                max_tokens=_room(params["value"]),
                anchors=planted(found, [None] * len(found), [asked]),
            )


_FRAME = 200  # tokens that question, instructions and anchors may take: a distance must leave room for them
