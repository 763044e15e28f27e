"""Facts to plant: unique keys, unmistakable values, and the documents that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bunny_probe.families.base import Cell
from bunny_probe.records import Anchor, Filler, Insertion, content_hash
from bunny_probe.text import Rng
from bunny_probe.text.haystack import bank
from bunny_probe.text.wording import anchor_words, wording

__all__ = ["VALUE_KINDS", "Fact", "ask", "cluster_of", "facts", "filler_of", "head_of", "planted", "values"]

VALUE_KINDS = ("code", "word", "uuid", "sentence")


@dataclass(frozen=True, slots=True)
class Fact:
    """A key, its value, and the sentence that says so."""

    key: str
    value: str
    text: str


def facts(rng: Rng, language: str, count: int, kind: str = "code", *, near: bool = False) -> list[Fact]:
    """`count` facts with different keys and different values of one kind.

    With `near`, all keys share their first word ("Maple Harbor", "Maple Hollow"): hard distractors.
    """
    words = anchor_words(language)
    gap = " " if language == "en" else ""
    if near:
        first = rng.choice(words["key_first"])
        keys = [first + gap + second for second in rng.sample(words["key_second"], count)]
    else:
        # No word of a key returns in another while there are enough, so that a key is known by either.
        firsts, seconds = words["key_first"], words["key_second"]
        if count <= min(len(firsts), len(seconds)):
            pairs = zip(rng.sample(firsts, count), rng.sample(seconds, count), strict=True)
            keys = [first + gap + second for first, second in pairs]
        else:
            keys = rng.sample([first + gap + second for first in firsts for second in seconds], count)
    plant = wording(language, kind)["plant"]
    found = zip(keys, values(rng, language, count, kind), strict=True)
    return [Fact(key, value, plant.format(key=key, value=value)) for key, value in found]


def values(rng: Rng, language: str, count: int, kind: str) -> list[str]:
    """`count` different values; none stands inside another."""
    words = anchor_words(language)
    if kind == "word":
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


def filler_of(cell: Cell) -> Filler:
    return Filler("haystack", cell.language, cell.domain, cell.seed)


def cluster_of(cell: Cell) -> str:
    """The document's name. The same at every length: a longer document only goes on."""
    return content_hash(["document", cell.language, cell.domain, cell.seed], length=12)


def head_of(cell: Cell) -> str:
    title = bank(cell.language, cell.domain).title
    return str(wording(cell.language, "document")["head"].format(title=title))


def ask(language: str, question: str) -> str:
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
