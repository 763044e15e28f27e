"""Facts to plant: unique keys, unmistakable values, and the documents that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bunny_probe.errors import SuiteError
from bunny_probe.families.base import Cell
from bunny_probe.records import Anchor, Expectation, Filler, Insertion, Probe, Recipe, content_hash
from bunny_probe.text import Rng
from bunny_probe.text.haystack import title
from bunny_probe.text.wording import anchor_words, wording

__all__ = [
    "NATURAL",
    "VALUE_KINDS",
    "Fact",
    "document_head",
    "document_tail",
    "facts",
    "in_document",
    "insertions",
    "planted",
    "spread",
    "values",
]

VALUE_KINDS = ("code", "word", "uuid", "sentence")
NATURAL = 1024  # prompt tokens of a document, where the suite names no length


@dataclass(frozen=True, slots=True)
class Fact:
    """A key, its value, and the sentence that says so."""

    key: str
    value: str
    text: str


def facts(
    rng: Rng, language: str, count: int, kind: str = "code", *, near: bool = False, plant: str = "plant"
) -> list[Fact]:
    """`count` facts with different keys and different values of one kind.

    With `near`, all keys share their first word ("Maple Harbor", "Maple Hollow"): hard distractors. `plant`
    names the template among the kind's texts.
    """
    template = wording(language, kind)[plant]
    found = zip(_keys(rng, language, count, near), values(rng, language, count, kind), strict=True)
    return [Fact(key, value, template.format(key=key, value=value)) for key, value in found]


def _keys(rng: Rng, language: str, count: int, near: bool) -> list[str]:
    words = anchor_words(language)
    firsts, seconds, gap = words["key_first"], words["key_second"], words["gap"]
    most = len(seconds) if near else len(firsts) * len(seconds)
    _enough("keys that share a word" if near else "keys", count, most)
    if near:
        first = rng.choice(firsts)
        return [first + gap + second for second in rng.sample(seconds, count)]
    # No word of a key returns in another while there are enough, so that a key is known by either.
    if count <= min(len(firsts), len(seconds)):
        pairs = zip(rng.sample(firsts, count), rng.sample(seconds, count), strict=True)
        return [first + gap + second for first, second in pairs]
    return rng.sample([first + gap + second for first in firsts for second in seconds], count)


def _enough(what: str, count: int, most: int) -> None:
    if count > most:
        raise SuiteError(f"{count} different {what} are needed; allowed: up to {most}")


def values(rng: Rng, language: str, count: int, kind: str) -> list[str]:
    """`count` different values; none stands inside another."""
    words = anchor_words(language)
    if kind == "word":
        _enough("values of kind 'word'", count, len(words["words"]))
        return rng.sample(words["words"], count)
    found: dict[str, None] = {}
    while len(found) < count:
        if kind == "code":
            found[rng.pattern("^####")] = None
        elif kind == "uuid":
            digits = "".join(rng.choice("0123456789abcdef") for _ in range(32))
            found["-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))] = None
        else:
            text = words["sentence"]
            for slot, items in (("colour", "colours"), ("word", "words"), ("verb", "verbs"), ("word", "words")):
                text = text.replace("{" + slot + "}", rng.choice(words[items]), 1)
            found[text] = None
    return list(found)


def in_document(
    cell: Cell,
    family: str,
    task: str,
    *,
    texts: Sequence[Insertion],
    question: str,
    expectation: Expectation,
    max_tokens: int,
    depth: float | None = None,
    variant: str = "",
    anchors: tuple[Anchor, ...] = (),
    filler: Filler | None = None,
    head: str | None = None,
) -> Probe:
    """A probe that asks a question about a document: filling text of the cell with `texts` planted in it."""
    return Probe(
        family=family,
        task=task,
        recipe=Recipe(
            head=document_head(cell) if head is None else head,
            tail=document_tail(cell.language, question),
            filler=filler or Filler("haystack", cell.language, cell.domain, cell.seed),
            insertions=tuple(texts),
        ),
        expectation=expectation,
        length_tokens=cell.length or NATURAL,
        depth=depth,
        variant=variant,
        language=cell.language,
        domain=cell.domain,
        seed=cell.seed,
        cluster=content_hash(["document", family, task, cell.language, cell.domain, cell.seed], length=12),
        max_tokens=max_tokens,
        anchors=anchors,
    )


def document_head(cell: Cell) -> str:
    named = title(cell.language, cell.domain)
    return str(wording(cell.language, "document")["head"].format(title=named))


def document_tail(language: str, question: str) -> str:
    """The text behind the document: the question as it is put."""
    return str(wording(language, "document")["answer"].format(question=question))


def planted(found: Sequence[Fact], depths: Sequence[float | None], asked: Sequence[int]) -> tuple[Anchor, ...]:
    """Anchors for facts at depths; `asked` are the indices of those that the question is about."""
    return tuple(
        Anchor(fact.key, fact.value, fact.text, depth, asked=index in asked)
        for index, (fact, depth) in enumerate(zip(found, depths, strict=True))
    )


def insertions(found: Sequence[Fact], depths: Sequence[float]) -> tuple[Insertion, ...]:
    return tuple(Insertion(fact.text, depth) for fact, depth in zip(found, depths, strict=True))


def spread(rng: Rng, count: int, low: float = 0.02, high: float = 0.98) -> list[float]:
    """`count` depths in rising order, one at a random place in each of `count` equal parts."""
    width = (high - low) / max(count, 1)
    return [round(low + width * (index + rng.below(1000) / 1000), 4) for index in range(count)]
