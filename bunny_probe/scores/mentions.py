"""Where a text names which values: whole, case and width aside, and however a code was split.

A value is found where its letters and digits stand in order, no letter or digit directly before or behind:
`QX-4471` is found in `**qx‑4471**`, `QX 4471`, `"QX4471"` and `Q X 4 4 7 1`, and not in `QX-44712` nor in
`QX-4471-B`. Words without a digit may not be split ("to get her" is not "together"). In Chinese and
Japanese, where words have no borders, the characters alone decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from bunny_probe.scores.text import CJK, LETTER, fold, squeeze

__all__ = ["Mention", "contains", "find", "find_spelled"]

_PIECE = re.compile(rf"[{CJK}]|{LETTER}+")
_CODE_LENGTH = 4  # shortest value with a digit that may be split


@dataclass(frozen=True, slots=True)
class Mention:
    """One place in a folded text that names a value."""

    start: int
    end: int
    value: int  # index into the values that were looked for


def find(folded: str, values: Sequence[str]) -> list[Mention]:
    """Every mention of `values` in a folded text, in order, none overlapping, the longest value first.

    Values that fold to the same letters are one value: the first of them is named.
    """
    bare = squeeze(folded)
    present: dict[str, int] = {}
    for index, value in enumerate(values):
        key = squeeze(fold(value)) or fold(value).strip()
        if key and key not in present and (key in bare or key in folded):
            present[key] = index
    if not present:
        return []
    ordered = sorted(present.items(), key=lambda item: (-len(item[0]), item[1]))
    firsts = "".join(sorted({re.escape(key[0]) for key, _ in ordered}))
    options = "|".join(f"({_pattern(values[index])})" for _, index in ordered)
    found = re.finditer(f"(?=[{firsts}])(?:{options})", folded)
    return [Mention(match.start(), match.end(), ordered[(match.lastindex or 1) - 1][1]) for match in found]


def find_spelled(folded: str, things: Sequence[str]) -> list[Mention]:
    """Every mention of `things`, each of which may hold several spellings parted by "|"."""
    spellings = [(spelling, index) for index, thing in enumerate(things) for spelling in thing.split("|")]
    found = find(folded, [spelling for spelling, _ in spellings])
    return [Mention(m.start, m.end, spellings[m.value][1]) for m in found]


def contains(folded: str, value: str) -> bool:
    """Whether a folded text names the value."""
    return bool(find(folded, [value]))


@lru_cache(maxsize=4096)
def _pattern(value: str) -> str:
    """The regular expression (without groups) of a value in a folded text. Bounded gaps: linear to match."""
    folded = fold(value)
    pieces = list(_PIECE.finditer(folded))
    if not pieces:
        return re.escape(folded.strip())
    code = any(map(str.isdigit, folded)) and len(squeeze(folded)) >= _CODE_LENGTH
    parts = [_border_before(pieces[0][0], code)]
    for index, piece in enumerate(pieces):
        if index:
            before = folded[pieces[index - 1].end() : piece.start()]
            parts.append(_gap(pieces[index - 1][0], before, piece[0]))
        parts.append(r"[ _.,\-]?".join(map(re.escape, piece[0])) if code else re.escape(piece[0]))
    parts.append(_border_behind(pieces[-1][0], code))
    return "".join(parts)


def _gap(left: str, between: str, right: str) -> str:
    """What may stand where the value has `between`."""
    mark = between.strip()
    if left[-1].isdigit() and right[0].isdigit() and mark and mark in ".,:":
        return rf"\s?{re.escape(mark)}\s?"  # 12.50 is not "12, 50"
    if re.match(f"[{CJK}]", left) and re.match(f"[{CJK}]", right) and not between:
        return r"\s?"
    return r"[\W_]{0,3}"


def _border_before(piece: str, code: bool) -> str:
    if re.match(f"[{CJK}]", piece):
        return ""
    tight = rf"(?<!{LETTER}[\-_])" if code else ""
    decimal = r"(?<!\d[.,])" if piece[0].isdigit() else ""
    return f"(?<!{LETTER}){tight}{decimal}"


def _border_behind(piece: str, code: bool) -> str:
    if re.match(f"[{CJK}]", piece):
        return ""
    tight = rf"(?![\-_]{LETTER})" if code else ""
    decimal = r"(?![.,]\d)" if piece[-1].isdigit() else ""
    return f"(?!{LETTER}){tight}{decimal}"
