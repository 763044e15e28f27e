"""Which inputs move the total: one at a time over each one's interval, and by share of the variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.money import plain, scale_for
from bunny_probe.cost.simulate import REPLICATES, Point, quantiles, total, uncertain
from bunny_probe.cost.worksheet import Option, Worksheet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Bar", "Tornado", "tornado"]

_NEGLIGIBLE = 0.001  # share of the variance below which an input that moves nothing on its own is not shown


@dataclass(frozen=True, slots=True)
class Bar:
    """One input: the total with it at the ends of its interval, and its share of the total's variance."""

    name: str
    label: str
    at_low: float  # the total, money a year
    at_high: float
    alone: float  # first-order Sobol index: share of the variance gone if this input were known
    with_others: float  # total-order index: share left if all others were known
    error: float  # standard error of the two, the larger

    @property
    def swing(self) -> float:
        return abs(self.at_high - self.at_low)


@dataclass(frozen=True, slots=True)
class Tornado:
    """Bars, the widest first."""

    title: str
    currency: str
    level: float
    stated: float
    draws: int
    bars: tuple[Bar, ...]

    def sentence(self) -> str:
        if not self.bars:
            return f"{self.title}: no input was given an uncertainty, so there is nothing to compare."
        first = self.bars[0]
        scale = scale_for([first.at_low, first.at_high], self.currency)
        ends = sorted((first.at_low, first.at_high))
        told = (
            f"{self.title}: the input that moves it most is {first.label}: over its {self.level:.0%} interval "
            f"alone the total goes from {scale.number(ends[0])} to {scale.number(ends[1])} {scale.unit} a year "
            f"({first.alone:.1%} ± {1.96 * first.error:.1%} of the variance)."
        )
        if ends[0] < 0 < ends[1]:
            told += " That alone can turn the sign."
        return told

    def table(self) -> pd.DataFrame:
        import pandas as pd

        ends = [end for bar in self.bars for end in (bar.at_low, bar.at_high)]
        scale = scale_for(ends, self.currency)
        return pd.DataFrame(
            [
                {
                    "input": bar.label,
                    f"total at its low end, {scale.unit}": scale.number(bar.at_low),
                    "at its high end": scale.number(bar.at_high),
                    "swing": scale.number(bar.swing),
                    "variance share alone": f"{bar.alone:.1%} ± {1.96 * bar.error:.1%}",
                    "with interactions": f"{bar.with_others:.1%}",
                }
                for bar in self.bars
            ]
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Tornado", "sentence": self.sentence(), **plain(self)}


def tornado(
    sheet: Worksheet,
    first: Option,
    second: Option | None = None,
    *,
    level: float = 0.9,
    draws: int = 8_192,
    seed: int = 0,
) -> Tornado:
    """Sensitivity of `first`'s yearly total, or of `first` minus `second`.

    Bars: each input at the ends of its `level` interval, all others at their stated values. Variance shares:
    Saltelli et al. 2010 (first order, estimator b) and Jansen 1999 (total order), on Sobol points.
    """

    def cost(point: Point) -> Floats:
        own = total(sheet, first, point)
        return own if second is None else own - total(sheet, second, point)

    labels = uncertain(sheet)
    stated = float(cost(Point()))
    tail = (1 - level) / 2
    ends = {name: cost(Point(u={name: np.array([tail, 1 - tail])})) for name in labels}
    shares = _variance_shares(cost, list(labels), draws, seed)
    least = 1e-9 * max(1.0, abs(stated))  # what is common to both options cancels but for rounding
    moving = [name for name, pair in ends.items() if np.ptp(pair) > least or shares[name][1] > _NEGLIGIBLE]
    bars = sorted(
        (
            Bar(name, labels[name], float(ends[name].flat[0]), float(ends[name].flat[-1]), *shares[name])
            for name in moving
        ),
        key=lambda bar: -bar.swing,
    )  # fmt: skip
    title = first.label if second is None else f"{first.key} minus {second.key}"
    return Tornado(title, sheet.currency, level, stated, draws, tuple(bars))


def _variance_shares(
    cost: Any, names: list[str], draws: int, seed: int
) -> dict[str, tuple[float, float, float]]:
    if not names:
        return {}
    both = quantiles(2 * len(names), draws, seed, "sobol")
    one, other = both[:, : len(names)], both[:, len(names) :]

    def blocks(u: Floats) -> Floats:
        drawn = cost(Point(u={name: u[:, i] for i, name in enumerate(names)}))
        return np.broadcast_to(drawn, (len(u),)).reshape(REPLICATES, -1)

    f_one, f_other = blocks(one), blocks(other)
    centre = np.concatenate([f_one, f_other], axis=1).mean()
    variance = np.concatenate([f_one, f_other], axis=1).var(axis=1)
    if variance.min() <= (1e-9 * max(1.0, abs(centre))) ** 2:
        return dict.fromkeys(names, (0.0, 0.0, 0.0))
    found = {}
    for i, name in enumerate(names):
        mixed = one.copy()
        mixed[:, i] = other[:, i]
        f_mixed = blocks(mixed)
        alone = ((f_other - centre) * (f_mixed - f_one)).mean(axis=1) / variance
        whole = ((f_one - f_mixed) ** 2).mean(axis=1) / (2 * variance)
        error = max(float(x.std(ddof=1)) for x in (alone, whole)) / np.sqrt(REPLICATES)
        found[name] = (float(np.clip(alone.mean(), 0, 1)), float(np.clip(whole.mean(), 0, 1)), float(error))
    return found
