"""Which option to take: the cheapest, and the flattest, whose cost moves least when the world does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.money import money, plain, scale_for
from bunny_probe.cost.simulate import REPLICATES, Point, draw, total
from bunny_probe.cost.totals import Spread, spread
from bunny_probe.cost.worksheet import Option, Worksheet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Choice", "Standing", "choose"]

_LENGTHS = 8  # lengths at which the length range is sampled, the midpoints of equal parts of its logarithm
_LOAD = "range.load"


@dataclass(frozen=True, slots=True)
class Standing:
    """One option among the others."""

    option: str
    label: str
    planned: Spread  # load and length as stated, inputs varying
    ranged: Spread  # load and length over the worksheet's ranges too
    cheapest: float  # share of draws (ranged) in which it is the cheapest
    regret: float  # mean of what it costs above the cheapest of each draw

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
        return min(self.standings, key=lambda item: item.ranged.mean)

    @property
    def flattest(self) -> Standing:
        return min(self.standings, key=lambda item: item.width)

    def sentence(self) -> str:
        cheap, flat = self.cheapest, self.flattest
        if len(self.standings) == 1:
            return f"Only {cheap.option} is on the table."
        over = f" over {' and '.join(self.varied)}" if self.varied else ""
        if all(item.ranged.certain for item in self.standings):
            return f"{cheap.option} is the cheapest; flatness needs uncertainties or ranges, none was given."
        lead = (
            f"{cheap.option} is the cheapest in {cheap.cheapest:.0%} of draws{over} "
            f"(mean {money(cheap.ranged.mean, self.currency)} a year)"
        )
        width = f"its {self.level:.0%} interval is {money(flat.width, self.currency)} wide"
        error = 1.96 * 2 * flat.ranged.error
        if flat is cheap:
            other = min((item for item in self.standings if item is not flat), key=lambda item: item.width)
            against = money(other.width, self.currency)
            return f"{lead}, and the flattest: {width} against {against} for {other.option}."
        unclear = " (within the error of the simulation: a tie)" if cheap.width - flat.width < error else ""
        price = money(flat.ranged.mean - cheap.ranged.mean, self.currency)
        return (
            f"{lead}; {flat.option} is the flattest: {width} against "
            f"{money(cheap.width, self.currency)}{unclear}. That steadiness costs {price} a year on average."
        )

    def table(self) -> pd.DataFrame:
        import pandas as pd

        ends = [v for item in self.standings for v in (item.ranged.low, item.ranged.high, item.planned.stated)]
        scale = scale_for(ends, self.currency)
        return pd.DataFrame(
            [
                {
                    "option": item.label,
                    f"stated, {scale.unit} a year": scale.number(item.planned.stated),
                    f"{self.level:.0%} interval, load and length as stated": _ends(item.planned, scale),
                    "interval over the ranges": _ends(item.ranged, scale),
                    "width": scale.number(item.width),
                    "cheapest in": f"{item.cheapest:.1%}",
                    "mean regret": scale.number(item.regret),
                    "": ", ".join(
                        word
                        for word, best in (("cheapest", self.cheapest), ("flattest", self.flattest))
                        if best is item
                    ),
                }
                for item in self.standings
            ]
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "Choice", "sentence": self.sentence(), "cheapest": self.cheapest.option,
            "flattest": self.flattest.option, **plain(self),
        }  # fmt: skip


def choose(
    sheet: Worksheet,
    options: tuple[Option, ...] | None = None,
    *,
    level: float = 0.9,
    draws: int = 16_384,
    seed: int = 0,
) -> Choice:
    """Ranks options by cost and by flatness.

    Flatness is the width of the interval of the yearly cost when every uncertain input varies as stated, load
    uniformly over its [range], and length evenly in its logarithm over its [range]. All options see the same
    draws.
    """
    chosen = options or sheet.options
    planned = draw(sheet, draws, seed=seed, extra=(_LOAD,))
    n = planned.u[_LOAD].size
    ranged = [_ranged(sheet, option, planned) for option in chosen]
    costs = np.stack(ranged)
    best = costs.min(axis=0)
    wins = costs == best
    standings = [
        Standing(
            option.key,
            option.label,
            spread("planned", float(total(sheet, option)), total(sheet, option, planned), n, level),
            spread("ranged", float(total(sheet, option)), costs[i], n, level),
            float((wins[i] / wins.sum(axis=0)).mean()),
            float((costs[i] - best).mean()),
        )
        for i, option in enumerate(chosen)
    ]
    varied = tuple(name for name, span in (("load", sheet.load), ("length", sheet.length)) if span)
    return Choice(
        sheet.currency, level, n, varied, tuple(sorted(standings, key=lambda item: item.planned.stated))
    )


def _ranged(sheet: Worksheet, option: Option, point: Point) -> Floats:
    """The option's cost with load and length drawn from their ranges, in the order of the draws.

    Each length gets one run of consecutive draws of every replicate: within a Sobol sequence these are nets of
    their own, where every eighth point would be confounded with the first input.
    """
    n = point.u[_LOAD].size
    load = None if sheet.load is None else sheet.load.low + (sheet.load.high - sheet.load.low) * point.u[_LOAD]
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
