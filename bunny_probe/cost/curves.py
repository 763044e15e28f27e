"""Cost against length and load, and the point where two options cost the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.money import plain, scale_for
from bunny_probe.cost.simulate import Point, total
from bunny_probe.cost.worksheet import Option, Worksheet
from bunny_probe.errors import WorksheetError, unknown_choice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Axis", "BreakEven", "Curve", "Line", "break_even", "cost_against", "grid"]

Axis = Literal["load", "length"]
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Line:
    """One option's yearly cost along the axis."""

    option: str
    label: str
    stated: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    known: tuple[bool, ...]  # False: beyond what was measured, the nearest measured length stands in
    constant: tuple[str, ...]  # parts that do not depend on the axis in this worksheet


@dataclass(frozen=True, slots=True)
class Curve:
    axis: Axis
    unit: str
    x: tuple[float, ...]
    currency: str
    level: float
    lines: tuple[Line, ...]

    def cheapest(self) -> tuple[str, ...]:
        """The option with the lowest stated cost at each point."""
        costs = np.array([line.stated for line in self.lines])
        return tuple(self.lines[int(i)].option for i in costs.argmin(axis=0))

    def sentence(self) -> str:
        told = []
        for line in self.lines:
            change = line.stated[-1] / line.stated[0] if line.stated[0] else float("inf")
            told.append(
                f"{line.option} by a factor of {change:.2f}" if abs(change - 1) > 1e-9 else f"{line.option} not"
            )
        ends = f"{_number(self.x[0])} to {_number(self.x[-1])} {self.unit}"
        span = f"From {ends} the cost changes: {', '.join(told)}."
        if len(self.lines) == 1:
            return span
        best = self.cheapest()
        if len(set(best)) == 1:
            return f"{span} {best[0]} is the cheapest throughout."
        turns = [
            f"{best[i]} from {_number(self._turn(i, best))}"
            for i in range(1, len(best))
            if best[i] != best[i - 1]
        ]
        return f"{span} The cheapest is {best[0]} at first, then {', then '.join(turns)}."

    def unmeasured(self) -> str:
        """Where the nearest measured length stands in, in words; empty where it nowhere does."""
        told = []
        for line in self.lines:
            far = [x for x, known in zip(self.x, line.known, strict=True) if not known]
            if far:
                told.append(f"{line.option} at {_number(far[0])} to {_number(far[-1])} {self.unit}")
        return f"Not measured there, the nearest measured length stands in: {'; '.join(told)}." if told else ""

    def _turn(self, i: int, best: tuple[str, ...]) -> float:
        """Where between points i - 1 and i the cheapest option changes, by linear interpolation."""
        costs = {line.option: line.stated for line in self.lines}
        before = costs[best[i]][i - 1] - costs[best[i - 1]][i - 1]
        after = costs[best[i]][i] - costs[best[i - 1]][i]
        return self.x[i - 1] + (self.x[i] - self.x[i - 1]) * before / (before - after)

    def table(self, rows: int = 9) -> pd.DataFrame:
        import pandas as pd

        scale = scale_for([v for line in self.lines for v in (*line.stated, *line.high)], self.currency)
        places = sorted(set(np.linspace(0, len(self.x) - 1, rows).round().astype(int).tolist()))
        return pd.DataFrame(
            [
                {self.unit: _number(self.x[i])}
                | {
                    f"{line.option}, {scale.unit} a year": f"{scale.number(line.stated[i])} "
                    f"[{scale.number(line.low[i])}, {scale.number(line.high[i])}]"
                    for line in self.lines
                }
                for i in places
            ]
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Curve", "sentence": self.sentence(), **plain(self)}


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Where `first` and `second` cost the same along an axis, over the draws."""

    first: str
    second: str
    axis: Axis
    unit: str
    searched: tuple[float, float]
    stated: float | None  # at the stated values; None: they do not cross there
    low: float | None  # interval over the draws that cross
    high: float | None
    crossing: float  # share of draws that cross
    first_cheaper: float  # share in which the first is cheaper throughout
    second_cheaper: float
    level: float
    draws: int

    def sentence(self) -> str:
        span = f"between {_number(self.searched[0])} and {_number(self.searched[1])} {self.unit}"
        never = [
            f"{name} is cheaper throughout in {share:.0%}"
            for name, share in ((self.first, self.first_cheaper), (self.second, self.second_cheaper))
            if share >= 0.005
        ]
        if self.stated is None and self.crossing == 0:
            winner = self.first if self.first_cheaper >= self.second_cheaper else self.second
            return f"No break-even {span}: {winner} is cheaper throughout, in all {self.draws:,} draws."
        at = f"At the stated values {self.first} and {self.second} " + (
            "do not break even"
            if self.stated is None
            else f"cost the same at {_number(self.stated)} {self.unit}"
        )
        if self.low is None or self.high is None:
            return f"{at} ({span})."
        rest = f"; {'; '.join(never)}" if never else ""
        return (
            f"{at}; {self.crossing:.0%} of {self.draws:,} draws cross {span}, {self.level:.0%} of "
            f"these at {_number(self.low)} to {_number(self.high)}{rest}."
        )

    def table(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([plain(self)])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "BreakEven", "sentence": self.sentence(), **plain(self)}


def grid(sheet: Worksheet, axis: Axis, points: int = 33) -> Floats:
    """Points of the worksheet's [range] for `axis`, evenly in the logarithm, in base units."""
    span = {"load": sheet.load, "length": sheet.length}.get(axis)
    if span is None:
        told = unknown_choice("axis", axis, ("load", "length")) if axis not in {"load", "length"} else (
            f"no range was given: write [range] {axis} = '… to …'"
        )  # fmt: skip
        raise WorksheetError(told, file=sheet.file, key=f"range.{axis}")
    return np.geomspace(span.low, span.high, points)


def cost_against(
    sheet: Worksheet, options: tuple[Option, ...], axis: Axis, at: Floats, point: Point, *, level: float = 0.9
) -> Curve:
    """Yearly cost of `options` along `axis`: `load` in requests per second, `length` in prompt tokens."""
    tail = (1 - level) / 2
    lines = []
    for option in options:
        stated = [float(total(sheet, option, _placed(Point(), axis, x))) for x in at]
        drawn = [np.quantile(total(sheet, option, _placed(point, axis, x)), [tail, 1 - tail]) for x in at]
        lines.append(
            Line(
                option.key, option.label, tuple(stated),
                tuple(float(pair[0]) for pair in drawn), tuple(float(pair[1]) for pair in drawn),
                tuple(_known(option, axis, float(x)) for x in at), _constant(option, axis),
            )
        )  # fmt: skip
    shown = at * _DAY if axis == "load" else at
    return Curve(axis, _unit(axis), tuple(float(x) for x in shown), sheet.currency, level, tuple(lines))


def break_even(
    sheet: Worksheet,
    first: Option,
    second: Option,
    axis: Axis,
    at: Floats,
    point: Point,
    *,
    level: float = 0.9,
) -> BreakEven:
    """The first place along `at` where the two cost the same, linear between the points."""

    def gap(base: Point) -> Floats:
        rows = [
            total(sheet, first, _placed(base, axis, x)) - total(sheet, second, _placed(base, axis, x))
            for x in at
        ]
        return np.stack([np.atleast_1d(row) for row in np.broadcast_arrays(*rows)])

    shown = at * _DAY if axis == "load" else at
    stated = _crossings(gap(Point()), shown)[0]
    drawn = gap(point)
    crossings = _crossings(drawn, shown)
    crosses = np.isfinite(crossings)
    tail = (1 - level) / 2
    ends = np.quantile(crossings[crosses], [tail, 1 - tail]) if crosses.any() else (None, None)
    n = crossings.size
    return BreakEven(
        first.key, second.key, axis, _unit(axis), (float(shown[0]), float(shown[-1])),
        float(stated) if np.isfinite(stated) else None,
        None if ends[0] is None else float(ends[0]), None if ends[1] is None else float(ends[1]),
        float(crosses.mean()), float(((drawn[0] < 0) & ~crosses).sum() / n),
        float(((drawn[0] > 0) & ~crosses).sum() / n), level, n,
    )  # fmt: skip


def _crossings(gap: Floats, x: Floats) -> Floats:
    """First zero by column; NaN where there is none."""
    turns = np.signbit(gap[1:]) != np.signbit(gap[:-1])
    first = turns.argmax(axis=0)
    columns = np.arange(gap.shape[1])
    before, after = gap[first, columns], gap[first + 1, columns]
    with np.errstate(divide="ignore", invalid="ignore"):
        place = x[first] + (x[first + 1] - x[first]) * before / (before - after)
    return np.where(turns.any(axis=0), place, np.nan)


def _placed(point: Point, axis: Axis, x: float) -> Point:
    if axis == "load":
        return Point(u=point.u, fixed=point.fixed, load=float(x), length=point.length)
    return Point(u=point.u, fixed=point.fixed, load=point.load, length=float(x))


def _known(option: Option, axis: Axis, x: float) -> bool:
    if axis == "load":
        return True
    lengths = [stratum.length for stratum in option.loss.strata] if option.loss else []
    lengths += [length for item in option.inputs().values() for length, _, _ in item.strata]
    told_apart = [length for length in lengths if np.isfinite(length)]
    return not told_apart or min(told_apart) * 0.999 <= x <= max(told_apart) * 1.001


def _constant(option: Option, axis: Axis) -> tuple[str, ...]:
    moving = set()
    for term in option.terms:
        by_length = "input_tokens" in term.inputs or any(item.strata for item in term.inputs.values())
        by_length |= "lost_share" in term.formula and option.loss is not None and len(option.loss.strata) > 1
        if by_length if axis == "length" else "requests" in term.inputs:
            moving.add(term.part)
    return tuple(dict.fromkeys(term.part for term in option.terms if term.part not in moving))


def _unit(axis: Axis) -> str:
    return "requests/day" if axis == "load" else "prompt tokens"


def _number(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"
