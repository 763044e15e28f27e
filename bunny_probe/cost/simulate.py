"""The cost equation at a point or over draws of its uncertain inputs.

A `Point` says what each input is: fixed, drawn by its quantile `u`, or else the stated value.
The same point serves every option, so a number that options share is the same number in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.expression import FormulaFault, Value, evaluate
from bunny_probe.cost.inputs import Input
from bunny_probe.cost.latency import beta_of, mix_weights
from bunny_probe.cost.schema import PARTS
from bunny_probe.cost.units import CURRENCIES
from bunny_probe.cost.worksheet import Option, Term, Worksheet
from bunny_probe.errors import WorksheetError

__all__ = [
    "LOAD",
    "REPLICATES",
    "Point",
    "by_part",
    "derived_values",
    "draw",
    "lost_share",
    "quantiles",
    "term_costs",
    "total",
    "uncertain",
]

Method = Literal["sobol", "random", "antithetic"]
LOAD = "range.load"
REPLICATES = 8  # independent scrambles: their scatter is the error of the simulation itself


@dataclass(frozen=True, slots=True)
class Point:
    """What the inputs are. Arrays of draws share one length."""

    u: Mapping[str, Floats] = field(default_factory=dict)  # input name → quantiles to draw at
    fixed: Mapping[str, Floats | float] = field(default_factory=dict)  # input name → value in base units
    load: Floats | float | None = None  # requests per second, in place of the stated ones
    length: float | None = None  # prompt tokens a request, in place of the stated ones


def uncertain(sheet: Worksheet) -> dict[str, str]:
    """Name → label of all that can vary: uncertain inputs, and the sampling error of measured latencies."""
    found = {name: item.label for name, item in sheet.inputs().items() if not item.certain}
    for option in sheet.options:
        if option.loss is not None and any(np.isfinite(s.independent) for s in option.loss.strata):
            found[_sampling(option)] = f"{option.key}: latency sample"
    return found


def draw(
    sheet: Worksheet,
    draws: int = 16_384,
    *,
    seed: int = 0,
    method: Method = "sobol",
) -> Point:
    """Quantiles for every uncertain input, shape (draws,) each, in REPLICATES independent blocks.

    `sobol` is the default: see benchmarks/cost_sampling.py. `draws` is rounded up to a power of two a block.
    Where the worksheet has a range of load, LOAD is drawn too, for `choose`.
    """
    names = [*uncertain(sheet), *([LOAD] if sheet.load else [])]
    if draws < REPLICATES * 16:
        raise ValueError(f"at least {REPLICATES * 16} draws")
    u = quantiles(len(names), draws, seed, method)
    return Point(u={name: u[:, i] for i, name in enumerate(names)})


@lru_cache(maxsize=8)
def quantiles(dimensions: int, draws: int, seed: int, method: Method) -> Floats:
    """Numbers in (0, 1), shape (n, dimensions); block k of REPLICATES comes from its own child seed."""
    children = np.random.SeedSequence(seed).spawn(REPLICATES)
    each = int(2 ** np.ceil(np.log2(draws / REPLICATES)))
    blocks: list[Floats] = []
    for child in children:
        rng = np.random.default_rng(child)
        if dimensions == 0:
            block = np.zeros((each, 0))
        elif method == "sobol":
            from scipy.stats import qmc

            block = qmc.Sobol(dimensions, scramble=True, rng=rng).random(each)
        elif method == "antithetic":
            half = rng.random((each // 2, dimensions))
            block = np.concatenate([half, 1 - half])
        else:
            block = rng.random((each, dimensions))
        blocks.append(np.clip(block, 1e-12, 1 - 1e-12))
    merged = np.concatenate(blocks)
    merged.setflags(write=False)
    return merged


def term_costs(sheet: Worksheet, option: Option, point: Point | None = None) -> list[Floats]:
    """Money a year by term of the option, in the worksheet's currency; scalars have shape ().

    Raises WorksheetError where an input waits for a measurement.
    """
    at = point or Point()
    return [np.asarray(_term(sheet, option, term, at)) for term in option.terms]


def by_part(sheet: Worksheet, option: Option, point: Point | None = None) -> dict[str, Floats]:
    """Money a year by part, all four parts."""
    parts: dict[str, Floats] = {part: np.asarray(0.0) for part in PARTS}
    for term, cost in zip(option.terms, term_costs(sheet, option, point), strict=True):
        parts[term.part] = parts[term.part] + cost
    return parts


def total(sheet: Worksheet, option: Option, point: Point | None = None) -> Floats:
    """Money a year."""
    return np.asarray(sum(term_costs(sheet, option, point)), dtype=float)


def lost_share(sheet: Worksheet, option: Option, term: Term, point: Point | None = None) -> Floats:
    """The share of waiting orders that is lost."""
    at = point or Point()
    loss = option.loss
    if loss is None or any(np.isnan(s.seconds).any() for s in loss.strata):
        told = f"it waits for measured latencies ({option.awaits_latency}): give a run, or `otherwise`"
        raise WorksheetError(told, file=sheet.file, key=f"option.{option.key}.latency.sample")
    if at.length is not None:
        loss = loss.at(at.length)
    waits = {symbol: _number(sheet, term.inputs[symbol], at) for symbol in ("grace", "patience", "most")}
    return loss.share(waits["grace"], waits["patience"], waits["most"], at.u.get(_sampling(option)))


def _sampling(option: Option) -> str:
    return f"{option.key}.latency.sample"


def derived_values(
    sheet: Worksheet, option: Option, term: Term, point: Point | None = None
) -> dict[str, Value]:
    """Every symbol of the term's formula with its value in base units, the derived ones included."""
    at = point or Point()
    known = {"year": Value(sheet.units.year, {"s": 1})}
    for symbol, item in term.inputs.items():
        dims = {sheet.currency if base in CURRENCIES else base: power for base, power in item.unit.dims.items()}
        number = _number(sheet, item, at)
        if symbol == "requests" and at.load is not None:
            number = at.load
        if symbol == "input_tokens" and at.length is not None:
            number = at.length
        known[symbol] = Value(number, dims)
    for symbol, formula in term.derived:
        known[symbol] = evaluate(formula, known)
    if "lost_share" in term.formula:
        known["lost_share"] = Value(lost_share(sheet, option, term, at), {})
    return known


def _term(sheet: Worksheet, option: Option, term: Term, at: Point) -> Floats | float:
    try:
        return evaluate(term.formula, derived_values(sheet, option, term, at)).magnitude
    except FormulaFault as fault:
        key = f"option.{option.key}.{term.part}"
        raise WorksheetError(f"{term.title} cannot be computed: {fault}", file=sheet.file, key=key) from fault


def _number(sheet: Worksheet, item: Input, at: Point) -> Floats | float:
    if item.strata and at.length is not None:
        weights = mix_weights([length for length, _, _ in item.strata], at.length)
        item = replace(item, distribution=beta_of(item.strata, weights))
    number: Floats | float
    if item.name in at.fixed:
        number = at.fixed[item.name]
    elif item.name in at.u and not item.certain:
        number = item.draw(at.u[item.name])
    else:
        number = item.central
    if np.isnan(number).any():
        told = f"it waits for a measurement ({item.measured}): give a run, or `otherwise`"
        raise WorksheetError(told, file=sheet.file, key=item.name)
    for base, power in item.unit.dims.items():
        if base in CURRENCIES and base != sheet.currency:
            number = number * _number(sheet, sheet.rates[base], at) ** power
    return number
