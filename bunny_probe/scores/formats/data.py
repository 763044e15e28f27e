"""Machine-readable answers: JSON, CSV, tags, dates, times, amounts and other fixed patterns."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.scores.formats.base import Verdict, checker, unfenced

_DEEPEST = 100  # nesting that is read; the parser's own limit depends on the machine
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def _parse(text: str) -> tuple[Any, str]:
    """The JSON value of the text, or (None, what is wrong)."""
    body = unfenced(text)
    depth = deepest = 0
    for char in body:
        depth += (char in "[{") - (char in "]}")
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        return None, f"nested deeper than {_DEEPEST}"
    try:
        return json.loads(body, parse_constant=lambda name: _refuse(name)), ""
    except (ValueError, RecursionError) as error:
        return None, f"not JSON: {error}"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_kind(value: Any, kind: str) -> bool:
    if kind not in _KINDS:
        raise UsageError(unknown_choice("JSON type", kind, _KINDS))
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind])


@checker("json_object", 'a JSON object; `keys` exactly these (key → type or "any"), or more with `extra`')
def json_object(
    text: str, *, keys: dict[str, str] | None = None, extra: bool = False, size: int | None = None
) -> Verdict:
    value, fault = _parse(text)
    if fault:
        return Verdict(False, fault)
    if not isinstance(value, dict):
        return Verdict(False, f"JSON, but {type(value).__name__} instead of an object")
    if keys is not None:
        fault = _key_fault(value, keys, extra)
        if fault:
            return Verdict(False, fault)
    if size is not None and len(value) != size:
        return Verdict(False, f"{len(value)} keys, wanted {size}")
    return Verdict(True, f"a JSON object with {len(value)} keys")


def _key_fault(value: Mapping[str, Any], keys: Mapping[str, str], extra: bool) -> str:
    missing = [key for key in keys if key not in value]
    if missing:
        return f"lacks the key {missing[0]!r}"
    surplus = [key for key in value if key not in keys]
    if surplus and not extra:
        return f"has the key {surplus[0]!r} besides"
    wrong = [key for key, kind in keys.items() if kind != "any" and not _is_kind(value[key], kind)]
    return f"{wrong[0]!r} is not of type {keys[wrong[0]]}" if wrong else ""


@checker("json_array", "a JSON array of `items` values of one `kind`, objects with `keys`")
def json_array(
    text: str, *, items: int | None = None, kind: str | None = None, keys: dict[str, str] | None = None
) -> Verdict:
    value, fault = _parse(text)
    if fault:
        return Verdict(False, fault)
    if not isinstance(value, list):
        return Verdict(False, f"JSON, but {type(value).__name__} instead of an array")
    if items is not None and len(value) != items:
        return Verdict(False, f"{len(value)} values, wanted {items}")
    for index, item in enumerate(value):
        if kind is not None and not _is_kind(item, kind):
            return Verdict(False, f"value {index + 1} is not of type {kind}")
        if keys is not None:
            fault = _key_fault(item, keys, False) if isinstance(item, dict) else "not an object"
            if fault:
                return Verdict(False, f"value {index + 1}: {fault}")
    return Verdict(True, f"a JSON array of {len(value)} values")


@checker("json_path", "a JSON object with a value of a type at a dotted path")
def json_path(text: str, *, path: str, kind: str) -> Verdict:
    value, fault = _parse(text)
    if fault:
        return Verdict(False, fault)
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return Verdict(False, f"nothing at {path!r} (stopped at {step!r})")
    return Verdict(_is_kind(value, kind), f"{type(value).__name__} at {path!r}, wanted {kind}")


@checker("csv_rows", "CSV of so many rows (with the header) and columns")
def csv_rows(
    text: str, *, rows: int, columns: int, delimiter: str = ",", header: list[str] | None = None
) -> Verdict:
    body = unfenced(text).splitlines()
    try:
        cells = [
            row for row in csv.reader(body, delimiter=delimiter, skipinitialspace=True, strict=True) if row
        ]
    except csv.Error as error:
        return Verdict(False, f"not CSV: {error}")
    if header is not None and (
        not cells or [c.strip().casefold() for c in cells[0]] != [h.casefold() for h in header]
    ):
        return Verdict(False, f"headed {', '.join(cells[0]) if cells else ''!r}, wanted {', '.join(header)!r}")
    widths = sorted({len(row) for row in cells})
    if widths != [columns]:
        return Verdict(False, f"rows of {widths} columns, wanted {columns}")
    if any(not cell.strip() for row in cells for cell in row):
        return Verdict(False, "an empty cell")
    return Verdict(len(cells) == rows, f"{len(cells)} rows, wanted {rows}")


@checker("tagged", "the answer stands in an XML-like tag; `children`: the tags inside it, in order")
def tagged(text: str, *, tag: str, children: list[str] | None = None) -> Verdict:
    body = unfenced(text)
    match = re.match(rf"<{re.escape(tag)}>", body)
    closing = f"</{tag}>"
    if not match or not body.endswith(closing) or body.count(closing) != 1:
        return Verdict(False, f"not one <{tag}> … {closing}")
    inside = body[match.end() : -len(closing)]
    if children is None:
        return Verdict(bool(inside.strip()), f"in <{tag}>")
    closed = set(re.findall(r"</(\w[\w-]*)>", inside))
    found = [name for name in re.findall(r"<(\w[\w-]*)>", inside) if name in closed]
    return Verdict(found == children, f"<{tag}> holds {found[:8]}, wanted {children}")


_DATES = {
    "YYYY-MM-DD": (r"\d{4}-\d{2}-\d{2}", "%Y-%m-%d"),
    "DD/MM/YYYY": (r"\d{2}/\d{2}/\d{4}", "%d/%m/%Y"),
    "MM/DD/YYYY": (r"\d{2}/\d{2}/\d{4}", "%m/%d/%Y"),
    "DD.MM.YYYY": (r"\d{2}\.\d{2}\.\d{4}", "%d.%m.%Y"),
    "YYYYMMDD": (r"\d{8}", "%Y%m%d"),
    "Month D, YYYY": (r"[A-Z][a-z]+ \d{1,2}, \d{4}", "%B %d, %Y"),
    "D Month YYYY": (r"\d{1,2} [A-Z][a-z]+ \d{4}", "%d %B %Y"),
    "YYYY年M月D日": (r"\d{4}年\d{1,2}月\d{1,2}日", "%Y年%m月%d日"),
    "HH:MM": (r"\d{2}:\d{2}", "%H:%M"),
    "HH:MM:SS": (r"\d{2}:\d{2}:\d{2}", "%H:%M:%S"),
    "h:MM AM": (r"\d{1,2}:\d{2} [AP]M", "%I:%M %p"),
    "YYYY-MM-DDTHH:MM:SSZ": (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", "%Y-%m-%dT%H:%M:%SZ"),
}


@checker("date", "the answer is one date or time in a stated form: " + ", ".join(_DATES))
def date(text: str, *, form: str) -> Verdict:
    if form not in _DATES:
        raise UsageError(unknown_choice("date form", form, _DATES))
    pattern, parse = _DATES[form]
    bare = text.strip("`'\"*. ")[:40]
    if not re.fullmatch(pattern, bare, re.ASCII):
        return Verdict(False, f"{bare!r} has not the form {form}")
    try:
        datetime.strptime(bare, parse)
    except ValueError:
        return Verdict(False, f"{bare!r} is no date or time")
    return Verdict(True, f"{bare!r} has the form {form}")


_PATTERNS = {
    "integer": r"-?\d+",
    "two_decimals": r"-?\d+\.\d{2}",
    "percent": r"\d+(?:\.\d+)?%",
    "thousands": r"\d{1,3}(?:,\d{3})+",
    "dollars": r"\$\d+(?:,\d{3})*(?:\.\d{2})?",
    "yuan": r"[\u00a5\uffe5]\d+(?:,\d{3})*(?:\.\d{2})?",
    "fraction": r"\d+/\d+",
    "scientific": r"-?\d\.\d+[eE][+-]?\d+",
    "range": r"\d+(?:-|–|~|至)\d+",
    "ratio": r"\d+:\d+",
    "phone": r"\d{3}-\d{3}-\d{4}",
    "hex_colour": r"#[0-9a-fA-F]{6}",
    "semver": r"\d+\.\d+\.\d+",
    "binary": r"[01]{2,}",
    "roman": r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})",
    "hashtag": r"#\w+",
    "email": r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",
    "yes_no": r"(?i:yes|no)|是|否",
    "true_false": r"(?i:true|false)|对|错|真|假",
    "single_word": r"[^\W_]+(?:[-'’][^\W_]+)*",
    "letter": r"[A-Za-z]",
    "score": r"\d{1,2}/10",
    "coordinates": r"-?\d{1,3}\.\d+,\s?-?\d{1,3}\.\d+",
    "han_numeral": r"[零〇一二两三四五六七八九十百千万亿]+",
    "stars": r"[★☆]{5}|[⭐]{1,5}|\*{1,5}",
}


@checker("pattern", "the answer has a named form and nothing beside it: " + ", ".join(_PATTERNS))
def pattern(text: str, *, form: str, full_stop: bool = True) -> Verdict:
    if form not in _PATTERNS:
        raise UsageError(unknown_choice("pattern", form, _PATTERNS))
    bare = text.strip()
    if full_stop:
        bare = bare.removesuffix(".").removesuffix("。")
    holds = len(bare) <= 200 and bare != "" and re.fullmatch(_PATTERNS[form], bare) is not None
    return Verdict(holds, f"{bare[:40]!r} against the form {form}")
