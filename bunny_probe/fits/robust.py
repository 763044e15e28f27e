"""Graded scores by robust least squares: the typical score, where `Decay` gives the mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.curves import CURVES, Axis, Curve
from bunny_probe.fits.decay import CurvePoint
from bunny_probe.fits.least_squares import Loss, least_squares_curve, nearest_starts, refit
from bunny_probe.fits.proportions import critical
from bunny_probe.fits.result import Counts, Result, Status, records_table
from bunny_probe.fits.sample import refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RobustDecay", "RobustDecayFit"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RobustDecayFit(Result):
    status: Status
    reason: str
    model: str | None
    parameters: dict[str, float]
    scale: float  # residuals beyond this count less than their square
    curve: tuple[CurvePoint, ...]
    mean_differs: bool  # somewhere the band does not hold the mean: a tail of answers pulls it away
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per point of the curve."""
        return records_table(self.curve)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No robust curve: {self.reason}."
        first, last = self.curve[0], self.curve[-1]
        tail = "; the mean lies elsewhere, so a tail of answers differs from the typical one"
        return (
            f"The typical score goes from {first.value:.2f} [{first.low:.2f}, {first.high:.2f}] at "
            f"{first.x:,.0f} to {last.value:.2f} [{last.low:.2f}, {last.high:.2f}] at {last.x:,.0f} "
            f"prompt tokens ({self.counts.used:,} answers, {self.counts.clusters:,} documents, "
            f"{self.level:.0%} band)"
            f"{tail if self.mean_differs else ''}."
        )


@dataclass(frozen=True, slots=True)
class RobustDecay:
    """One curve by robust least squares on raw graded scores; bands by a bootstrap that chooses anew.

    A robust loss mistrusts outlying scores, so it follows the typical answer and not the mean; read it
    beside `Decay`, never instead. `model=None` takes the curve with the lowest cost, corrected by AIC.
    """

    model: str | None = None
    loss: Loss = "soft_l1"
    resamples: int = 200
    points: int = 25
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> RobustDecayFit:
        """`frame`: columns score, answered, cluster, length_tokens."""
        try:
            sample = take(frame, ("length_tokens",))
            x = sample.columns["length_tokens"]
            lengths = np.unique(x)
            if np.any(x <= 0) or lengths.size < 2:
                raise FitRefused(f"{lengths.size} usable lengths: a course needs at least two")
            if sample.counts.clusters < 10:
                raise FitRefused(
                    f"{sample.counts.clusters} documents are too few for a bootstrap: 10 are needed"
                )
        except FitRefused as error:
            return RobustDecayFit(
                "refused", str(error), None, {}, 0.0, (), False, refused_counts(error), self.level
            )
        score = sample.score
        axis = Axis(float(lengths[0]), float(lengths[-1]))
        scale = _scale(x, score)
        tried = self._tried(axis, x, score, scale, lengths.size)
        chosen, theta = self._choose(axis, x, score, scale, tried)
        drawn = np.geomspace(axis.low, axis.high, self.points)
        value = chosen.evaluate(theta, axis.z(drawn), axis.t(drawn))[0]
        rng = np.random.default_rng(self.seed)
        documents, home = np.unique(sample.cluster, return_inverse=True)
        block = max(1, int(4e6 / score.size))
        draws = []
        for done in range(0, self.resamples, block):
            times = rng.multinomial(
                documents.size, np.full(documents.size, 1 / documents.size), min(block, self.resamples - done)
            )
            weight = np.asarray(times[:, home], dtype=np.float64)
            draws.append(self._drawn(axis, x, score, weight, scale, tried, drawn))
        low, high = np.quantile(np.concatenate(draws), [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)
        # with few documents percentiles are too narrow: by what the parameters took, and by z for t
        free = max(documents.size - chosen.size, 1)
        stretch = np.sqrt(documents.size / free) * critical(self.level, free) / critical(self.level)
        low, high = value - stretch * (value - low), value + stretch * (high - value)
        means = np.array([sample.score[x == v].mean() for v in lengths])
        at = np.log(lengths)
        below, above = (np.interp(at, np.log(drawn), side) for side in (low, high))
        return RobustDecayFit(
            status="ok",
            reason="",
            model=chosen.name,
            parameters=chosen.natural(theta, axis),
            scale=scale,
            curve=tuple(
                CurvePoint(float(p), float(v), float(min(a, v)), float(max(b, v)), True)
                for p, v, a, b in zip(drawn, value, low, high, strict=True)
            ),
            mean_differs=bool(np.mean((means < below - 0.01) | (means > above + 0.01)) > 0.5),
            counts=sample.counts,
            level=self.level,
        )

    def _tried(self, axis: Axis, x: Floats, y: Floats, scale: float, positions: int) -> _Tried:
        """Every curve that may be chosen, with its θ and its criterion."""
        names = [self.model] if self.model else [n for n, c in CURVES.items() if c.size < positions]
        out = []
        for name in names or ["constant"]:
            curve = CURVES[name]
            start = nearest_starts(curve, axis, x, y, 4)
            theta, cost = refit(curve, axis, x, y, np.ones((len(start), y.size)), start, self.loss, scale)
            out.append((curve, theta[cost.argmin()], float(_criterion(cost.min(), float(y.size), curve))))
        return out

    def _choose(self, axis: Axis, x: Floats, y: Floats, scale: float, tried: _Tried) -> tuple[Curve, Floats]:
        curve, start, _ = min(tried, key=lambda one: one[2])
        return curve, least_squares_curve(curve, axis, x, y, loss=self.loss, scale=scale, start=start)[0]

    def _drawn(
        self, axis: Axis, x: Floats, y: Floats, weight: Floats, scale: float, tried: _Tried, at: Floats
    ) -> Floats:
        """Each resample's curve at `at`, the curve chosen anew in each (Efron 2014): (r, q)."""
        values, criteria = [], []
        for curve, start, _ in tried:
            theta, cost = refit(curve, axis, x, y, weight, start, self.loss, scale)
            values.append(curve.evaluate(theta, axis.z(at), axis.t(at))[0])
            criteria.append(_criterion(cost, weight.sum(axis=1), curve))
        best = np.argmin(criteria, axis=0)
        return np.asarray(np.stack(values)[best, np.arange(best.size)])


_Tried = list[tuple[Curve, Floats, float]]


def _criterion(cost: npt.ArrayLike, size: npt.ArrayLike, curve: Curve) -> Floats:
    """Akaike's criterion of least squares."""
    size = np.asarray(size, dtype=float)
    mean = np.maximum(2 * np.asarray(cost, dtype=float) / size, 1e-12)
    return np.asarray(size * np.log(mean) + 2 * (curve.size + 1))


def _scale(x: Floats, y: Floats) -> float:
    """1.35 robust standard deviations of the scores around the medians of their lengths (Huber's tuning)."""
    residual = np.concatenate([y[x == v] - np.median(y[x == v]) for v in np.unique(x)])
    return max(float(1.35 * 1.4826 * np.median(np.abs(residual))), 0.02)
