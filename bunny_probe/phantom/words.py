"""Words that mean nothing, for filling: deterministic, pronounceable, never a code or a number."""

from __future__ import annotations

from bunny_probe.phantom.draws import digest

__all__ = ["filler", "word"]

_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gl",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "v",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_ENDS = ("", "l", "m", "n", "r", "s", "t", "nd")


def word(*key: object) -> str:
    """One word of two syllables for this key."""
    d = digest("word", *key)
    return "".join(
        _ONSETS[d[i] % len(_ONSETS)] + _VOWELS[d[i + 1] % len(_VOWELS)] + _ENDS[d[i + 2] % len(_ENDS)]
        for i in (0, 3)
    )


def filler(key: tuple[object, ...], tokens: int) -> tuple[str, ...]:
    """`tokens` words, the first one bare and the others with a space before them."""
    return tuple(("" if i == 0 else " ") + word(*key, i) for i in range(tokens))
