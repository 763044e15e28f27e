"""Controlled damage to a text: what a typist, a scanner or a copy-and-paste does, in a stated amount.

`perturb` changes a share `intensity` of a text's units and keeps protected spans as they are. With the same
seed the units changed at 0.2 are among those changed at 0.5: sensitivity is read along one path of damage,
and not between unrelated texts. Intensity 0 is the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from bunny_probe.families.stress_bank import bank
from bunny_probe.text.rng import Rng

__all__ = ["KINDS", "perturb"]

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*")
_LETTERS = re.compile(rf"[^\W\d_{_CJK}]{{2,}}(?:['’][^\W\d_{_CJK}]+)*")
_WIDE = {chr(code): chr(code + 0xFEE0) for code in (*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B))}
_NARROW = {chr(code + 0xFEE0): chr(code) for code in map(ord, "!(),:;?")} | {"。": "."}
_OTHER_WIDTH = _WIDE | _NARROW
_SENTENCE_END = re.compile(r"[.!?]+(?:\s+|$)|[。！？]+\s*|\n+")

Change = Callable[[str, Rng, Mapping[str, str]], str]


def perturb(
    text: str, kind: str, intensity: float, *, seed: int, language: str = "en", protected: Sequence[str] = ()
) -> str:
    """The text with a share `intensity` (0 to 1) of its units changed; `protected` spans stay whole.

    Units are what the kind can change: words of two letters or more for `typo` and `spacing` (Chinese: the
    characters of the slips table, and all characters), words with a case for `case` (Chinese: marks, letters
    and digits, whose width changes), the words of the synonym table, and pairs of sentences for `order`.
    """
    if kind == "order":
        return _reordered(text, intensity, seed)
    tables = bank(language, "words")
    table: Mapping[str, str] = tables["synonyms"] if kind == "synonym" else tables["slips"]
    kept = [match.span() for span in protected if span for match in re.finditer(re.escape(span), text)]
    found = _units(kind, table).finditer(text)
    units = [m for m in found if not any(a < m.end() and m.start() < b for a, b in kept)]
    rng = Rng(seed)
    ranks = rng.shuffled(range(len(units)))
    draws = [rng.below(2**31) for _ in units]
    changed = round(intensity * len(units))
    pieces, done = [], 0
    for unit, rank, draw in zip(units, ranks, draws, strict=True):
        if rank < changed:
            pieces += [text[done : unit.start()], _CHANGES[kind](unit[0], Rng(draw), table)]
            done = unit.end()
    return "".join([*pieces, text[done:]])


def _typo(word: str, rng: Rng, slips: Mapping[str, str]) -> str:
    """A neighbouring key, two letters swapped, one lost or one doubled; in Chinese, a sound-alike."""
    if word in slips:
        return rng.choice(slips[word])
    at = rng.below(len(word) - 1)
    near = rng.choice(slips.get(word[at].lower(), word[at]))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    slipped = (word[:at] + near + word[at + 1 :], swapped, word[:at] + word[at + 1 :])[rng.below(3)]
    return slipped if slipped != word else word[:at] + word[at] + word[at:]


def _case(text: str, rng: Rng, _: Mapping[str, str]) -> str:
    """Every letter in a random case; a mark, letter or digit of an unspaced text in the other width."""
    if len(text) == 1 and text in _OTHER_WIDTH:
        return _OTHER_WIDTH[text]
    mixed = "".join(char.upper() if rng.below(2) else char.lower() for char in text)
    return mixed if mixed != text else text.swapcase()


def _spacing(word: str, rng: Rng, _: Mapping[str, str]) -> str:
    """A space too many: inside the word, or several behind it."""
    if len(word) > 1 and rng.below(2):
        at = rng.between(1, len(word) - 1)
        return f"{word[:at]} {word[at:]}"
    return word + " " * rng.between(1, 4)


def _synonym(word: str, rng: Rng, synonyms: Mapping[str, str]) -> str:
    other = synonyms[word.lower()] if word.lower() in synonyms else synonyms[word]
    return other[:1].upper() + other[1:] if word[:1].isupper() else other


@lru_cache(maxsize=64)
def _pattern(kind: str, listed: tuple[str, ...]) -> re.Pattern[str]:
    spaced = any(word.isascii() for word in listed)
    if kind == "synonym":
        options = "|".join(sorted(map(re.escape, listed), key=len, reverse=True))
        return re.compile(rf"\b(?:{options})\b" if spaced else options, re.IGNORECASE)
    if spaced:
        return _LETTERS if kind in ("typo", "case") else _WORD
    if kind == "typo":
        return re.compile("|".join(map(re.escape, listed)))
    return re.compile("[" + re.escape("".join(_OTHER_WIDTH)) + "]") if kind == "case" else _WORD


def _units(kind: str, table: Mapping[str, str]) -> re.Pattern[str]:
    """What of a text the kind can change, in the language of the table."""
    return _pattern(kind, tuple(table))


def _reordered(text: str, intensity: float, seed: int) -> str:
    """Neighbouring sentences swapped: a share `intensity` of the pairs."""
    borders = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    parts = [text[a:b] for a, b in pairwise(borders) if a < b]
    pairs = len(parts) // 2
    ranks = Rng(seed).shuffled(range(pairs))
    for pair, rank in enumerate(ranks):
        if rank < round(intensity * pairs):
            parts[2 * pair], parts[2 * pair + 1] = parts[2 * pair + 1], parts[2 * pair]
    return "".join(parts)


_CHANGES: dict[str, Change] = {"typo": _typo, "case": _case, "spacing": _spacing, "synonym": _synonym}
KINDS = (*_CHANGES, "order")
