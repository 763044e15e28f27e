"""Units: what a text such as `28 CNY/review` or `2.5 person-days a week` amounts to, and in which dimension.

A unit is a factor and a dimension. Physical dimensions (time, energy, bytes, operations, working time, each
currency) must match to the letter. Counted things (tokens, requests, orders, …) are dimensions too, but may be
left out: `100,000/day` serves where `requests/day` is meant, `tokens/day` does not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["COUNTED", "CURRENCIES", "Dims", "Unit", "UnitFault", "Units", "dims_text", "fits_into"]

Dims = Mapping[str, int]  # base → exponent, without zeros

CURRENCIES = ("AUD", "CAD", "CHF", "CNY", "EUR", "GBP", "HKD", "INR", "JPY", "KRW", "SGD", "TWD", "USD")
COUNTED = ("token", "request", "order", "review", "error", "GPU", "block", "element", "layer", "document")

_DAY = 86_400.0
_PREFIX = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SCALE_WORDS = {"万": 1e4, "亿": 1e8, "百万": 1e6, "千": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP"}
_NUMBER = (
    r"(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+(?:_\d+)*(?!,\d))(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
)
_SCALED = re.compile(
    rf"\s*([-+−]?)\s*({_NUMBER})(?:(Ki|Mi|Gi|Ti|K|k|M)(?![A-Za-z])|\s*(百万|万|亿|千|thousand|million|billion))?"
)
_GROUPING = "{!r} is not a number; thousands are grouped in threes by commas: 1,234,567.8"


class UnitFault(ValueError):
    """A text that is no quantity; the message says what is wrong and what is understood."""


@dataclass(frozen=True, slots=True)
class Unit:
    """`factor` base units of dimension `dims`; `text` as the user wrote it."""

    factor: float
    dims: Dims
    text: str = ""


@dataclass(frozen=True, slots=True)
class Units:
    """Reads quantities under one calendar.

    A year has `days_per_year` days and, for anything told by the week, `weeks_per_year` weeks (working life
    counts 52; None: days_per_year / 7). `kilo` is what K means behind a bare number: 1000, or 1024.
    `yen` is the currency that ¥ stands for; None: ¥ is refused as ambiguous.
    """

    days_per_year: float = 365.0
    weeks_per_year: float | None = None
    kilo: int = 1000
    yen: str | None = None

    @property
    def year(self) -> float:
        """Seconds in a year."""
        return self.days_per_year * _DAY

    def parse(self, text: str) -> Unit:
        """The unit named by `text`: factors joined by spaces, `·` or `*`; divisors behind `/`, `per`, `a`."""
        plain = unicodedata.normalize("NFKC", text).strip()
        factor, dims = 1.0, dict[str, int]()
        for place, piece in enumerate(re.split(r"\s*/\s*|\s+per\s+|\s+an?\s+|^per\s+|^an?\s+", plain)):
            sign = -1 if place else 1
            size, named = self._product(piece, text)
            if size <= 0:
                raise UnitFault(f"a unit cannot be told by {piece.strip()!r} in {text!r}")
            factor = factor / size if place else factor * size
            for base, power in named.items():
                dims[base] = dims.get(base, 0) + sign * power
        if not 1e-200 < factor < 1e200:
            raise UnitFault(f"{text!r} is beyond any unit")
        return Unit(factor, {base: power for base, power in dims.items() if power}, plain)

    def numbers(self, text: str) -> tuple[tuple[float, ...], Unit]:
        """The one or two numbers of `text` (`12`, `12 to 18 %`) and their common unit.

        `$` and `CNY` may stand in front. Raises UnitFault.
        """
        if not isinstance(text, str):
            raise UnitFault(f"expected a text such as '28 CNY', got {text!r}")
        plain = unicodedata.normalize("NFKC", text).strip().replace("−", "-")
        front = re.match(r"(?:([$€£¥])|([A-Za-z]{3})\s+(?=[-\d]))\s*", plain)
        currency = ""
        if front:
            currency, plain = (front[1] or front[2]), plain[front.end() :]
        values: list[tuple[float, str]] = []
        while True:
            match = _SCALED.match(plain)
            if not match:
                if plain[:1].isdigit():
                    raise UnitFault(_GROUPING.format(text))
                raise UnitFault(f"no number in {text!r}; write for example '12 %', '3.4 万 CNY' or '2 to 5 s'")
            values.append((self._scaled(match), match[4] or match[3] or ""))
            plain = plain[match.end() :]
            joint = re.match(r"\s*(?:to|–|—|~|\.\.|至|到)\s*(?=[-\d$€£¥])", plain)
            if not joint or len(values) == 2:
                break
            plain = plain[joint.end() :].lstrip("$€£¥")
        if len(values) == 2 and values[1][1] and not values[0][1]:
            scale = self._scale(values[1][1])  # "3 to 5 万": the scale belongs to both
            values[0] = (values[0][0] * scale, values[1][1])
        if plain and re.match(r"[\d.,]", plain):
            raise UnitFault(_GROUPING.format(text))
        unit = self.parse(plain)
        if currency:
            worth = self._word(currency, text)
            if any(base in CURRENCIES for base in unit.dims):
                raise UnitFault(f"{text!r} names two currencies")
            unit = Unit(
                unit.factor * worth[0], {**worth[1], **unit.dims}, f"{next(iter(worth[1]))}{_slash(unit.text)}"
            )
        if max(abs(value) for value, _ in values) * unit.factor > 1e200:
            raise UnitFault(f"{text!r} is too large a number")
        return tuple(value for value, _ in values), unit

    def one(self, text: str) -> tuple[float, Unit]:
        """The single number of `text` and its unit."""
        values, unit = self.numbers(text)
        if len(values) != 1:
            raise UnitFault(f"{text!r} is a range; one number is wanted here")
        return values[0], unit

    # ── the pieces ──────────────────────────────────────────────────────────────────────────────────

    def _scaled(self, match: re.Match[str]) -> float:
        value = float(match[2].replace(",", "").replace("_", "")) * self._scale(match[3] or match[4] or "")
        if value > 1e300:
            raise UnitFault(f"{match[0].strip()} is too large a number")
        return -value if match[1] in {"-", "−"} else value

    def _scale(self, suffix: str) -> float:
        if suffix in {"K", "k"}:
            return float(self.kilo)
        if suffix == "M":
            return float(self.kilo) ** 2
        return _BINARY.get(suffix) or _SCALE_WORDS.get(suffix) or 1.0

    def _product(self, piece: str, whole: str) -> tuple[float, dict[str, int]]:
        factor, dims, rest = 1.0, dict[str, int](), piece.strip()
        number = _SCALED.match(rest)
        if number and number[2]:
            factor, rest = self._scaled(number), rest[number.end() :].strip()
        for scale, size in _SCALE_WORDS.items():
            if rest.startswith(scale):
                factor, rest = factor * size, rest[len(scale) :].strip()
                break
        for word in (item for item in re.split(r"[\s·*]+", rest) if item):
            size, named = self._word(word, whole)
            factor *= size
            for base, power in named.items():
                dims[base] = dims.get(base, 0) + power
        return factor, dims

    def _word(self, word: str, whole: str) -> tuple[float, dict[str, int]]:
        if word == "¥":
            if self.yen is None:
                raise UnitFault(f"¥ in {whole!r} may be CNY or JPY: write the three letters")
            return 1.0, {self.yen: 1}
        if word in _SYMBOLS:
            return 1.0, {_SYMBOLS[word]: 1}
        week = self.year / self.weeks_per_year if self.weeks_per_year else 7 * _DAY
        times = {"week": week, "month": self.year / 12, "quarter": self.year / 4, "year": self.year}
        for name in (word, word.lower(), word.removesuffix("s"), word.lower().removesuffix("s")):
            if name in times or name in _CHINESE_TIMES:
                return times[_CHINESE_TIMES.get(name, name)], {"s": 1}
            if name in _WORDS:
                return _WORDS[name]
            if name.upper() in CURRENCIES:
                return 1.0, {name.upper(): 1}
        for unit, base in (("B", "B"), ("Byte", "B"), ("byte", "B"), ("FLOP", "FLOP"), ("FLOPs", "FLOP")):
            prefix = word.removesuffix(unit)
            if prefix != word and prefix in (_PREFIX | _BINARY):
                return (_PREFIX | _BINARY)[prefix], {base: 1}
        raise UnitFault(
            f"unknown unit {word!r} in {whole!r}. Understood: {', '.join(CURRENCIES)}, 元, $, €, %, s, ms, "
            "minute, hour, day, week, month, year, W, kW, kWh, B, KB … TiB, FLOP, person-hour, person-day, "
            f"{', '.join(COUNTED)}; 万 and 亿 as scales"
        )


_HOURLY = {"person-hour": 1.0, "person-day": 8.0, "person-week": 40.0}
_CHINESE_TIMES = {"年": "year", "月": "month", "周": "week"}
_WORDS: dict[str, tuple[float, dict[str, int]]] = {
    "%": (0.01, {}),
    "percent": (0.01, {}),
    "‰": (0.001, {}),
    "元": (1.0, {"CNY": 1}),
    "RMB": (1.0, {"CNY": 1}),
    "rmb": (1.0, {"CNY": 1}),
    "美元": (1.0, {"USD": 1}),
    "港元": (1.0, {"HKD": 1}),
    "日元": (1.0, {"JPY": 1}),
    "欧元": (1.0, {"EUR": 1}),
    **{name: (1.0, {"s": 1}) for name in ("s", "sec", "second", "秒")},
    "ms": (1e-3, {"s": 1}),
    **{name: (1e-6, {"s": 1}) for name in ("us", "µs", "μs")},
    "ns": (1e-9, {"s": 1}),
    **{name: (60.0, {"s": 1}) for name in ("min", "minute", "分")},
    **{name: (3600.0, {"s": 1}) for name in ("h", "hour", "时", "小时")},
    **{name: (_DAY, {"s": 1}) for name in ("day", "d", "天", "日")},
    "W": (1.0, {"J": 1, "s": -1}),
    "kW": (1e3, {"J": 1, "s": -1}),
    "MW": (1e6, {"J": 1, "s": -1}),
    "J": (1.0, {"J": 1}),
    "Wh": (3.6e3, {"J": 1}),
    "kWh": (3.6e6, {"J": 1}),
    "MWh": (3.6e9, {"J": 1}),
    **{name: (hours, {"person-hour": 1}) for name, hours in _HOURLY.items()},
    **{name: (8.0, {"person-hour": 1}) for name in ("人天", "人日", "工日")},
    "人时": (1.0, {"person-hour": 1}),
    **{name: (1.0, {name: 1}) for name in COUNTED},
    **{name.lower(): (1.0, {name: 1}) for name in COUNTED},
    "次": (1.0, {"request": 1}),
    "query": (1.0, {"request": 1}),
    "querie": (1.0, {"request": 1}),
    "call": (1.0, {"request": 1}),
    "card": (1.0, {"GPU": 1}),
    "块": (1.0, {"block": 1}),
    "times": (1.0, {}),
    "x": (1.0, {}),
}


def _slash(text: str) -> str:
    return text if not text or text.startswith(("/", "per ", "a ")) else f" {text}"


def fits_into(given: Dims, wanted: Dims) -> bool:
    """Whether a quantity of dimension `given` may stand where `wanted` is asked (counts may be left out)."""
    counted = {base: power for base, power in given.items() if base in COUNTED}
    physical = {base: power for base, power in given.items() if base not in COUNTED}
    if physical != {base: power for base, power in wanted.items() if base not in COUNTED}:
        return False
    return all(wanted.get(base) == power for base, power in counted.items())


def dims_text(dims: Dims) -> str:
    """A dimension for people: `CNY/s`, `token`, `a plain number`."""
    above = [base if power == 1 else f"{base}^{power}" for base, power in sorted(dims.items()) if power > 0]
    below = [base if power == -1 else f"{base}^{-power}" for base, power in sorted(dims.items()) if power < 0]
    if not above and not below:
        return "a plain number"
    return ("·".join(above) or "1") + "".join(f"/{item}" for item in below)
