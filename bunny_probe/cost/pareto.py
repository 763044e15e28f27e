"""Cost against quality: which options nothing else beats on both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.expression import evaluate
from bunny_probe.cost.money import money, plain, scale_for
from bunny_probe.cost.simulate import Point, derived_values, total
from bunny_probe.cost.totals import Spread, spread
from bunny_probe.cost.worksheet import Option, Worksheet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pareto", "Position", "pareto"]


@dataclass(frozen=True, slots=True)
class Position:
    """One option: what it costs, and the share of requests that need neither review nor correction."""

    option: str
    label: str
    cost: Spread
    quality: Spread
    efficient: bool  # no other option is at least as good and as cheap, and better in one


@dataclass(frozen=True, slots=True)
class Pareto:
    currency: str
    level: float
    draws: int
    positions: tuple[Position, ...]  # by cost

    def sentence(self) -> str:
        best = [item for item in self.positions if item.efficient]
        beaten = [item.option for item in self.positions if not item.efficient]
        told = ", then ".join(
            f"{item.option} ({money(item.cost.stated, self.currency)} a year, "
            f"{item.quality.stated:.1%} of requests need no correction)"
            for item in best
        )
        rest = (
            f" {', '.join(beaten)} cost{'s' * (len(beaten) == 1)} more for no better answers." if beaten else ""
        )
        return f"Worth considering, from the cheapest: {told}.{rest}"

    def table(self) -> pd.DataFrame:
        import pandas as pd

        scale = scale_for([item.cost.high for item in self.positions], self.currency)

        def ends(cost: Spread) -> str:
            return f"{scale.number(cost.low)} to {scale.number(cost.high)}"

        return pd.DataFrame(
            [
                {
                    "option": item.label,
                    f"cost, {scale.unit} a year": scale.number(item.cost.stated),
                    f"{self.level:.0%} interval": ends(item.cost),
                    "requests that need no correction": f"{item.quality.stated:.2%}",
                    "its interval": f"{item.quality.low:.2%} to {item.quality.high:.2%}",
                    "on the frontier": "yes" if item.efficient else "no",
                }
                for item in self.positions
            ]
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Pareto", "sentence": self.sentence(), **plain(self)}


def pareto(sheet: Worksheet, point: Point, *, level: float = 0.9) -> Pareto:
    """Every option's cost and quality over the draws of `point`.

    Quality is 1 minus the share of requests that are reviewed or wrong, by kind: share · max(review rate, error
    rate), summed over kinds and held at 0 or above.
    """
    n = next((array.size for array in point.u.values()), 8)
    seen = []
    for option in sheet.options:
        cost = spread("cost", float(total(sheet, option)), total(sheet, option, point), n, level)
        quality = spread(
            "quality", float(_quality(sheet, option, Point())), _quality(sheet, option, point), n, level
        )
        seen.append((option, cost, quality))
    positions = [
        Position(
            option.key,
            option.label,
            cost,
            quality,
            not any(
                other_cost.stated <= cost.stated
                and other_quality.stated >= quality.stated
                and (other_cost.stated < cost.stated or other_quality.stated > quality.stated)
                for _, other_cost, other_quality in seen
            ),
        )
        for option, cost, quality in seen
    ]
    return Pareto(sheet.currency, level, n, tuple(sorted(positions, key=lambda item: item.cost.stated)))


def _quality(sheet: Worksheet, option: Option, point: Point) -> Floats:
    touched: dict[str, Floats] = {}
    for term in option.terms:
        if term.part != "quality":
            continue
        known = derived_values(sheet, option, term, point)
        rate = "review_rate" if "review_rate" in term.inputs else "error_rate"
        share = np.asarray(evaluate(f"share * {rate}", known).magnitude, dtype=float)
        touched[term.kind] = np.maximum(touched.get(term.kind, np.asarray(0.0)), share)
    whole = sum(touched.values(), np.asarray(0.0))
    return np.asarray(np.maximum(1 - whole, 0.0), dtype=float)
