"""Graded scores by robust least squares: the typical score, where `Decay` gives the mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.curves import CURVES, Axis, Curve
from bunny_probe.fits.decay import CurvePoint
from bunny_probe.fits.result import Counts, Result, Status, records_table
from bunny_probe.fits.sample import refused_counts, take

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RobustDecay", "RobustDecayFit", "least_squares_curve"]

Floats = npt.NDArray[np.float64]
Loss = Literal["linear", "soft_l1", "huber"]


def least_squares_curve(
    curve: Curve,
    axis: Axis,
    x: Floats,
    y: Floats,
    *,
    weight: Floats | None = None,
    loss: Loss = "soft_l1",
    scale: float = 0.1,
    starts: int = 4,
    start: Floats | None = None,
) -> tuple[Floats, float]:
    """(θ, cost) of the curve that minimises Σ w·ρ((y - p)²/scale²)·scale²/2 (scipy's trust-region solver,
    analytic derivative), from the best `starts` of the curve's net, or from `start` alone.
    """  # fmt: skip
    from scipy.optimize import least_squares

    z, t = axis.z(x), axis.t(x)
    root = np.ones(x.size) if weight is None else np.sqrt(weight)
    low, high = curve.box(axis)
    if start is None:
        net = curve.starts(axis)
        error = (((curve.evaluate(net, z, t)[0] - y) * root) ** 2).sum(axis=-1)
        candidates = net[np.argsort(error)[:starts]]
    else:
        candidates = start[None, :]
    best: tuple[Floats, float] | None = None
    inside = 1e-9 * (high - low)

    def residual(theta: Floats) -> Floats:
        return np.asarray((curve.evaluate(theta, z, t)[0] - y) * root)

    def slope(theta: Floats) -> Floats:
        return np.asarray(curve.evaluate(theta, z, t)[1] * root[:, None])

    for theta in candidates:
        found: Any = least_squares(
            residual, np.clip(theta, low + inside, high - inside), jac=slope, bounds=(low, high), loss=loss,
            f_scale=scale, x_scale="jac", xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=400,
        )  # fmt: skip
        if best is None or float(found.cost) < best[1]:
            best = np.asarray(found.x), float(found.cost)
    assert best is not None
    return best


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
    """One curve by robust least squares on raw graded scores; bands by a bootstrap of documents.

    A robust loss mistrusts outlying scores, so it follows the typical answer and not the mean; read it
    beside `Decay`, never instead. `model=None` takes the curve with the lowest cost, corrected by AIC.
    """

    model: str | None = None
    loss: Loss = "soft_l1"
    resamples: int = 200
    points: int = 25
    level: float = 0.95
    seed: int = 0

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
        # rows of one document, length and score act as one with a weight
        key, code, n = np.unique(
            np.stack([sample.cluster.astype(float), x, sample.score], axis=1),
            axis=0, return_inverse=True, return_counts=True,
        )  # fmt: skip
        del code
        document, length, score = key[:, 0].astype(np.int64), key[:, 1], key[:, 2]
        weight = n.astype(float)
        axis = Axis(float(lengths[0]), float(lengths[-1]))
        scale = _scale(length, score)
        chosen, theta = self._choose(axis, length, score, weight, scale, lengths.size)
        drawn = np.geomspace(axis.low, axis.high, self.points)
        value = chosen.evaluate(theta, axis.z(drawn), axis.t(drawn))[0]
        rng = np.random.default_rng(self.seed)
        documents, home = np.unique(document, return_inverse=True)
        draws = []
        for _ in range(self.resamples):
            times = np.bincount(rng.integers(0, documents.size, documents.size), minlength=documents.size)
            w = np.asarray(weight * times[home], dtype=np.float64)
            use = w > 0
            again, _ = least_squares_curve(
                chosen, axis, length[use], score[use], weight=w[use], loss=self.loss, scale=scale, start=theta
            )
            draws.append(chosen.evaluate(again, axis.z(drawn), axis.t(drawn))[0])
        low, high = np.quantile(np.array(draws), [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)
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

    def _choose(
        self, axis: Axis, x: Floats, y: Floats, weight: Floats, scale: float, positions: int
    ) -> tuple[Curve, Floats]:
        names = [self.model] if self.model else [n for n, c in CURVES.items() if c.size < positions]
        size = float(weight.sum())
        best: tuple[float, Curve, Floats] | None = None
        for name in names or ["constant"]:
            curve = CURVES[name]
            theta, cost = least_squares_curve(curve, axis, x, y, weight=weight, loss=self.loss, scale=scale)
            criterion = size * np.log(max(2 * cost / size, 1e-12)) + 2 * (curve.size + 1)
            if best is None or criterion < best[0]:
                best = criterion, curve, theta
        assert best is not None
        return best[1], best[2]


def _scale(x: Floats, y: Floats) -> float:
    """1.35 robust standard deviations of the scores around the medians of their lengths (Huber's tuning)."""
    residual = np.concatenate([y[x == v] - np.median(y[x == v]) for v in np.unique(x)])
    return max(float(1.35 * 1.4826 * np.median(np.abs(residual))), 0.02)
