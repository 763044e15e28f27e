"""Suite files: TOML in, a validated structure out.

    name, description, seed
    [defaults]              what every [[probe]] table takes unless it says otherwise
    [[probe]]               family, task, lengths, depths, languages, domains, samples, repeats, seed,
                            decoding = {…}, params = {…}

This module knows the shape of a suite and no task: whether a task exists and takes a parameter is for
`bunny_probe.families` to say. Every fault is a `SuiteError` with the file, the key and what is allowed.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.records import Decoding
from bunny_probe.resources import resource_dir

__all__ = ["MAX_LENGTH", "MIN_LENGTH", "Entry", "Suite", "bundled", "load", "parse", "spread_depths"]

MIN_LENGTH, MAX_LENGTH = 64, 1_048_576  # prompt tokens

_SUITE_KEYS = ("name", "description", "seed", "defaults", "probe")
_SHARED_KEYS = ("lengths", "depths", "languages", "domains", "samples", "repeats", "seed", "decoding")
_ENTRY_KEYS = ("family", "task", *_SHARED_KEYS, "params")
_DECODING: dict[str, tuple[type, float, float]] = {
    "max_tokens": (int, 1, 131_072),
    "temperature": (float, 0, 2),
    "top_p": (float, 0, 1),
    "seed": (int, 0, 2**53 - 1),
    "frequency_penalty": (float, -2, 2),
    "presence_penalty": (float, -2, 2),
    "repetition_penalty": (float, 0.01, 10),
    "top_logprobs": (int, 0, 20),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One [[probe]] table of a suite file, with the defaults filled in."""

    family: str
    task: str
    lengths: tuple[int, ...] = ()  # prompt tokens as the server counts them; empty: natural length
    depths: tuple[float, ...] = ()  # 0 start to 1 end; empty: the task's own
    languages: tuple[str, ...] = ("en",)
    domains: tuple[str, ...] = ()  # empty: the samples take turns through the task's domains
    samples: int = 1  # distinct documents a cell
    repeats: int = 1  # times each probe is asked
    seed: int = 0
    decoding: Decoding = field(default_factory=Decoding)
    max_tokens: int | None = None  # as the suite says it; None: the task's own
    params: Mapping[str, Any] = field(default_factory=dict)  # the task's own parameters, not checked here
    where: str = ""  # "quick.toml: probe[2]", for messages
    folder: Path = field(default_factory=Path)  # where the suite file lies: paths in `params` start there


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    description: str
    file: Path
    entries: tuple[Entry, ...]


def bundled() -> dict[str, Path]:
    """The suites that come with the library: name → file."""
    return {path.stem: path for path in sorted(resource_dir("probes").glob("*.toml"))}


def load(path_or_name: str | Path) -> Suite:
    """A suite by the name of a bundled one or by its path.

    Raises `SuiteError` for a name that is neither, and for every fault in the file.
    """
    known = bundled()
    path = known.get(str(path_or_name), Path(path_or_name))
    if not path.is_file():
        given = str(path_or_name)
        if path.suffix or "/" in given:
            raise SuiteError(f"there is no such file. Bundled suites: {', '.join(known)}", file=given)
        raise SuiteError(unknown_choice("suite", given, known))
    try:
        text = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise SuiteError(f"cannot be read as UTF-8 text ({error})", file=str(path)) from None
    return parse(text, path)


def parse(text: str, path: Path) -> Suite:
    """The suite that a TOML text holds; `path` is for messages and for what the suite itself refers to."""
    file = path.name
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is no TOMLDecodeError
        raise SuiteError(f"is not valid TOML: {error}", file=file) from None
    _known_keys(data, _SUITE_KEYS, file, "")
    name = _text(data.get("name", path.stem), file, "name")
    description = _text(data.get("description", ""), file, "description")
    seed = _number(data.get("seed", 0), int, 0, 2**53 - 1, file, "seed")
    defaults = _table(data.get("defaults", {}), file, "defaults")
    _known_keys(defaults, _SHARED_KEYS, file, "defaults")
    tables = data.get("probe", [])
    if not isinstance(tables, list) or not tables:
        raise SuiteError("needs at least one [[probe]] table", file=file, key="probe")
    entries = tuple(
        _entry(_table(table, file, f"probe[{index}]"), defaults, int(seed), path, f"probe[{index}]")
        for index, table in enumerate(tables, start=1)
    )
    return Suite(name, description, path, entries)


def spread_depths(kind: str, count: int) -> tuple[float, ...]:
    """`count` depths from 0 to 1: evenly ("uniform"), or denser at both ends ("ends", Chebyshev's points)."""
    if count == 1:
        return (0.5,)
    steps = [i / (count - 1) for i in range(count)]
    if kind == "ends":
        steps = [(1 - math.cos(math.pi * step)) / 2 for step in steps]
    return tuple(round(step, 4) for step in steps)


def _entry(table: Mapping[str, Any], defaults: Mapping[str, Any], seed: int, path: Path, at: str) -> Entry:
    file = path.name
    _known_keys(table, _ENTRY_KEYS, file, at)
    for key in ("family", "task"):
        if key not in table:
            raise SuiteError("is missing", file=file, key=f"{at}.{key}")
    merged = {**defaults, **table}
    decoding = {
        **_table(defaults.get("decoding", {}), file, "defaults.decoding"),
        **_table(table.get("decoding", {}), file, f"{at}.decoding"),
    }
    return Entry(
        family=_text(table["family"], file, f"{at}.family"),
        task=_text(table["task"], file, f"{at}.task"),
        lengths=_lengths(merged["lengths"], file, f"{at}.lengths") if "lengths" in merged else (),
        depths=_depths(merged["depths"], file, f"{at}.depths") if "depths" in merged else (),
        languages=_names(merged.get("languages", ["en"]), file, f"{at}.languages"),
        domains=_names(merged["domains"], file, f"{at}.domains") if "domains" in merged else (),
        samples=int(_number(merged.get("samples", 1), int, 1, 100_000, file, f"{at}.samples")),
        repeats=int(_number(merged.get("repeats", 1), int, 1, 10_000, file, f"{at}.repeats")),
        seed=int(_number(merged.get("seed", seed), int, 0, 2**53 - 1, file, f"{at}.seed")),
        decoding=_decoding(decoding, file, f"{at}.decoding"),
        max_tokens=decoding.get("max_tokens"),
        params=dict(_table(table.get("params", {}), file, f"{at}.params")),
        where=f"{file}: {at}",
        folder=path.parent,
    )


def _decoding(table: Mapping[str, Any], file: str, at: str) -> Decoding:
    _known_keys(table, (*_DECODING, "stop"), file, at)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key == "stop":
            values[key] = _names(value, file, f"{at}.stop")
        else:
            kind, low, high = _DECODING[key]
            values[key] = _number(value, kind, low, high, file, f"{at}.{key}")
    return Decoding(**values)


def _lengths(value: Any, file: str, at: str) -> tuple[int, ...]:
    found = [int(_number(v, int, MIN_LENGTH, MAX_LENGTH, file, at)) for v in _some(value, file, at)]
    return tuple(_distinct(found, file, at))


def _depths(value: Any, file: str, at: str) -> tuple[float, ...]:
    if isinstance(value, str):
        kind, _, count = value.partition(":")
        if kind not in ("uniform", "ends") or not count.isdecimal() or not 1 <= int(count) <= 101:
            allowed = 'a list of numbers from 0 to 1, "uniform:N" or "ends:N" with N from 1 to 101'
            raise SuiteError(f"{_shown(value)} is not allowed; allowed: {allowed}", file=file, key=at)
        return spread_depths(kind, int(count))
    found = [float(_number(v, float, 0, 1, file, at)) for v in _some(value, file, at)]
    return tuple(_distinct(found, file, at))


def _names(value: Any, file: str, at: str) -> tuple[str, ...]:
    return tuple(_distinct([_text(v, file, at) for v in _some(value, file, at)], file, at))


def _distinct(items: list[Any], file: str, at: str) -> list[Any]:
    for item in items:
        if items.count(item) > 1:
            raise SuiteError(f"{_shown(item)} stands twice", file=file, key=at)
    return items


def _some(value: Any, file: str, at: str) -> list[Any]:
    """`value` when it is a list that holds something. An empty one is no way to ask for what a task asks by
    itself: half of those who write it mean 'nothing'."""
    if not isinstance(value, list):
        raise SuiteError(f"{_shown(value)} is not a list", file=file, key=at)
    if not value:
        raise SuiteError("is empty: name at least one, or leave it out for the task's own", file=file, key=at)
    return value


def _text(value: Any, file: str, at: str) -> str:
    if not isinstance(value, str):
        raise SuiteError(f"{_shown(value)} is not a string", file=file, key=at)
    return value


def _table(value: Any, file: str, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SuiteError(f"{_shown(value)} is not a table", file=file, key=at)
    return value


def _number(value: Any, kind: type, low: float, high: float, file: str, at: str) -> int | float:
    """`value` when it is a number of that kind from `low` to `high`; NaN and booleans are neither."""
    allowed = f"allowed: {'a whole number' if kind is int else 'a number'} from {low:,} to {high:,}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole or (kind is float and isinstance(value, float))) or not low <= value <= high:
        raise SuiteError(f"{_shown(value)} is not allowed; {allowed}", file=file, key=at)
    number: int | float = value if kind is int else float(value)
    return number


def _shown(value: Any) -> str:
    """`value` as a message quotes it: not the whole of something absurd."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes no number of more than 4,300 digits
        return "that value"
    return text if len(text) <= 80 else f"{text[:60]}…"


def _known_keys(table: Mapping[str, Any], known: Iterable[str], file: str, at: str) -> None:
    for key in table:
        if key not in known:
            raise SuiteError(unknown_choice("key", key, known), file=file, key=at or None)
