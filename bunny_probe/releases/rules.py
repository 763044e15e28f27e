"""The rules of a gate: TOML, checked to the last key before anything is judged."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.measures import matching
from bunny_probe.resources import resource_dir

__all__ = ["Rule", "Rules", "load_rules"]

Compare = Literal["previous", "baseline", "absolute"]
_COMPARES = ("previous", "baseline", "absolute")
_DIRECTIONS = ("higher", "lower")
_KEYS: dict[str, tuple[type, ...]] = {
    "metric": (str,),
    "compare": (str,),
    "not_worse_by": (int, float),
    "not_worse_by_share": (int, float),
    "at_least": (int, float),
    "at_most": (int, float),
    "strict": (bool,),
    "optional": (bool,),
    "direction": (str,),
    "endpoint": (str,),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One promise about one metric."""

    metric: str
    compare: Compare
    where: str  # "default.toml: rule[2]"
    not_worse_by: float | None = None  # in the metric's unit
    not_worse_by_share: float | None = None  # of the reference
    at_least: float | None = None
    at_most: float | None = None
    strict: bool = False  # undecided fails too
    optional: bool = False  # a metric that is not there is passed over
    direction: str | None = None  # which way is better, for a metric that has none of its own
    endpoint: str | None = None  # None: every endpoint

    def words(self) -> str:
        """The rule as a person would say it."""
        if self.compare == "absolute":
            limit = f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"
            return f"{self.metric} {limit}"
        if self.not_worse_by_share is not None:
            return f"{self.metric} not worse than {self.compare} by more than {self.not_worse_by_share:.0%}"
        return f"{self.metric} not worse than {self.compare} by more than {self.not_worse_by or 0:g}"


@dataclass(frozen=True, slots=True)
class Rules:
    rules: tuple[Rule, ...]
    level: float  # of the intervals
    file: str


def load_rules(name: str | Path = "default") -> Rules:
    """A bundled file by name, or any by path. Raises UsageError: file, rule, key and what is allowed."""
    bundled = {path.stem: path for path in sorted((resource_dir("data") / "gates").glob("*.toml"))}
    path = bundled.get(str(name)) or Path(name)
    if not path.is_file():
        raise UsageError(unknown_choice("rules file", str(name), bundled))
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}") from None
    unknown = sorted(set(content) - {"level", "rule"})
    if unknown:
        raise UsageError(f"{path.name}: {unknown_choice('key', unknown[0], ('level', 'rule'))}")
    level = content.get("level", 0.95)
    if not isinstance(level, float) or not 0.5 < level < 1:
        raise UsageError(f"{path.name}: level must be a number between 0.5 and 1, such as 0.95")
    tables = content.get("rule", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{path.name}: write at least one [[rule]]")
    found = tuple(_rule(table, f"{path.name}: rule[{number}]") for number, table in enumerate(tables, 1))
    return Rules(found, level, path.name)


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(f"{where}: {unknown_choice('key', key, _KEYS)}")
        boolean = isinstance(value, bool) and bool not in _KEYS[key]
        if boolean or not isinstance(value, _KEYS[key]):
            raise UsageError(f"{where}: {key} must be {' or '.join(kind.__name__ for kind in _KEYS[key])}")
        if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) < 1e300:
            raise UsageError(f"{where}: {key} must be a finite number")
    for key in ("metric", "compare"):
        if key not in table:
            raise UsageError(f"{where}: {key} is missing")
    compare = table["compare"]
    if compare not in _COMPARES:
        raise UsageError(f"{where}: {unknown_choice('compare', compare, _COMPARES)}")
    if "direction" in table and table["direction"] not in _DIRECTIONS:
        raise UsageError(f"{where}: {unknown_choice('direction', table['direction'], _DIRECTIONS)}")
    try:
        known = matching(table["metric"], ())
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if (
        any(item.direction == "neutral" for item in known)
        and compare != "absolute"
        and "direction" not in table
    ):
        raise UsageError(
            f'{where}: neither way is better for {table["metric"]}: add direction = "higher" or "lower"'
        )
    limits = [key for key in ("not_worse_by", "not_worse_by_share", "at_least", "at_most") if key in table]
    allowed = ("at_least", "at_most") if compare == "absolute" else ("not_worse_by", "not_worse_by_share")
    if len(limits) != 1 or limits[0] not in allowed:
        raise UsageError(f"{where}: a rule with compare = {compare!r} has one of {' and '.join(allowed)}")
    if compare != "absolute" and table[limits[0]] < 0:
        raise UsageError(f"{where}: {limits[0]} must be 0 or more")
    return Rule(where=where, **table)
