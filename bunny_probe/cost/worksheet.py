"""A cost worksheet: TOML text → validated options, each a set of inputs and the terms they make.

    [calendar] [rates] [common.<part>] [option.<key>.<part>] [range] [[published]]

What stands under `common` is one number shared by all options: it is drawn once, so that a difference between
options is not blurred by what they have in common. An option's own entry replaces the common one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bunny_probe.cost.expression import names
from bunny_probe.cost.inputs import Input, Key, read_input
from bunny_probe.cost.latency import LatencyLoss
from bunny_probe.cost.latency_input import read_loss
from bunny_probe.cost.schema import DERIVED, KEYS, TERMS, TermSpec
from bunny_probe.cost.units import CURRENCIES, Units
from bunny_probe.errors import WorksheetError, unknown_choice

__all__ = ["Option", "Published", "Span", "Term", "Worksheet", "read"]

_TOP = (
    "title",
    "about",
    "currency",
    "calendar",
    "rates",
    "common",
    "option",
    "range",
    "published",
    "length_mix",
)
_LATENCY = {"sample", "loss"}


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of an option's cost."""

    part: str
    name: str
    kind: str  # of error, for quality; else ""
    formula: str
    meaning: str
    inputs: Mapping[str, Input]  # symbol → input, derived symbols' inputs included
    derived: tuple[tuple[str, str], ...]  # symbol → formula, in the order of computing

    @property
    def title(self) -> str:
        return f"{self.kind.replace('_', ' ')}: {self.name}" if self.kind else self.name


@dataclass(frozen=True, slots=True)
class Option:
    key: str
    label: str
    terms: tuple[Term, ...]
    loss: LatencyLoss | None = None
    awaits_latency: str = ""  # the run's measure that would fill `loss`
    endpoint: str = ""  # whose observations in a run are this option's

    def inputs(self) -> dict[str, Input]:
        """All inputs by name, in the order of the equation."""
        return {item.name: item for term in self.terms for item in term.inputs.values()}


@dataclass(frozen=True, slots=True)
class Published:
    """A figure that somebody published about this sum, to be checked."""

    says: str
    of: tuple[str, ...]  # one option, or two: the first minus the second
    what: str  # "total" or a part
    value: float  # money a year
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """The lengths or loads over which an option must serve, in base units."""

    low: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class Worksheet:
    title: str
    about: str
    currency: str
    units: Units
    options: tuple[Option, ...]
    rates: Mapping[str, Input] = field(default_factory=dict)  # currency → worth in the worksheet's currency
    load: Span | None = None  # requests per second
    length: Span | None = None  # prompt tokens a request
    published: tuple[Published, ...] = ()
    length_mix: Mapping[float, float] = field(default_factory=dict)  # prompt tokens → share of the traffic
    file: str = ""

    def option(self, key: str) -> Option:
        """Raises WorksheetError for an unknown key."""
        for option in self.options:
            if option.key == key:
                return option
        raise WorksheetError(unknown_choice("option", key, [o.key for o in self.options]), file=self.file)

    def inputs(self) -> dict[str, Input]:
        """Every input once, exchange rates last."""
        found = {name: item for option in self.options for name, item in option.inputs().items()}
        return found | {item.name: item for item in self.rates.values()}


def read(text: str, *, file: str = "worksheet") -> Worksheet:
    """The worksheet that a TOML text states.

    Raises WorksheetError naming the file, the key and what is allowed there.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorksheetError(f"not TOML: {error}", file=file) from error
    return _Reading(data, file).worksheet()


class _Reading:
    def __init__(self, data: Mapping[str, Any], file: str) -> None:
        self.data, self.file = data, file
        _known(data, _TOP, file, "")
        self.currency = str(data.get("currency", "CNY"))
        if self.currency not in CURRENCIES:
            raise WorksheetError(
                unknown_choice("currency", self.currency, CURRENCIES), file=file, key="currency"
            )
        self.units = self._calendar()

    def worksheet(self) -> Worksheet:
        options = self._table(self.data, "option", "")
        if not options:
            raise WorksheetError("at least one [option.NAME] is needed", file=self.file, key="option")
        common = self._table(self.data, "common", "")
        spans = self._table(self.data, "range", "")
        _known(spans, ("load", "length"), self.file, "range")
        sheet = Worksheet(
            title=str(self.data.get("title", self.file)),
            about=str(self.data.get("about", "")).strip(),
            currency=self.currency,
            units=self.units,
            options=tuple(self._option(key, body, common) for key, body in options.items()),
            rates=self._rates(),
            load=self._span(spans, "load", KEYS["traffic"]["requests"]),
            length=self._span(
                spans, "length", Key("token/request", "prompt tokens, e.g. '4,096 to 65,536 tokens'")
            ),
            published=tuple(self._published(item, i) for i, item in enumerate(self.data.get("published", []))),
            length_mix=self._length_mix(),
            file=self.file,
        )
        for name, item in sheet.inputs().items():
            missing = [base for base in item.unit.dims if base in CURRENCIES and base not in self._worth()]
            if missing:
                told = f"{item.text!r} needs an exchange rate: [rates] {missing[0]} = '7.1 {self.currency}'"
                raise WorksheetError(told, file=self.file, key=name)
        return sheet

    # ── the head ────────────────────────────────────────────────────────────────────────────────────

    def _calendar(self) -> Units:
        calendar = self._table(self.data, "calendar", "")
        limits = {"days_per_year": (360, 366), "weeks_per_year": (40, 53)}
        _known(calendar, limits, self.file, "calendar")
        for key, value in calendar.items():
            low, high = limits[key]
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise WorksheetError(f"a number from {low} to {high}", file=self.file, key=f"calendar.{key}")
        yen = self.currency if self.currency in {"CNY", "JPY"} else None
        weeks = calendar.get("weeks_per_year")
        return Units(
            float(calendar.get("days_per_year", 365)), None if weeks is None else float(weeks), yen=yen
        )

    def _worth(self) -> set[str]:
        return {self.currency, *self._table(self.data, "rates", "")}

    def _rates(self) -> dict[str, Input]:
        rates = {}
        for code, value in self._table(self.data, "rates", "").items():
            if code not in CURRENCIES or code == self.currency:
                told = unknown_choice("currency", code, set(CURRENCIES) - {self.currency})
                raise WorksheetError(told, file=self.file, key=f"rates.{code}")
            key = Key("money", f"what one {code} is worth, e.g. '7.1 {self.currency}'", positive=True)
            item = read_input(
                value, key, f"rates.{code}", units=self.units, currency=self.currency, file=self.file,
                label=f"{self.currency} for one {code}",
            )  # fmt: skip
            if item.unit.dims != {self.currency: 1}:
                raise WorksheetError(f"state it in {self.currency}", file=self.file, key=f"rates.{code}")
            rates[code] = item
        return rates

    def _span(self, spans: Mapping[str, Any], name: str, key: Key) -> Span | None:
        if name not in spans:
            return None
        item = self._input(spans[name], key, f"range.{name}")
        low, high = item.draw(np.array([1e-12, 1 - 1e-12]))
        if item.certain or low <= 0:
            raise WorksheetError(
                "a range above 0, such as '4,096 to 65,536'", file=self.file, key=f"range.{name}"
            )
        return Span(float(f"{low:.9g}"), float(f"{high:.9g}"), str(spans[name]))

    def _length_mix(self) -> dict[float, float]:
        share = Key("", "share of the traffic at this prompt length", high=1.0)
        mix: dict[float, float] = {}
        for name, value in self._table(self.data, "length_mix", "").items():
            if not name.replace("_", "").isdigit() or int(name) < 1:
                raise WorksheetError(
                    "keys are prompt tokens, such as 4096", file=self.file, key=f"length_mix.{name}"
                )
            mix[float(name)] = self._input(value, share, f"length_mix.{name}").central
        if mix and abs(sum(mix.values()) - 1) > 1e-6:
            raise WorksheetError(
                f"the shares add up to {sum(mix.values()):.4g}, not 1", file=self.file, key="length_mix"
            )
        return mix

    def _published(self, item: Any, place: int) -> Published:
        where = f"published[{place}]"
        if not isinstance(item, Mapping):
            raise WorksheetError("write [[published]] with says, what and value", file=self.file, key=where)
        _known(item, ("says", "of", "what", "value", "source"), self.file, where)
        keys = list(self._table(self.data, "option", ""))
        of = tuple(str(part) for part in item.get("of", keys[:2]))
        for key_ in of:
            if key_ not in keys:
                raise WorksheetError(unknown_choice("option", key_, keys), file=self.file, key=f"{where}.of")
        if not 1 <= len(of) <= 2:
            raise WorksheetError("one option, or two to subtract", file=self.file, key=f"{where}.of")
        what = str(item.get("what", "total"))
        choices = ("total", *(part for part in KEYS if part != "traffic"))
        if what not in choices:
            raise WorksheetError(unknown_choice("part", what, choices), file=self.file, key=f"{where}.what")
        key = Key("money/s", "money a year, e.g. '6,929.54 万 CNY/year'", low=-np.inf)
        read_ = self._input(item.get("value", ""), key, f"{where}.value")
        if self.currency not in read_.unit.dims:
            raise WorksheetError(f"state it in {self.currency}", file=self.file, key=f"{where}.value")
        worth = read_.central * self.units.year
        return Published(str(item.get("says", "")), of, what, worth, read_.text, str(item.get("source", "")))

    # ── options ─────────────────────────────────────────────────────────────────────────────────────

    def _option(self, key: str, body: Any, common: Mapping[str, Any]) -> Option:
        where = f"option.{key}"
        if not isinstance(body, Mapping):
            raise WorksheetError("an option is a table", file=self.file, key=where)
        _known(body, ("label", "endpoint", *KEYS), self.file, where)
        _known(common, tuple(KEYS), self.file, "common")
        inputs: dict[tuple[str, str], dict[str, Input]] = {}
        loss: LatencyLoss | None = None
        awaits = ""
        for part in KEYS:
            shared, own = self._table(common, part, "common"), self._table(body, part, where)
            if part == "quality":
                for kind in {**shared, **own}:
                    inputs[part, kind] = self._inputs(
                        part, self._table(shared, kind, "common.quality"),
                        self._table(own, kind, f"{where}.quality"), key, kind,
                    )  # fmt: skip
                continue
            if part == "latency":
                sample, shape = (own.get(k, shared.get(k)) for k in ("sample", "loss"))
                loss, awaits = read_loss(
                    sample,
                    shape,
                    f"option.{key}.latency",
                    units=self.units,
                    currency=self.currency,
                    file=self.file,
                )
                shared, own = ({k: v for k, v in t.items() if k not in _LATENCY} for t in (shared, own))
            inputs[part, ""] = self._inputs(part, shared, own, key, "")
        shared_keys = inputs.pop(("traffic", ""))
        terms = tuple(
            self._term(spec, kind, table | shared_keys, key, loss is not None or bool(awaits))
            for spec in TERMS
            for (part, kind), table in inputs.items()
            if part == spec.part and any(start in table for start in spec.starts)
        )
        if not terms:
            raise WorksheetError(
                "nothing in it costs anything: give it at least one part", file=self.file, key=where
            )
        label = str(body.get("label", key))
        return Option(key, label, terms, loss, awaits, str(body.get("endpoint", "")))

    def _inputs(
        self, part: str, shared: Mapping[str, Any], own: Mapping[str, Any], option: str, kind: str
    ) -> dict[str, Input]:
        middle = f"{part}.{kind}." if kind else f"{part}."
        read_: dict[str, Input] = {}
        for table, prefix in ((shared, "common"), (own, option)):
            _known(table, tuple(KEYS[part]), self.file, f"{prefix}.{middle}".rstrip("."))
            for name, value in table.items():
                read_[name] = self._input(value, KEYS[part][name], f"{prefix}.{middle}{name}")
        return read_

    def _input(self, value: Any, key: Key, name: str) -> Input:
        return read_input(value, key, name, units=self.units, currency=self.currency, file=self.file)

    def _term(self, spec: TermSpec, kind: str, given: Mapping[str, Input], option: str, has_loss: bool) -> Term:
        inputs: dict[str, Input] = {}
        derived: list[tuple[str, str]] = []

        def need(symbol: str) -> None:
            key = next((keys[symbol] for keys in KEYS.values() if symbol in keys), None)
            if symbol in given:
                inputs[symbol] = given[symbol]
            elif symbol in DERIVED:
                for inner in sorted(names(DERIVED[symbol])):
                    need(inner)
                if (symbol, DERIVED[symbol]) not in derived:
                    derived.append((symbol, DERIVED[symbol]))
            elif key is not None and key.default is not None:
                default = key.default.replace("money", self.currency)
                inputs[symbol] = self._input(default, key, f"default.{symbol}")
            else:
                middle = f"{spec.part}.{kind}" if kind else spec.part
                table = next((part for part, keys in KEYS.items() if symbol in keys), spec.part)
                place = middle if table == spec.part else table
                told = f"{spec.name} ({spec.formula}) needs it: {key.help if key else 'see the formula'}"
                raise WorksheetError(told, file=self.file, key=f"option.{option}.{place}.{symbol}")

        for symbol in sorted(names(spec.formula) - {"year", "lost_share"}):
            need(symbol)
        if "lost_share" in names(spec.formula):
            if not has_loss:
                told = (
                    "lost orders need the latency distribution: sample = …, and loss = 'threshold' | 'ramp' | …"
                )
                raise WorksheetError(told, file=self.file, key=f"option.{option}.latency.sample")
            for symbol in ("grace", "patience", "most"):
                need(symbol)
        return Term(spec.part, spec.name, kind, spec.formula, spec.meaning, inputs, tuple(derived))

    def _table(self, data: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
        value = data.get(key, {})
        if not isinstance(value, Mapping):
            raise WorksheetError("a table is wanted here", file=self.file, key=f"{where}.{key}".lstrip("."))
        return value


def _known(table: Mapping[str, Any], allowed: Any, file: str, where: str) -> None:
    for key in table:
        if key not in allowed:
            raise WorksheetError(unknown_choice("key", str(key), allowed), file=file, key=where or None)
