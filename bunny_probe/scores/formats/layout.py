"""Indentation, line length, headings, tables, emphasis: how the text stands on the page."""

from __future__ import annotations

import re
from itertools import pairwise

from bunny_probe.scores.formats.base import Verdict, checker, lines, within
from bunny_probe.scores.text import fold, words

_BLANK_LINE = re.compile(r"\n[ \t]*\n")


@checker("indented", "every line after the first begins with so many spaces")
def indented(text: str, *, spaces: int) -> Verdict:
    rows = [row for row in text.expandtabs(4).splitlines() if row.strip()]
    # the outer white space of an answer is stripped before it is read: the first line shows no indentation
    for row in rows[1:]:
        indent = len(row) - len(row.lstrip(" "))
        if indent != spaces:
            return Verdict(False, f"line {row.strip()[:30]!r} is indented by {indent}, wanted {spaces}")
    if len(rows) < 2:
        return Verdict(False, f"{len(rows)} lines show no indentation")
    return Verdict(True, f"{len(rows) - 1} lines indented by {spaces}")


@checker("staircase", "each line is indented by `step` more spaces than the one before")
def staircase(text: str, *, step: int, at_least: int = 2) -> Verdict:
    rows = [row for row in text.expandtabs(4).splitlines() if row.strip()]
    for number, row in enumerate(rows):
        indent = len(row) - len(row.lstrip(" "))
        if number and indent != number * step:
            return Verdict(False, f"line {number + 1} is indented by {indent}, wanted {number * step}")
    return within(len(rows), "lines", None, at_least, None)


@checker("line_length", "no line is longer than so many characters")
def line_length(text: str, *, at_most: int, at_least: int = 0) -> Verdict:
    for number, row in enumerate(lines(text), 1):
        if not at_least <= len(row) <= at_most:
            return Verdict(False, f"line {number} has {len(row)} characters, wanted {at_least} to {at_most}")
    return Verdict(bool(text), f"every line has {at_least} to {at_most} characters" if text else "empty")


@checker("headings", "Markdown headings of one level")
def headings(text: str, *, items: int, level: int = 2) -> Verdict:
    found = re.findall(rf"(?m)^#{{{level}}}[ \t]+\S", text)
    return Verdict(len(found) == items, f"{len(found)} headings of level {level}, wanted {items}")


@checker("starts_with_heading", "the first line is a Markdown heading")
def starts_with_heading(text: str, *, level: int = 1) -> Verdict:
    first = text.splitlines()[0] if text else ""
    holds = re.match(rf"#{{{level}}}[ \t]+\S", first) is not None and len(lines(text)) > 1
    return Verdict(holds, f"first line is {first[:40]!r}")


@checker("marked", "so many spans between a pair of marks, such as ** for bold")
def marked(
    text: str,
    *,
    left: str,
    right: str | None = None,
    exactly: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
) -> Verdict:
    right = right if right is not None else left
    count, at = 0, 0
    while (start := text.find(left, at)) >= 0:
        end = text.find(right, start + len(left))
        if end < 0:
            break
        count += bool(text[start + len(left) : end].strip())
        at = end + len(right)
    return within(count, f"spans in {left}{right}", exactly, at_least, at_most)


@checker("wrapped", "the whole answer stands between two marks")
def wrapped(text: str, *, left: str, right: str | None = None) -> Verdict:
    right = right if right is not None else left
    inside = text[len(left) : -len(right)] if len(text) > len(left) + len(right) else ""
    holds = text.startswith(left) and text.endswith(right) and bool(inside.strip()) and left not in inside
    return Verdict(holds, f"begins {text[:12]!r}, ends {text[-12:]!r}, wanted {left!r} … {right!r}")


@checker("code_block", "exactly one fenced code block; `language` after the fence; `only`: nothing beside it")
def code_block(text: str, *, language: str | None = None, only: bool = False) -> Verdict:
    blocks = re.findall(r"(?m)^```([\w+-]*)[ \t]*\n(?:(?!```)[^\n]*\n)*```[ \t]*$", text)
    if len(blocks) != 1:
        return Verdict(False, f"{len(blocks)} code blocks, wanted one")
    if language is not None and blocks[0].casefold() != language.casefold():
        return Verdict(False, f"the block is marked {blocks[0]!r}, wanted {language!r}")
    if only and not (text.startswith("```") and text.endswith("```")):
        return Verdict(False, "there is text beside the code block")
    return Verdict(True, "one code block")


@checker("quote_block", "every line begins with >")
def quote_block(text: str, *, items: int | None = None) -> Verdict:
    rows = lines(text)
    if not rows or any(not re.match(r">\s?\S", row) for row in rows):
        return Verdict(False, "a line does not begin with '>'")
    return Verdict(
        items is None or len(rows) == items,
        f"{len(rows)} quoted lines" + (f", wanted {items}" if items else ""),
    )


@checker("table", "a Markdown table of so many rows (without the heading) and columns")
def table(text: str, *, rows: int, columns: int, header: list[str] | None = None) -> Verdict:
    cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in lines(text) if "|" in row]
    rule = [index for index, row in enumerate(cells) if all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    if rule != [1]:
        return Verdict(False, "no heading with a rule under it")
    body = cells[2:]
    if any(len(row) != columns for row in [cells[0], *body]):
        return Verdict(False, f"rows of {sorted({len(row) for row in cells})} columns, wanted {columns}")
    if header is not None and [fold(cell) for cell in cells[0]] != [fold(cell) for cell in header]:
        return Verdict(False, f"headed {', '.join(cells[0])[:40]!r}, wanted {', '.join(header)!r}")
    return Verdict(len(body) == rows, f"{len(body)} rows, wanted {rows}")


@checker("blank_lines", "every two lines of text are parted by exactly so many blank lines")
def blank_lines(text: str, *, between: int, at_least: int = 2) -> Verdict:
    rows = [bool(row.strip()) for row in text.splitlines()]
    filled = [index for index, full in enumerate(rows) if full]
    gaps = {right - left - 1 for left, right in pairwise(filled)}
    if len(filled) < at_least:
        return Verdict(False, f"{len(filled)} lines, wanted at least {at_least}")
    return Verdict(gaps <= {between}, f"lines parted by {sorted(gaps)} blank lines, wanted {between}")


@checker("paragraph_openings", "the paragraphs begin with these words, in order")
def paragraph_openings(text: str, *, words_: list[str]) -> Verdict:
    parts = [words(fold(part)) for part in _BLANK_LINE.split(text) if part.strip()]
    wanted = [words(fold(word)) for word in words_]
    holds = len(parts) == len(wanted) and all(p[: len(w)] == w for p, w in zip(parts, wanted, strict=False))
    return Verdict(holds, f"{len(parts)} paragraphs that begin {[' '.join(p[:2]) for p in parts][:4]}")
