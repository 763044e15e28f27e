"""The share of facts that go unused, against their position: a + b·(1 - e^(-k·position))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.curves import Axis, Curve
from bunny_probe.fits.decay import LengthCell, ensemble_of, length_cells, positions, warnings_of
from bunny_probe.fits.result import Counts, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import refused_counts
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Unreferenced", "UnreferencedFit"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class UnreferencedFit(Result):
    status: Status
    reason: str
    start: Estimate  # a: the share missed at position 0, extrapolated to there
    rise: Estimate  # b: how much more is missed far in
    scale: Estimate  # 1/k: tokens over which all but 37 % of the rise has come; None: not bounded by the data
    rising: bool  # whether this curve is better than a constant by AICc
    cells: tuple[LengthCell, ...]  # shares missed
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per position."""
        return records_table(self.cells)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No course of the unreferenced share: {self.reason}."
        text = (
            f"The share of facts left unused starts at {self.start.text()} and rises by {self.rise.text()} "
            f"over about {self.scale.text(0)} tokens ({self.counts.used:,} answers from "
            f"{self.counts.clusters:,} documents, {self.level:.0%} intervals)"
        )
        return text + (f"; {self.reason}." if self.reason else ".")


@dataclass(frozen=True, slots=True)
class Unreferenced:
    """Binomial maximum likelihood of a + b(1 - e^(-k·position)) on the misses, position in tokens from the
    start. It is the exponential curve of `Decay` seen from the misses, and shares its likelihood.
    """

    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> UnreferencedFit:
        """`frame`: columns score, answered, cluster, length_tokens, depth."""
        try:
            sample, x = positions(frame, "position")
            ensemble, cells, xs = ensemble_of(x, sample, level=self.level, models=("constant", "exponential"))
            if sample.score.min() == sample.score.max():
                raise FitRefused(f"all {sample.counts.used} scores are {sample.score[0]:g}: nothing rises")
            if xs.size < 4:
                raise FitRefused(f"{xs.size} positions cannot carry three parameters: at least 4 are needed")
        except FitRefused as error:
            return self._refused(str(error), refused_counts(error))
        axis = ensemble.axis
        alone = ensemble.only("exponential")

        def wanted(curve: Curve, theta: Floats) -> Floats:
            return _parameters(theta, axis)

        low, high = alone.project(wanted)
        value = _parameters(alone.chosen.theta[None, :], axis)[0]
        n, m = sample.counts.used, sample.counts.clusters
        rows = ensemble.rows()
        rising = rows[0].model == "exponential"
        bounded = low[1] > 0.005
        notes = [warnings_of(ensemble, rows[0], cells)]
        start = Estimate(float(value[0]), max(float(low[0]), 0.0), float(high[0]), n, m, self.level)
        if np.exp(value[2]) < axis.low:
            notes.append(f"the rise is over before the first probed position, {axis.low:,.0f} tokens")
            start = Estimate(None, 0.0, float(high[3]), n, m, self.level)
        if not rising:
            notes.append("a constant share explains the data as well, so the rise and its scale mean little")
        return UnreferencedFit(
            status="ok" if rising else "censored",
            reason="; ".join(note for note in notes if note),
            start=start,
            rise=Estimate(float(value[1]), max(float(low[1]), 0.0), float(high[1]), n, m, self.level),
            scale=Estimate(
                float(np.exp(value[2])),
                float(np.exp(low[2])) if bounded else None,
                float(np.exp(high[2])) if bounded and high[2] < np.log(axis.width * 20) else None,
                n, m, self.level,
            ),
            rising=rising,
            cells=tuple(
                LengthCell(c.x, 1 - c.score, 1 - c.high, 1 - c.low, c.n, c.clusters)
                for c in length_cells(xs, cells, self.level)
            ),
            counts=sample.counts,
            level=self.level,
        )  # fmt: skip

    def _refused(self, reason: str, counts: Counts) -> UnreferencedFit:
        nothing = Estimate(level=self.level)
        return UnreferencedFit("refused", reason, nothing, nothing, nothing, False, (), counts, self.level)


def _parameters(theta: Floats, axis: Axis) -> Floats:
    """(a, b, ln(1/k), share missed at the first position) of the exponential curve's θ."""
    base = 1 / (1 + np.exp(-theta[..., 0]))
    floor = base / (1 + np.exp(-theta[..., 1]))
    k = np.exp(theta[..., 2]) / axis.width
    b = (base - floor) * np.exp(np.minimum(k * axis.low, 50.0))
    b = np.minimum(b, 1 - floor)  # a share cannot be below 0 at position 0
    return np.asarray(np.stack([1 - floor - b, b, -np.log(k), 1 - base], axis=-1))
