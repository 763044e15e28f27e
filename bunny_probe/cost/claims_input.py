"""A claims table: TOML text → checked claims. See `claims` for what becomes of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bunny_probe.cost.expression import FormulaFault, Value, evaluate, fill
from bunny_probe.cost.growth import GROWTHS, growth_of
from bunny_probe.cost.rounding import half_digit
from bunny_probe.cost.units import Unit, UnitFault, Units, dims_text, fits_into
from bunny_probe.errors import WorksheetError, unknown_choice

__all__ = ["MEASURES", "TYPES", "Claim", "ClaimsTable", "computed", "read_claims", "shown", "working"]

TYPES: dict[str, str] = {
    "value": "formula, where, claimed: the formula's value against the figure",
    "pair": "formula, where, claimed: two statements of the vendor, one as formula, one as figure",
    "growth": "formula, where, variable, from, to, growth: how the formula grows in the variable",
    "measured": "measure, claimed (or formula and where), relation, at: for a run to decide",
}
MEASURES: dict[str, tuple[str, str]] = {  # name → (unit, meaning)
    "ttft_p50": ("s", "median time to first token"),
    "ttft_p95": ("s", "95th percentile of time to first token"),
    "latency_p50": ("s", "median time to the end of the answer"),
    "latency_p95": ("s", "95th percentile of time to the end of the answer"),
    "latency_p99": ("s", "99th percentile of time to the end of the answer"),
    "tokens_per_s": ("token/s", "median speed of one answer after its first token"),
    "score": ("", "mean score of the answers"),
    "answered": ("", "share of requests answered (not refused, truncated or failed)"),
}
_RELATIONS = ("about", "at most", "at least")
_KEYS = (
    "id", "says", "type", "formula", "where", "claimed", "kilo", "note", "variable", "from", "to", "growth",
    "measure", "relation", "at", "tolerance", "slips",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """One row of the table, read and checked."""

    id: str
    says: str
    type: str
    formula: str = ""
    values: Mapping[str, Value] | None = None
    texts: Mapping[str, str] | None = None  # the values as written
    claimed: float = float("nan")  # in base units
    claimed_unit: Unit = Unit(1.0, {}, "")  # noqa: RUF009 (frozen)
    claimed_text: str = ""
    slack: float = 0.0  # half of the figure's last digit
    kilo: int = 1000
    note: str = ""
    slips: tuple[tuple[str, str], ...] = ()  # (what would have gone wrong, the formula that it gives)
    variable: str = ""
    span: tuple[float, float] = (1.0, 2.0)
    growth: str = ""
    measure: str = ""
    relation: str = "about"
    length: int | None = None  # prompt tokens at which it is measured
    tolerance: float = 0.1  # of `about`, when measured


@dataclass(frozen=True, slots=True)
class ClaimsTable:
    title: str
    about: str
    claims: tuple[Claim, ...]
    file: str = ""


def read_claims(text: str, *, file: str = "claims") -> ClaimsTable:
    """The table that a TOML text states. Raises WorksheetError naming file, key and what is allowed."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorksheetError(f"not TOML: {error}", file=file) from error
    for key in data:
        if key not in {"title", "about", "claim"}:
            raise WorksheetError(unknown_choice("key", key, ("title", "about", "claim")), file=file)
    rows = data.get("claim", [])
    if not isinstance(rows, list) or not rows:
        raise WorksheetError("at least one [[claim]] is needed", file=file, key="claim")
    claims: list[Claim] = []
    for place, row in enumerate(rows):
        where = f"claim[{place}]"
        if not isinstance(row, Mapping):
            raise WorksheetError("write [[claim]]", file=file, key=where)
        try:
            claim = _read(row, where)
        except (UnitFault, FormulaFault, ValueError) as fault:
            raise WorksheetError(str(fault), file=file, key=f"{where} ({row.get('id', 'no id')})") from fault
        if any(claim.id == other.id for other in claims):
            raise WorksheetError(f"the id {claim.id!r} is there twice", file=file, key=f"{where}.id")
        claims.append(claim)
    title, about = str(data.get("title", file)), str(data.get("about", "")).strip()
    return ClaimsTable(title, about, tuple(claims), file)


def _read(row: Mapping[str, Any], where: str) -> Claim:
    for key in row:
        if key not in _KEYS:
            raise UnitFault(unknown_choice("key", str(key), _KEYS))
    kind = str(row.get("type", "value"))
    if kind not in TYPES:
        raise UnitFault(unknown_choice("type", kind, TYPES))
    for needed in ("says", *{"growth": ("formula", "variable", "growth"), "measured": ("measure",)}.get(
        kind, ("formula", "claimed")
    )):  # fmt: skip
        if not row.get(needed):
            raise UnitFault(f"{needed!r} is needed: type {kind!r} takes {TYPES[kind]}")
    kilo = row.get("kilo", 1000)
    if kilo not in (1000, 1024):
        raise UnitFault(f"kilo is what K means: 1000 or 1024, not {kilo!r}")
    units = Units(kilo=kilo)
    texts = {str(name): str(value) for name, value in _mapping(row, "where").items()}
    values = {name: _value(units, text, name) for name, text in texts.items()}
    common: dict[str, Any] = {
        "id": str(row.get("id", where)), "says": str(row["says"]), "type": kind, "values": values,
        "texts": texts, "formula": str(row.get("formula", "")), "kilo": kilo, "note": str(row.get("note", "")),
    }  # fmt: skip
    if kind == "growth":
        return _read_growth(row, common, units)
    if kind == "measured":
        common |= _read_measured(row)
    if "claimed" in row:
        text = str(row["claimed"])
        number, unit = units.one(text)
        value = number * unit.factor
        common |= {
            "claimed": value, "claimed_unit": unit, "claimed_text": text,
            "slack": half_digit(text, number, value),
        }  # fmt: skip
    elif kind == "measured" and common["formula"]:
        result = evaluate(common["formula"], values)
        unit = Unit(1.0, result.dims, MEASURES[common["measure"]][0])
        number = float(result.magnitude)
        common |= {"claimed": number, "claimed_unit": unit, "claimed_text": shown(number, unit)}
    else:
        raise UnitFault("a measured claim needs `claimed`, or `formula` and `where`")
    slips = row.get("slips", [])
    if not isinstance(slips, list) or not all(
        isinstance(s, Mapping) and {"with", "formula"} == set(s) for s in slips
    ):
        raise UnitFault("slips is a list of { with = 'what would be wrong', formula = '…' }")
    claim = Claim(**common, slips=tuple((str(s["with"]), str(s["formula"])) for s in slips))
    if kind == "measured":
        wanted = Units().parse(MEASURES[claim.measure][0]).dims
        if not fits_into(claim.claimed_unit.dims, wanted):
            raise UnitFault(
                f"{claim.claimed_text!r} is {dims_text(claim.claimed_unit.dims)}, not {dims_text(wanted)}"
            )
    else:
        for formula in (claim.formula, *(formula for _, formula in claim.slips)):
            computed(claim, formula)
    return claim


def _read_growth(row: Mapping[str, Any], common: dict[str, Any], units: Units) -> Claim:
    if row["growth"] not in GROWTHS:
        raise UnitFault(unknown_choice("growth", str(row["growth"]), GROWTHS))
    low, high = (_value(units, str(row.get(key, "")), key) for key in ("from", "to"))
    if not 0 < float(low.magnitude) < float(high.magnitude):
        raise UnitFault("from and to must rise from above 0")
    span = (float(low.magnitude), float(high.magnitude))
    growth_of(common["formula"], common["values"], str(row["variable"]), *span, dims=low.dims)
    return Claim(
        **{**common, "values": common["values"] | {str(row["variable"]): low}},
        variable=str(row["variable"]), span=span, growth=str(row["growth"]),
    )  # fmt: skip


def _read_measured(row: Mapping[str, Any]) -> dict[str, Any]:
    measure, relation = str(row["measure"]), str(row.get("relation", "about"))
    if measure not in MEASURES:
        raise UnitFault(unknown_choice("measure", measure, MEASURES))
    if relation not in _RELATIONS:
        raise UnitFault(unknown_choice("relation", relation, _RELATIONS))
    at = _mapping(row, "at")
    length = at.get("length")
    if set(at) - {"length"} or (length is not None and (not isinstance(length, int) or length < 1)):
        raise UnitFault("at = { length = 65536 } names the prompt length in tokens")
    tolerance = row.get("tolerance", 0.1)
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
        raise UnitFault("tolerance is a share between 0 and 1")
    return {"measure": measure, "relation": relation, "length": length, "tolerance": float(tolerance)}


def _mapping(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key, {})
    if not isinstance(value, Mapping):
        raise UnitFault(f"{key} is a table, such as {key} = {{ tokens = 32768 }}")
    return value


def _value(units: Units, text: str, name: str) -> Value:
    try:
        number, unit = units.one(text)
    except UnitFault as fault:
        raise UnitFault(f"{name}: {fault}") from fault
    return Value(number * unit.factor, unit.dims)


def computed(claim: Claim, formula: str = "") -> float:
    value = evaluate(formula or claim.formula, claim.values or {})
    if not fits_into(value.dims, claim.claimed_unit.dims) and not fits_into(
        claim.claimed_unit.dims, value.dims
    ):
        told = f"{formula or claim.formula} is {dims_text(value.dims)}"
        raise FormulaFault(
            f"{told}, but the claim {claim.claimed_text!r} is {dims_text(claim.claimed_unit.dims)}"
        )
    return float(value.magnitude)


def shown(value: float, unit: Unit, *, bare: bool = False) -> str:
    """Four significant digits, in the claim's unit."""
    number = value / unit.factor
    if number and not 1e-4 <= abs(number) < 1e9:
        text = f"{number:.4g}"
    else:
        decimals = max(0, 4 - len(str(int(abs(number))))) if abs(number) >= 1 else 0
        text = f"{number:,.{decimals}f}" if abs(number) >= 1 else f"{number:.4g}"
    return text if bare else f"{text} {unit.text}".strip()


def working(claim: Claim) -> str:
    """The claim's formula with its numbers."""
    return fill(claim.formula, claim.texts or {})
