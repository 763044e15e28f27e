"""Each summand of the cost, told: the formula, the formula with its numbers, where they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bunny_probe.cost.expression import fill
from bunny_probe.cost.money import money, plain, scale_for
from bunny_probe.cost.simulate import Point, derived_values, lost_share, term_costs
from bunny_probe.cost.worksheet import Option, Term, Worksheet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One option's cost at the stated values, summand by summand."""

    option: str
    label: str
    currency: str
    rows: tuple[ExplainedTerm, ...]

    @property
    def total(self) -> float:
        return sum(row.value for row in self.rows)

    def sentence(self) -> str:
        """The largest summand, and what the sum is."""
        largest = max(self.rows, key=lambda row: abs(row.value))
        share = largest.value / self.total if self.total else 0.0
        return (
            f"{self.label}: {money(self.total, self.currency)} a year at the stated values, "
            f"{share:.0%} of it {largest.part} ({largest.name})."
        )

    def steps(self) -> tuple[str, ...]:
        """How derived numbers came about, each told once."""
        return tuple(dict.fromkeys(step for row in self.rows for step in row.steps))

    def table(self) -> pd.DataFrame:
        import pandas as pd

        scale = scale_for([row.value for row in self.rows], self.currency)
        return pd.DataFrame(
            [
                {
                    "part": row.part,
                    "summand": row.name,
                    "with the numbers": row.filled,
                    f"{scale.unit} a year": scale.number(row.value),
                    "source": row.sources,
                    "note": row.notes,
                }
                for row in self.rows
            ]
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Explanation", "sentence": self.sentence(), "total": self.total, **plain(self)}


@dataclass(frozen=True, slots=True)
class ExplainedTerm:
    part: str
    name: str
    formula: str  # in symbols
    filled: str  # with the stated numbers
    value: float  # money a year
    meaning: str
    sources: str
    notes: str
    steps: tuple[str, ...]  # how its derived numbers came about


def explain(sheet: Worksheet, option: Option) -> Explanation:
    """Every summand of `option` at its stated values."""
    rows = []
    for term, cost in zip(option.terms, term_costs(sheet, option), strict=True):
        filled, steps = _filled(sheet, option, term)
        items = list(term.inputs.values())
        notes = [f"{item.label}: {item.note}" for item in items if item.note]
        sources = [item.source for item in items if item.source]
        if "lost_share" in term.formula and option.loss is not None and option.loss.source:
            sources.append(option.loss.source)
        rows.append(
            ExplainedTerm(
                term.part, term.title, term.formula, filled, float(cost), term.meaning,
                "; ".join(dict.fromkeys(sources)), "; ".join(dict.fromkeys(notes)), steps,
            )
        )  # fmt: skip
    return Explanation(option.key, option.label, sheet.currency, tuple(rows))


def _filled(sheet: Worksheet, option: Option, term: Term) -> tuple[str, tuple[str, ...]]:
    """The formula with its numbers, and how the derived numbers among them came about."""
    texts = {symbol: item.text for symbol, item in term.inputs.items()}
    texts["year"] = _year(sheet, term)
    if "lost_share" in term.formula:
        texts["lost_share"] = f"{float(lost_share(sheet, option, term, Point())):.3%} (lost)"
    steps = []
    values = derived_values(sheet, option, term)
    for symbol, formula in term.derived:
        worked = fill(formula, texts)
        texts[symbol] = f"{float(values[symbol].magnitude):,.4g} {_UNITS.get(symbol, '')}".strip()
        steps.append(f"{symbol.replace('_', ' ')} = {worked} = {texts[symbol]}")
    return fill(term.formula, texts), tuple(steps)


_UNITS = {"gpus": "GPU", "gpu_seconds": "s"}


def _year(sheet: Worksheet, term: Term) -> str:
    """The year, in the unit in which the term's rates are told."""
    told = " ".join(f"{item.text} {item.unit.text}" for item in term.inputs.values())
    told = re.sub(r"person-\w+|人[天日时]", "", told)
    units = sheet.units
    if re.search(r"week|周", told):
        return f"{units.weeks_per_year or units.days_per_year / 7:,.6g} weeks"
    if re.search(r"day|天|日", told):
        return f"{units.days_per_year:g} days"
    if "kWh" in told:
        return f"{units.days_per_year * 24:,g} h"
    if re.search(r"month|月", told):
        return "12 months"
    if re.search(r"year|年", told):
        return "1 year"
    return f"{units.year:,.0f} s"
