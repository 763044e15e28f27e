"""Filling text for counting tasks: word groups in which some words are more frequent by construction.

Words are dealt from shuffled decks, not drawn, so that at any length the wanted words lead by a margin:
the right answer does not depend on how much of the stream a prompt takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bunny_probe.records import Filler, content_hash
from bunny_probe.text.fillers import Source, filler
from bunny_probe.text.rng import Rng
from bunny_probe.text.wording import anchor_words

__all__ = ["coded_lists", "frequent_words"]

_GROUP = 8  # words a group
_FREQUENT_SHARE = 3  # of these, how many are frequent ones
_BLOCK = 128  # groups drawn at a time
_RANKS = (16, 10, 7)  # times that the leading code words stand in a deck
_COMMON, _RARE = 10, 24  # other code words in a deck: twice each, once each


def frequent_words(wanted: Filler) -> tuple[list[str], list[str]]:
    """(the frequent words, all the others) of a list of common words; `params["count"]` are frequent."""
    words = Rng(_seed("words", wanted)).shuffled(anchor_words(wanted.language)["words"])
    count = int(wanted.params["count"])
    return words[:count], words[count:]


def coded_lists(wanted: Filler) -> tuple[list[str], list[str]]:
    """(the three most frequent code words in falling order, all the others)."""
    rng = Rng(_seed("codes", wanted))
    found: dict[str, None] = {}
    while len(found) < len(_RANKS) + _COMMON + _RARE:
        found["".join(rng.choice("bcdfghjklmnpqrstvwxz") + rng.choice("aeiou") for _ in range(3))] = None
    words = list(found)
    return words[: len(_RANKS)], words[len(_RANKS) :]


@filler("common words")
def _common(wanted: Filler) -> Source:
    """Groups of words; `params["count"]` of the words stand in them about ten times as often as others."""
    frequent, rare = frequent_words(wanted)
    rng = Rng(_seed("stream", wanted))
    often, seldom = _deck(rng, frequent), _deck(rng, rare)
    closers = _closers(rare, wanted.language)

    def blocks() -> Iterator[list[str]]:
        while True:
            block = []
            for _ in range(_BLOCK):
                group = [next(often) for _ in range(_FREQUENT_SHARE)]
                group += [next(seldom) for _ in range(_GROUP - _FREQUENT_SHARE)]
                block.append(_written(rng.shuffled(group), wanted.language))
            yield block

    return Source(blocks(), closers)


@filler("coded words")
def _coded(wanted: Filler) -> Source:
    """Groups of code words; three stand out, in a fixed proportion to each other."""
    leading, others = coded_lists(wanted)
    deck = [word for word, times in zip(leading, _RANKS, strict=True) for _ in range(times)]
    deck += [word for word in others[:_COMMON] for _ in range(2)] + others[_COMMON:]
    dealt = _deck(Rng(_seed("stream", wanted)), deck)

    def blocks() -> Iterator[list[str]]:
        while True:
            yield [_written([next(dealt) for _ in range(_GROUP)], wanted.language) for _ in range(_BLOCK)]

    return Source(blocks(), _closers(others[_COMMON:], wanted.language))


def _deck(rng: Rng, cards: Sequence[str]) -> Iterator[str]:
    while True:
        yield from rng.shuffled(cards)


def _written(words: Sequence[str], language: str) -> str:
    signs = anchor_words(language)
    return str(signs["comma"].join(words) + signs["stop"])


def _closers(words: Sequence[str], language: str) -> tuple[str, ...]:
    """Short groups of rare words, each word in one group only.

    Every other one stands without commas: where a word and its comma are always two tokens, odd lengths
    could not be reached otherwise.
    """
    stop = anchor_words(language)["stop"]
    groups, start = [], 0
    for index, size in enumerate((1, 2, 1, 2, 2, 3, 3, 4, 5)):
        group = words[start : start + size]
        groups.append(" ".join(group) + stop if index % 2 else _written(group, language))
        start += size
    return tuple(groups)


def _seed(what: str, wanted: Filler) -> int:
    return int(content_hash([what, wanted.kind, wanted.language, wanted.seed], length=16), 16)
