"""Family length, aggregation: the answer is spread over the whole text, nothing can be skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bunny_probe.families.base import Cell, Parameter, Params, cells, task
from bunny_probe.families.planting import in_document
from bunny_probe.records import Expectation, Filler, Probe
from bunny_probe.suites import Entry
from bunny_probe.text.wording import wording
from bunny_probe.text.wordlists import coded_lists, frequent_words

__all__ = ["coded_words", "common_words"]


@task(
    "length",
    "common_words",
    summary="the most frequent words of many word lists",
    scorer="items",
    parameters={"count": Parameter(5, "words that are frequent, and asked for", low=1, high=10)},
    uses=("lengths", "languages"),
    max_tokens=64,
    chance=None,
    shortest=512,
)
def common_words(entry: Entry, params: Params) -> Iterator[Probe]:
    """The frequent words come about ten times as often as the others, at any length."""
    for cell in cells(entry):
        filler = Filler("common words", cell.language, "", cell.seed, {"count": params["count"]})
        yield _counted(cell, "common_words", filler, *frequent_words(filler))


@task(
    "length",
    "coded_words",
    summary="the three most frequent words of a text in a coded language",
    scorer="items",
    uses=("lengths", "languages"),
    max_tokens=64,
    chance=None,
    shortest=1024,
)
def coded_words(entry: Entry, params: Params) -> Iterator[Probe]:
    """Code words mean nothing: only counting helps. They come 16, 10 and 7 times as often as the rarest."""
    for cell in cells(entry):
        filler = Filler("coded words", cell.language, "", cell.seed)
        yield _counted(cell, "coded_words", filler, *coded_lists(filler))


def _counted(cell: Cell, name: str, filler: Filler, wanted: Sequence[str], others: Sequence[str]) -> Probe:
    words = wording(cell.language, name)
    return in_document(
        cell,
        "length",
        name,
        texts=(),
        question=words["question"].format(count=len(wanted)),
        expectation=Expectation(
            "items",
            answers=tuple(wanted),
            distractors=tuple(others),
            params={"limit": len(wanted)},
            chance=len(wanted) / (len(wanted) + len(others)),
        ),
        max_tokens=64,
        filler=filler,
        head=words["head"],
    )
