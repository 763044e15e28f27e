"""Numbering, bullets, nesting, separators, order."""

from __future__ import annotations

import re
from itertools import pairwise

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.scores.formats.base import Verdict, checker, lines
from bunny_probe.scores.numerals import numerals
from bunny_probe.scores.text import CJK, fold, words

_ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX".split()  # noqa: SIM905
_HAN = list("一二三四五六七八九十") + [f"十{d}" for d in "一二三四五六七八九"] + ["二十"]
_CIRCLED = [chr(0x2460 + i) for i in range(20)]
_LETTERS = [chr(ord("a") + i) for i in range(20)]
_COUNTS = [str(i) for i in range(1, 21)]
# Chinese typing gives full-width marks; a numbering is the same with either
_RUN = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+(?:[-'][^\W_{CJK}]+)*")
_NARROW = {0xFF1A: ":", 0xFF08: "(", 0xFF09: ")", 0xFF0E: "."}
# style → (labels in order, text before the label, text behind it)
_STYLES: dict[str, tuple[list[str], str, str]] = {
    "1.": (_COUNTS, "", "."),
    "1)": (_COUNTS, "", ")"),
    "(1)": (_COUNTS, "(", ")"),
    "1:": (_COUNTS, "", ":"),
    "1、": (_COUNTS, "", "、"),
    "[1]": (_COUNTS, "[", "]"),
    "#1": (_COUNTS, "#", ""),
    "①": (_CIRCLED, "", ""),
    "a)": (_LETTERS, "", ")"),
    "a.": (_LETTERS, "", "."),
    "A.": ([label.upper() for label in _LETTERS], "", "."),
    "A)": ([label.upper() for label in _LETTERS], "", ")"),
    "I.": (_ROMAN, "", "."),
    "i.": ([label.lower() for label in _ROMAN], "", "."),
    "i)": ([label.lower() for label in _ROMAN], "", ")"),
    "一、": (_HAN, "", "、"),
    "(一)": (_HAN, "(", ")"),
    "第一": (_HAN, "第", ""),
    "Step 1:": (_COUNTS, "Step ", ":"),
    "第1步:": (_COUNTS, "第", "步:"),
}


def _count(item: str) -> int:
    """Words of an item; a run of unspaced characters is one."""
    return len(_RUN.findall(item))


@checker("numbered_list", "items numbered in order in a style; `only`: nothing beside; `words`: most an item")
def numbered_list(
    text: str, *, items: int | None = None, style: str = "1.", only: bool = False, words: int = 0
) -> Verdict:
    if style not in _STYLES:
        raise UsageError(unknown_choice("numbering style", style, _STYLES))
    labels, before, behind = _STYLES[style]
    found = 0
    for row in lines(text):
        plain = row.strip().translate(_NARROW).replace("**", "")
        mark = f"{before}{labels[found]}{behind}" if found < len(labels) else "\0"
        rest = plain.removeprefix(mark)
        # "1.5" is no item, "1.猫" is one
        begins = rest != plain and rest.strip() and not rest[0].isdigit()
        if begins:
            found += 1
            if words and _count(rest) > words:
                return Verdict(False, f"item {found} has {_count(rest)} words, wanted at most {words}")
        elif only:
            return Verdict(False, f"line {row[:30]!r} is not item {found + 1} in the style {style!r}")
    if items is not None and found != items:
        return Verdict(False, f"{found} items numbered in the style {style!r}, wanted {items}")
    return Verdict(found > 0, f"{found} items numbered in the style {style!r}")


@checker("bulleted_list", "items that begin with a mark; `only`: nothing beside; `words`: most an item")
def bulleted_list(
    text: str, *, items: int | None = None, mark: str = "-", only: bool = False, words: int = 0
) -> Verdict:
    rows = [row.strip() for row in lines(text)]
    body = [row for row in rows if row.startswith(mark) and row[len(mark) :].strip(" *") != ""]
    if only and len(body) != len(rows):
        other = next(row for row in rows if row not in body)
        return Verdict(False, f"line {other[:30]!r} does not begin with {mark!r}")
    longest = max((_count(row) for row in body), default=0)
    if words and longest > words:
        return Verdict(False, f"an item has {longest} words, wanted at most {words}")
    if items is not None and len(body) != items:
        return Verdict(False, f"{len(body)} lines begin with {mark!r}, wanted {items}")
    return Verdict(bool(body), f"{len(body)} lines begin with {mark!r}")


@checker("nested_list", "a list of `items` with exactly `children` indented sub-items under each")
def nested_list(text: str, *, items: int, children: int, levels: int = 2) -> Verdict:
    listed = [row for row in lines(text) if re.match(r"\s*(?:[-*+•]|\d{1,2}[.)]|[a-z][.)])\s+\S", row)]
    if not listed:
        return Verdict(False, "no list items")
    depths = [len(row.expandtabs(4)) - len(row.expandtabs(4).lstrip()) for row in listed]
    order = {indent: level for level, indent in enumerate(sorted(set(depths)))}
    shape = [order[indent] for indent in depths]
    if len(order) != levels:
        return Verdict(False, f"{len(order)} levels of indentation, wanted {levels}")
    top = [index for index, level in enumerate(shape) if level == 0]
    if len(top) != items or shape[0] != 0:
        return Verdict(False, f"{len(top)} items at the first level, wanted {items}")
    for start, end in zip(top, [*top[1:], len(shape)], strict=True):
        count = shape[start:end].count(1)
        if count != children:
            return Verdict(False, f"{count} sub-items under item {top.index(start) + 1}, wanted {children}")
    return Verdict(True, f"{items} items with {children} sub-items each, {levels} levels")


@checker("separated", "one line of `items` parts, parted by a separator and nothing else; `words`: most a part")
def separated(text: str, *, items: int, separator: str = ",", tight: bool = False, words: int = 0) -> Verdict:
    rows = lines(text)
    if len(rows) != 1:
        return Verdict(False, f"{len(rows)} lines, wanted one")
    parts = rows[0].rstrip(".。").split(separator)
    if any(not part.strip() for part in parts):
        return Verdict(False, "an empty part")
    if tight and any(part != part.strip() for part in parts):
        return Verdict(False, f"a space beside {separator!r}")
    longest = max(map(_count, parts))
    if words and longest > words:
        return Verdict(False, f"a part has {longest} words, wanted at most {words}")
    return Verdict(len(parts) == items, f"{len(parts)} parts parted by {separator!r}, wanted {items}")


@checker("checklist", "lines with a tick box, `[ ]` or `[x]`")
def checklist(text: str, *, items: int, ticked: int = 0) -> Verdict:
    boxes = re.findall(r"(?m)^[ \t]*(?:[-*][ \t]*)?\[([ xX])\][ \t]+\S", text)
    done = sum(box in "xX" for box in boxes)
    if len(boxes) != items:
        return Verdict(False, f"{len(boxes)} boxes, wanted {items}")
    return Verdict(done == ticked, f"{done} of {items} ticked, wanted {ticked}")


@checker("key_value", "every line is `key: value`; `keys` in their order, when given")
def key_value(
    text: str, *, keys: list[str] | None = None, items: int | None = None, separator: str = ":"
) -> Verdict:
    rows = [row.translate(_NARROW) if separator == ":" else row for row in lines(text)]
    pairs = [row.partition(separator) for row in rows]
    for (key, mark, value), row in zip(pairs, rows, strict=True):
        if not (key.strip() and mark and value.strip()):
            return Verdict(False, f"line {row[:30]!r} is not key{separator} value")
    names = [fold(key).strip(" -*\t") for key, _, _ in pairs]
    if keys is not None and names != [fold(key) for key in keys]:
        return Verdict(False, f"keys {', '.join(names)[:60]}, wanted {', '.join(keys)}")
    if items is not None and len(pairs) != items:
        return Verdict(False, f"{len(pairs)} pairs, wanted {items}")
    return Verdict(bool(pairs), f"{len(pairs)} pairs")


_ORDERS = ("alphabetical", "reverse_alphabetical", "ascending", "descending", "longer", "shorter")


@checker("ordered", "the items are in a stated order: " + ", ".join(_ORDERS))
def ordered(text: str, *, by: str, items: int | None = None, separator: str = "\n") -> Verdict:
    if by not in _ORDERS:
        raise UsageError(unknown_choice("order", by, _ORDERS))
    parts = [part.strip(" \t-*•.。,") for part in text.split(separator) if part.strip()]
    parts = [re.sub(r"^\d{1,2}[.)、]\s*", "", part) for part in parts] if by not in _ORDERS[2:4] else parts
    if items is not None and len(parts) != items:
        return Verdict(False, f"{len(parts)} items, wanted {items}")
    if len(parts) < 2:
        return Verdict(False, f"{len(parts)} items show no order")
    keys: list[float] | list[str]
    if by in ("ascending", "descending"):
        found = [numerals(fold(part)) for part in parts]
        if not all(found):
            return Verdict(False, f"no number in {parts[found.index([])][:30]!r}")
        keys = [numbers[0].value for numbers in found]
    elif by in ("longer", "shorter"):
        keys = [
            float(len(words(fold(part))) * 1000 + len(part)) if " " in text else float(len(part))
            for part in parts
        ]
    else:
        keys = [fold(part) for part in parts]
    falling = by in ("descending", "shorter", "reverse_alphabetical")
    strict = by in ("longer", "shorter")
    for index, (left, right) in enumerate(pairwise(keys)):
        low, high = (right, left) if falling else (left, right)
        if low > high or (strict and low == high):  # type: ignore[operator]
            return Verdict(False, f"{parts[index + 1][:30]!r} breaks the order")
    return Verdict(True, f"{len(parts)} items in order")


@checker("acrostic", "the first letters of the lines (Chinese: characters) spell a word")
def acrostic(text: str, *, word: str) -> Verdict:
    firsts = "".join(w[0][0] for line in lines(text) if (w := words(fold(line))))
    return Verdict(firsts == fold(word), f"first letters spell {firsts[:30]!r}, wanted {word!r}")
