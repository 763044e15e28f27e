"""Numbers in a folded text: digits, English words up to the billions, Chinese numerals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite

__all__ = ["Numeral", "numerals", "parse_number"]

_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d{1,3}(?![\w]))?|\.\d+"
_SMALL = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"  # noqa: SIM905
        " sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)  # noqa: SIM905
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_WORD = "|".join([*_SMALL, *_TENS, *_SCALES])
_WORDS = rf"\b(?:{_WORD})(?:(?:[\s-]|\sand\s){{1,2}}(?:{_WORD}))*\b"
_HAN_DIGITS = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_MYRIADS = {"万": 10**4, "亿": 10**8}
_HAN = r"[零〇一二两三四五六七八九十百千万亿]+(?:点[零〇一二三四五六七八九]+)?"
_NUMERAL = re.compile(rf"(?<![\w.])-?(?:{_DIGITS})(?![\d])|(?<=[^\W\d_])(?:{_DIGITS})(?![\d])|{_WORDS}|{_HAN}")
_LONGEST = 64  # characters of the longest numeral that is read


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number and where it stands in the folded text."""

    value: float
    start: int
    end: int


def numerals(folded: str) -> list[Numeral]:
    """Every number of a folded text, in order. `万` and `亿` behind digits multiply; `%` is left aside.

    Where a text holds digits, numbers in words are not read: "one of the 7" is about 7.
    """
    found = []
    for match in _NUMERAL.finditer(folded):
        value = parse_number(match[0])
        if value is None:
            continue
        end = match.end()
        if match[0][-1].isdigit() and folded[end : end + 1] in _HAN_MYRIADS:
            value *= _HAN_MYRIADS[folded[end]]
            end += 1
        found.append(Numeral(value, match.start(), end))
    digits = [n for n in found if any(map(str.isdecimal, folded[n.start : n.end]))]
    return digits or found


def parse_number(text: str) -> float | None:
    """The value of one numeral, or None when it is none (or longer than any sensible number)."""
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    try:
        if text[0] in _HAN_DIGITS or text[0] in _HAN_UNITS or text[0] in _HAN_MYRIADS:
            return _han(text)
        if text[0].isalpha():
            return _english(text)
        value = float(text.replace(",", ""))
    except (ValueError, OverflowError):
        return None
    return value if isfinite(value) else None


def _english(text: str) -> float | None:
    total = current = 0
    for word in re.split(r"[\s-]+", text):
        if word in _SMALL:
            current += _SMALL[word]
        elif word in _TENS:
            current += _TENS[word]
        elif word == "hundred":
            current = max(current, 1) * 100
        elif word in _SCALES:
            total, current = total + max(current, 1) * _SCALES[word], 0
        elif word != "and":
            return None
    return float(total + current)


def _han(text: str) -> float:
    whole, _, fraction = text.partition("点")
    if len(whole) > 1 and all(char in _HAN_DIGITS for char in whole):  # 二〇二四: digits one by one
        total: float = int("".join(str(_HAN_DIGITS[char]) for char in whole))
    else:
        total = section = digit = 0
        for char in whole:
            if char in _HAN_DIGITS:
                digit = _HAN_DIGITS[char]
            elif char in _HAN_UNITS:
                section, digit = section + (digit or 1) * _HAN_UNITS[char], 0
            else:
                total, section, digit = (total + section + digit or 1) * _HAN_MYRIADS[char], 0, 0
        total += section + digit
    if fraction:
        total += float("0." + "".join(str(_HAN_DIGITS[char]) for char in fraction))
    return float(total)
