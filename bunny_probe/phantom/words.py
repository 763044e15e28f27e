"""Words that mean nothing, for filling: deterministic, pronounceable, never a code or a number."""

from __future__ import annotations

from functools import cache

from bunny_probe.phantom.draws import digest

__all__ = ["filler", "others", "word"]

_LEXICON = 4096  # words that stand as alternatives of a token; a power of two

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


def others(salt: bytes, count: int, but: str) -> list[str]:
    """`count` different words for this salt, each with a space before it, none of them `but`."""
    known = _lexicon()
    start, step = (
        int.from_bytes(salt[:4], "big"),
        int.from_bytes(salt[4:6], "big") | 1,
    )  # odd: no word comes twice
    picked = (f" {known[(start + i * step) % _LEXICON]}" for i in range(min(count + 1, _LEXICON)))
    return [text for text in picked if text != but][:count]


@cache
def _lexicon() -> tuple[str, ...]:
    words = dict.fromkeys(word("lexicon", i) for i in range(_LEXICON + _LEXICON // 8))  # some come twice
    return tuple(words)[:_LEXICON]


def filler(key: tuple[object, ...], tokens: int) -> tuple[str, ...]:
    """`tokens` words, the first one bare and the others with a space before them."""
    return tuple(("" if i == 0 else " ") + word(*key, i) for i in range(tokens))
