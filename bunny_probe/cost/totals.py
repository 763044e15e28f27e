"""The yearly total with its interval, and the difference between two options, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.money import money, money_range, plain, scale_for, signed
from bunny_probe.cost.rounding import Agreement, agreement, half_digit
from bunny_probe.cost.schema import PARTS
from bunny_probe.cost.simulate import REPLICATES, Point, by_part, total
from bunny_probe.cost.worksheet import Option, Worksheet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Difference", "Spread", "Yearly", "check_published", "difference", "spread", "yearly"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A yearly amount: at the stated values, and what it may be."""

    name: str
    stated: float
    low: float
    median: float
    high: float
    mean: float
    error: float  # standard error of the simulation in `low` and `high`, the larger

    @property
    def certain(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Yearly:
    """What an option costs a year."""

    option: str
    label: str
    currency: str
    level: float
    draws: int
    total: Spread
    parts: tuple[Spread, ...]

    def sentence(self) -> str:
        if self.total.certain:
            return (
                f"{self.label} costs {money(self.total.stated, self.currency)} a year. No input was given an "
                "uncertainty, so this is arithmetic, not an estimate."
            )
        return (
            f"{self.label} costs {money(self.total.stated, self.currency)} a year at the stated values; "
            f"given the stated uncertainties, {self.level:.0%} of {self.draws:,} draws lie within "
            f"{money_range(self.total.low, self.total.high, self.currency)}.{self._lopsided()}"
        )

    def _lopsided(self) -> str:
        """A word where the stated values sit to one side of what the uncertainties imply."""
        off = self.total.median / self.total.stated - 1 if self.total.stated else 0.0
        if abs(off) < 0.05:
            return ""
        side = "low" if off > 0 else "high"
        median = money(self.total.median, self.currency)
        return f" The stated values sit on the {side} side of their ranges: half of the draws exceed {median}."

    def table(self) -> pd.DataFrame:
        return _table((*self.parts, self.total), self.currency, self.level)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Yearly", "sentence": self.sentence(), **plain(self)}


@dataclass(frozen=True, slots=True)
class Difference:
    """What `first` costs more than `second` a year; what they share is drawn once."""

    first: str
    second: str
    first_label: str
    second_label: str
    currency: str
    level: float
    draws: int
    total: Spread
    parts: tuple[Spread, ...]
    dearer: float  # share of draws in which the first costs more

    def sentence(self) -> str:
        more = "more" if self.total.stated >= 0 else "less"
        stated = money(abs(self.total.stated), self.currency)
        part = max(self.parts, key=lambda item: abs(item.stated))
        told = (
            f"{self.first} costs {stated} a year {more} than {self.second} at the stated values; "
            f"the largest part is {part.name} ({signed(part.stated, self.currency)})."
        )
        if self.total.certain:
            return f"{told} No input was given an uncertainty, so this is arithmetic, not an estimate."
        return (
            f"{told} {self.level:.0%} interval {money_range(self.total.low, self.total.high, self.currency)}; "
            f"{self.first} is the dearer one in {self.dearer:.1%} of {self.draws:,} draws."
        )

    def table(self) -> pd.DataFrame:
        return _table((*self.parts, self.total), self.currency, self.level)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Difference", "sentence": self.sentence(), **plain(self)}


@dataclass(frozen=True, slots=True)
class Check:
    """A published figure against the computed one."""

    says: str
    source: str
    published: float
    computed: float
    verdict: Agreement
    relative: float
    currency: str

    def sentence(self) -> str:
        scale = scale_for([self.published, self.computed], self.currency)
        gap = money(abs(self.published - self.computed), self.currency, scale)
        computed = money(self.computed, self.currency, scale)
        if self.verdict == "holds":
            return f"{self.says!r} holds: the parts add up to {computed}."
        side = "less" if self.published < self.computed else "more"
        verb = "is close" if self.verdict == "close" else "fails"
        return (
            f"{self.says!r} {verb}: the parts add up to {computed}; "
            f"the figure ({self.source or 'no source'}) says {gap} {side}."
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Check", "sentence": self.sentence(), **plain(self)}


def yearly(sheet: Worksheet, option: Option, point: Point, *, level: float = 0.9) -> Yearly:
    """The yearly cost of `option` over the draws of `point` (from `simulate.draw`)."""
    stated, drawn = by_part(sheet, option), by_part(sheet, option, point)
    n = _size(point)
    parts = tuple(spread(part, float(stated[part]), drawn[part], n, level) for part in PARTS)
    whole = spread("total", float(total(sheet, option)), total(sheet, option, point), n, level)
    return Yearly(option.key, option.label, sheet.currency, level, n, whole, parts)


def difference(
    sheet: Worksheet, first: Option, second: Option, point: Point, *, level: float = 0.9
) -> Difference:
    """`first` minus `second`, over the same draws."""
    stated = {part: float(by_part(sheet, first)[part] - by_part(sheet, second)[part]) for part in PARTS}
    one, other = by_part(sheet, first, point), by_part(sheet, second, point)
    n = _size(point)
    parts = tuple(spread(part, stated[part], one[part] - other[part], n, level) for part in PARTS)
    gap = total(sheet, first, point) - total(sheet, second, point)
    whole = spread("total", sum(stated.values()), gap, n, level)
    return Difference(
        first.key, second.key, first.label, second.label, sheet.currency, level, n, whole, parts,
        float(np.mean(gap > 0)),
    )  # fmt: skip


def check_published(sheet: Worksheet) -> tuple[Check, ...]:
    """Every published figure of the worksheet against the sum of its own inputs, at the stated values."""
    checks = []
    for item in sheet.published:
        options = [sheet.option(key) for key in item.of]
        sums = [{**by_part(sheet, option), "total": total(sheet, option)} for option in options]
        computed = float(sums[0][item.what]) - (float(sums[1][item.what]) if len(sums) == 2 else 0.0)
        verdict, relative = agreement(item.value, computed, half_digit(item.text, item.value, item.value))
        checks.append(Check(item.says, item.source, item.value, computed, verdict, relative, sheet.currency))
    return tuple(checks)


def spread(name: str, stated: float, drawn: Floats, n: int, level: float) -> Spread:
    """The interval of `drawn`, with the error of its ends from the scatter between replicates."""
    values = np.broadcast_to(drawn, (n,))
    if np.ptp(values) <= 1e-9 * max(1.0, abs(stated)):
        return Spread(name, stated, stated, stated, stated, stated, 0.0)
    tail = (1 - level) / 2
    low, median, high = (float(q) for q in np.quantile(values, [tail, 0.5, 1 - tail]))
    blocks = np.quantile(values.reshape(REPLICATES, -1), [tail, 1 - tail], axis=1)
    error = float((blocks.std(axis=1, ddof=1) / np.sqrt(REPLICATES)).max())
    return Spread(name, stated, low, median, high, float(values.mean()), error)


def _size(point: Point) -> int:
    return next((array.size for array in point.u.values()), REPLICATES)


def _table(rows: tuple[Spread, ...], currency: str, level: float) -> pd.DataFrame:
    import pandas as pd

    scale = scale_for([value for row in rows for value in (row.low, row.stated, row.high)], currency)
    return pd.DataFrame(
        [
            {
                "part": row.name,
                f"at the stated values, {scale.unit}": scale.number(row.stated),
                "median": scale.number(row.median),
                f"{level:.0%} interval": "no uncertainty given" if row.certain
                else f"{scale.number(row.low)} to {scale.number(row.high)}",
            }
            for row in rows
        ]
    )  # fmt: skip
