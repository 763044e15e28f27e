"""Which option to take: the cheapest, and the flattest, whose cost moves least when the world does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.money import money, plain, scale_for
from bunny_probe.cost.simulate import LOAD, REPLICATES, Point, total
from bunny_probe.cost.totals import Spread, spread
from bunny_probe.cost.worksheet import Option, Worksheet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Choice", "Standing", "choose"]

_LENGTHS = 8  # lengths at which the length range is sampled, the midpoints of equal parts of its logarithm


@dataclass(frozen=True, slots=True)
class Standing:
    """One option among the others."""

    option: str
    label: str
    planned: Spread  # load and length as stated, inputs varying
    ranged: Spread  # load and length over the worksheet's ranges too
    wins: float  # share of draws in which it is the cheapest, load and length as stated
    wins_ranged: float  # the same over the ranges
    regret: float  # mean of what it costs above the cheapest of each draw, over the ranges

    @property
    def width(self) -> float:
        """The width of the interval over inputs, load and length: what the flattest has least of."""
        return self.ranged.high - self.ranged.low


@dataclass(frozen=True, slots=True)
class Choice:
    currency: str
    level: float
    draws: int
    varied: tuple[str, ...]  # of load and length, those that a range was given for
    standings: tuple[Standing, ...]  # by stated cost

    @property
    def cheapest(self) -> Standing:
        """The lowest mean cost with load and length as stated."""
        return min(self.standings, key=lambda item: item.planned.mean)

    @property
    def cheapest_ranged(self) -> Standing:
        """The lowest mean cost over the ranges of load and length."""
        return min(self.standings, key=lambda item: item.ranged.mean)

    @property
    def flattest(self) -> Standing:
        """The narrowest interval over inputs, load and length."""
        return min(self.standings, key=lambda item: item.width)

    def sentence(self) -> str:
        cheap, flat = self.cheapest, self.flattest
        if len(self.standings) == 1:
            return f"Only {cheap.option} is on the table."
        lead = (
            f"As planned {cheap.option} is the cheapest, in {cheap.wins:.0%} of draws "
            f"(mean {money(cheap.planned.mean, self.currency)} a year)."
        )
        if all(item.ranged.certain for item in self.standings):
            return f"{lead} Flatness needs uncertainties or ranges; none was given."
        if self.varied:
            over, best = " and ".join(self.varied), self.cheapest_ranged
            still = "it stays so" if best is cheap else f"{best.option} is"
            lead += f" Over the ranges of {over} {still}, in {best.wins_ranged:.0%} of draws."
        others = [item for item in self.standings if item is not flat]
        rival = min(others, key=lambda item: item.width)
        tie = rival.width - flat.width < 1.96 * 2 * max(flat.ranged.error, rival.ranged.error)
        width = (
            f"{self.level:.0%} of draws lie within {money(flat.width, self.currency)}, "
            f"against {money(rival.width, self.currency)} for {rival.option}"
        )
        told = f"{lead} The flattest is {flat.option}: {width}{', a tie within the simulation error' * tie}."
        premium = flat.planned.mean - cheap.planned.mean
        if flat is not cheap:
            told += f" As planned that steadiness costs {money(premium, self.currency)} a year on average."
        return told

    def table(self) -> pd.DataFrame:
        import pandas as pd

        ends = [v for item in self.standings for v in (item.ranged.low, item.ranged.high, item.planned.stated)]
        scale = scale_for(ends, self.currency)
        return pd.DataFrame(
            [
                {
                    "option": item.label,
                    f"stated, {scale.unit} a year": scale.number(item.planned.stated),
                    f"{self.level:.0%} interval as planned": _ends(item.planned, scale),
                    "cheapest as planned": f"{item.wins:.1%}",
                    "interval over the ranges": _ends(item.ranged, scale),
                    "its width": scale.number(item.width),
                    "cheapest over the ranges": f"{item.wins_ranged:.1%}",
                    "mean regret": scale.number(item.regret),
                }
                for item in self.standings
            ]
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "Choice",
            "sentence": self.sentence(),
            "cheapest": self.cheapest.option,
            "cheapest_ranged": self.cheapest_ranged.option,
            "flattest": self.flattest.option,
            **plain(self),
        }


def choose(sheet: Worksheet, point: Point, *, level: float = 0.9) -> Choice:
    """Ranks the options by cost and by flatness, over the draws of `point` (from `simulate.draw`).

    Flatness is the width of the interval of the yearly cost when every uncertain input varies as stated, load
    uniformly over its [range], and length evenly in its logarithm over its [range]. All options see the same
    draws.
    """
    chosen = sheet.options
    n = next((array.size for array in point.u.values()), REPLICATES * _LENGTHS)
    ranged = np.stack([_ranged(sheet, option, point, n) for option in chosen])
    costs = np.stack([np.broadcast_to(total(sheet, option, point), (n,)) for option in chosen])
    wins, wins_ranged = _wins(costs), _wins(ranged)
    standings = [
        Standing(
            option.key,
            option.label,
            spread("planned", float(total(sheet, option)), costs[i], n, level),
            spread("ranged", float(total(sheet, option)), ranged[i], n, level),
            float(wins[i]),
            float(wins_ranged[i]),
            float((ranged[i] - ranged.min(axis=0)).mean()),
        )
        for i, option in enumerate(chosen)
    ]
    varied = tuple(name for name, span in (("load", sheet.load), ("length", sheet.length)) if span)
    return Choice(
        sheet.currency, level, n, varied, tuple(sorted(standings, key=lambda item: item.planned.stated))
    )


def _wins(costs: Floats) -> Floats:
    """The share of columns in which each row is the smallest; ties are shared."""
    least = costs == costs.min(axis=0)
    return np.asarray((least / least.sum(axis=0)).mean(axis=1), dtype=float)


def _ranged(sheet: Worksheet, option: Option, point: Point, n: int) -> Floats:
    """The option's cost with load and length drawn from their ranges, in the order of the draws.

    Each length gets one run of consecutive draws of every replicate: within a Sobol sequence these are nets of
    their own, where every eighth point would be confounded with the first input.
    """
    load = None if sheet.load is None else sheet.load.low + (sheet.load.high - sheet.load.low) * point.u[LOAD]
    if sheet.length is None:
        return np.broadcast_to(total(sheet, option, Point(u=point.u, load=load)), (n,)).copy()
    place = (np.arange(_LENGTHS) + 0.5) / _LENGTHS
    lengths = sheet.length.low * (sheet.length.high / sheet.length.low) ** place
    where = np.arange(n).reshape(REPLICATES, _LENGTHS, -1)
    costs = np.empty(n)
    for i, length in enumerate(lengths):
        at = where[:, i].ravel()
        part = Point(
            u={name: array[at] for name, array in point.u.items()},
            load=None if load is None else load[at],
            length=float(length),
        )
        costs[at] = total(sheet, option, part)
    return costs


def _ends(item: Spread, scale: Any) -> str:
    return "no uncertainty" if item.certain else f"{scale.number(item.low)} to {scale.number(item.high)}"
