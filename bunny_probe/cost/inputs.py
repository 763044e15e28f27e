"""One input of a worksheet: a TOML value → a distribution with a unit, checked against what the key allows.

Understood, and said by the error messages:
    "28 CNY/review"                                     a value
    "20 to 35 CNY"                                      a range: uniform
    { value = "28 CNY", range = ["20 CNY", "35 CNY"] }  a best value in its range: triangular
    { uniform = [..2] }  { triangular = [low, mode, high] }  { normal = { mean, sd } }
    { lognormal = { median, factor } }                  factor: what one standard deviation multiplies by
    { quantiles = { p5 = .., p95 = .. }, shape = "normal" | "lognormal" }
    { measured = "wrong_anchor", otherwise = <any of the above> }
each with an optional `source`, a text that is shown beside the number. Bare numbers are plain numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bunny_probe.cost.distributions import (
    Distribution,
    Fixed,
    Floats,
    Lognormal,
    Normal,
    Triangular,
    Uniform,
    normal_pair,
)
from bunny_probe.cost.units import CURRENCIES, Unit, UnitFault, Units, dims_text, fits_into
from bunny_probe.errors import WorksheetError, unknown_choice

__all__ = ["Input", "Key", "read_input"]

_FORMS = ("value", "range", "uniform", "triangular", "normal", "lognormal", "quantiles", "measured")
_MOST_CUT = 0.05  # a shape that puts more than this beyond what is possible is the wrong shape


@dataclass(frozen=True, slots=True)
class Key:
    """What a worksheet key may hold."""

    unit: str  # a unit of the wanted dimension; "money" stands for any currency
    help: str
    low: float = 0.0  # limits in base units of `unit`
    high: float = math.inf
    default: str | None = None  # used where the key is missing; None: no default
    measurable: bool = False  # whether a run can supply it
    positive: bool = False  # zero is refused: it divides


@dataclass(frozen=True, slots=True)
class Input:
    """A number of the worksheet with all that is known about it."""

    name: str  # "common.quality.high_risk.share": the same name is the same number in every option
    label: str  # for people
    distribution: Distribution  # in `unit`
    unit: Unit
    text: str  # as stated, for formulas with the numbers filled in
    source: str = ""
    note: str = ""  # what a reader must know, for example that a tail was cut
    measured: str = ""  # what of a run would supply it; "" when it is stated
    strata: tuple[tuple[float, float, float], ...] = field(
        default=()
    )  # (length, hits, effective n) when measured

    @property
    def certain(self) -> bool:
        return isinstance(self.distribution, Fixed)

    @property
    def central(self) -> float:
        """In base units."""
        return self.distribution.central * self.unit.factor

    def draw(self, u: Floats) -> Floats:
        """Quantiles at `u`, in base units."""
        return self.distribution.quantile(u) * self.unit.factor


def read_input(
    value: Any, key: Key, name: str, *, units: Units, currency: str, file: str, label: str = ""
) -> Input:
    """The input that a TOML value states. Raises WorksheetError naming file, key and what is allowed."""
    try:
        return _read(value, key, name, units, currency, label or _label(name))
    except UnitFault as fault:
        raise WorksheetError(f"{fault} ({key.help})", file=file, key=name) from fault


def _read(value: Any, key: Key, name: str, units: Units, currency: str, label: str) -> Input:
    source, measured, form = "", "", "value"
    body: Any = value
    shape = ""
    best: Any = None
    if isinstance(value, Mapping):
        table = dict(value)
        source = str(table.pop("source", ""))
        shape = str(table.pop("shape", ""))
        if "measured" in table:
            measured = str(table.pop("measured"))
            if not key.measurable:
                raise UnitFault("this cannot be measured from a run: state it")
            if "otherwise" not in table:
                pending = Fixed(math.nan)
                return Input(name, label, pending, units.parse(""), "to be measured", source, measured=measured)
            stand_in = _read(table.pop("otherwise"), key, name, units, currency, label)
            if table:
                raise UnitFault(f"unknown key {next(iter(table))!r} beside 'measured' and 'otherwise'")
            return Input(
                name, label, stand_in.distribution, stand_in.unit, stand_in.text,
                source or stand_in.source, stand_in.note, measured,
            )  # fmt: skip
        if "value" in table and "range" in table:
            best = table.pop("value")
        if len(table) != 1:
            raise UnitFault(
                f"a table states one of {', '.join(_FORMS)} (and value with range), not {sorted(table)}"
            )
        form, body = next(iter(table.items()))
        if form not in _FORMS:
            raise UnitFault(unknown_choice("form of input", form, _FORMS))
    reader = _Reader(units, currency, key)
    distribution, text = _shaped(form, body, best, shape, reader)
    unit = reader.unit
    assert unit is not None
    note = _within(distribution, key, unit)
    distribution = _limited(distribution, key, unit)
    return Input(name, label, distribution, unit, text, source, note, measured)


class _Reader:
    """Reads the numbers of one input; all must share the unit of the first."""

    def __init__(self, units: Units, currency: str, key: Key) -> None:
        self.units, self.currency, self.key = units, currency, key
        self.unit: Unit | None = None

    def numbers(self, item: Any) -> tuple[float, ...]:
        if isinstance(item, bool) or not isinstance(item, int | float | str):
            raise UnitFault(f"expected a number or a text with a unit, got {item!r}")
        if isinstance(item, int | float):
            if not math.isfinite(item):
                raise UnitFault(f"{item} is not a number")
            item = repr(item)  # a bare number is read like its text
        values, unit = self.units.numbers(item)
        self._check(unit, item)
        assert self.unit is not None
        if self.unit.factor != unit.factor:
            values = tuple(value * unit.factor / self.unit.factor for value in values)
        return values

    def one(self, item: Any) -> float:
        values = self.numbers(item)
        if len(values) != 1:
            raise UnitFault(f"{item!r} is a range; one number is wanted here")
        return values[0]

    def several(self, items: Any, count: int, what: str) -> tuple[float, ...]:
        if isinstance(items, str) or not isinstance(items, Sequence) or len(items) != count:
            raise UnitFault(f"{what} takes {count} numbers in a list, got {items!r}")
        values = tuple(self.one(item) for item in items)
        if list(values) != sorted(values) or values[0] == values[-1]:
            raise UnitFault(f"{what} must rise: {list(items)}")
        return values

    def fields(self, table: Any, wanted: tuple[str, ...], what: str) -> list[float]:
        if not isinstance(table, Mapping) or set(table) != set(wanted):
            raise UnitFault(f"{what} is a table of {' and '.join(wanted)}, got {table!r}")
        return [self.one(table[name]) for name in wanted]

    def _check(self, unit: Unit, item: Any) -> None:
        wanted = self.units.parse(self.key.unit.replace("money", self.currency)).dims
        foreign = next((base for base in unit.dims if base in CURRENCIES), self.currency)
        given = {self.currency if base in CURRENCIES else base: power for base, power in unit.dims.items()}
        if not fits_into(given, wanted):
            example = self.key.unit.replace("money", self.currency) or "a plain number or %"
            raise UnitFault(f"{item!r} is {dims_text(unit.dims)}, but {example} is wanted")
        # what was left out (requests, reviews, …) is filled in, so that formulas check to the letter
        full = {foreign if base == self.currency else base: power for base, power in wanted.items()}
        if self.unit is None:
            self.unit = Unit(unit.factor, full, unit.text)
        elif dict(self.unit.dims) != full:
            raise UnitFault(f"{item!r} is not in the unit of the number before it ({self.unit.text or 'none'})")


def _shaped(form: str, body: Any, best: Any, shape: str, reader: _Reader) -> tuple[Distribution, str]:
    if form == "value":
        values = reader.numbers(body)
        if len(values) == 1:
            return Fixed(values[0]), _written(body)
        if values[0] >= values[1]:
            raise UnitFault(f"a range must rise: {body!r}")
        return Uniform(values[0], values[1]), _written(body)
    if form == "range" and best is not None:
        mode = reader.one(best)
        low, high = reader.several(body, 2, "range")
        if not low <= mode <= high:
            raise UnitFault(f"the value {best!r} lies outside its range {list(body)}")
        return Triangular(low, mode, high), _written(best)
    if form in {"range", "uniform"}:
        low, high = reader.several(body, 2, form)
        return Uniform(low, high), f"{_written(body[0])} to {_written(body[1])}"
    if form == "triangular":
        low, mode, high = reader.several(body, 3, form)
        return Triangular(low, mode, high), _written(body[1])
    if form == "normal":
        mean, sd = reader.fields(body, ("mean", "sd"), form)
        if sd <= 0:
            raise UnitFault("a standard deviation is above 0")
        return Normal(mean, sd), _written(body["mean"])
    if form == "lognormal":
        if not isinstance(body, Mapping) or set(body) != {"median", "factor"}:
            raise UnitFault(f"lognormal is a table of median and factor, got {body!r}")
        median, factor = reader.one(body["median"]), body["factor"]
        if (
            median <= 0
            or isinstance(factor, bool)
            or not isinstance(factor, int | float)
            or not 1 < factor < 100
        ):
            raise UnitFault("lognormal needs a median above 0 and a factor between 1 and 100, a plain number")
        return Lognormal(median, float(factor)), _written(body["median"])
    if form == "quantiles":
        return _pair(body, shape, reader)
    raise UnitFault(unknown_choice("form of input", form, _FORMS))


def _pair(body: Any, shape: str, reader: _Reader) -> tuple[Distribution, str]:
    if not isinstance(body, Mapping) or len(body) != 2:
        raise UnitFault("quantiles is a table of two, such as { p5 = '10 CNY', p95 = '40 CNY' }")
    points: list[tuple[float, float]] = []
    for name, item in body.items():
        match = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", name)
        if not match or not 0 < float(match[1]) < 100:
            raise UnitFault(f"{name!r} is no quantile: write p5, p50, p97.5")
        points.append((float(match[1]) / 100, reader.one(item)))
    points.sort()
    (p1, x1), (p2, x2) = points
    if p1 == p2 or x1 >= x2:
        raise UnitFault("the higher quantile must be the larger number")
    if shape == "normal":
        mean, sd = normal_pair(*points)
        return Normal(mean, sd), f"about {mean:.4g} {reader.unit.text if reader.unit else ''}".strip()
    if shape == "lognormal":
        if x1 <= 0:
            raise UnitFault("a lognormal number is above 0")
        mean, sd = normal_pair((p1, math.log(x1)), (p2, math.log(x2)))
        text = f"about {math.exp(mean):.4g} {reader.unit.text if reader.unit else ''}".strip()
        return Lognormal(math.exp(mean), math.exp(sd)), text
    raise UnitFault(f"two quantiles need shape = 'normal' or 'lognormal', got {shape or 'none'!r}")


def _limited(distribution: Distribution, key: Key, unit: Unit) -> Distribution:
    if isinstance(distribution, Normal):
        return Normal(distribution.mean, distribution.sd, key.low / unit.factor, key.high / unit.factor)
    if isinstance(distribution, Lognormal):
        return Lognormal(distribution.median, distribution.factor, key.high / unit.factor)
    return distribution


def _within(distribution: Distribution, key: Key, unit: Unit) -> str:
    """Refuse what cannot be; a note where a thin tail is cut."""
    low, high = key.low / unit.factor, key.high / unit.factor
    if isinstance(distribution, Fixed):
        ends = [distribution.value, distribution.value]
    elif isinstance(distribution, Uniform | Triangular):
        ends = [distribution.low, distribution.high]
    else:
        limited = _limited(distribution, key, unit)
        ends = [distribution.central, distribution.central]
        cut = limited.cut if isinstance(limited, Normal | Lognormal) else 0.0
        if cut > _MOST_CUT:
            raise UnitFault(
                f"{cut:.0%} of this distribution lies outside what is possible ({_limits(low, high, unit)}): "
                "choose lognormal, triangular or a range"
            )
        if cut > 1e-4:
            return f"{cut:.2%} of the distribution lay outside {_limits(low, high, unit)} and was cut"
    slack = 1e-12 * max(abs(ends[0]), abs(ends[1]))
    if ends[0] < low - slack or ends[1] > high + slack or (key.positive and ends[0] <= 0):
        raise UnitFault(f"must be {'above 0, ' if key.positive else ''}within {_limits(low, high, unit)}")
    return ""


def _limits(low: float, high: float, unit: Unit) -> str:
    top = "unlimited" if math.isinf(high) else f"{high:g}"
    return f"{low:g} to {top} {unit.text}".strip()


def _written(item: Any) -> str:
    return f"{item:,}" if isinstance(item, int | float) else str(item).strip()


def _label(name: str) -> str:
    """`A.quality.high_risk.review_rate` → `A: high risk review rate`."""
    owner, *parts = name.split(".")
    words = " ".join(part for part in parts if part not in {"traffic", "quality"}).replace("_", " ")
    return words if owner in {"common", "default", "range"} else f"{owner}: {words}"
