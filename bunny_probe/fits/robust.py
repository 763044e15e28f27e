"""Graded scores by robust least squares: the typical score, where `Decay` gives the mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.curves import CURVES, Axis, Curve
from bunny_probe.fits.decay import CurvePoint
from bunny_probe.fits.proportions import critical
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
    loss: Loss = "soft_l1",
    scale: float = 0.1,
    starts: int = 4,
    start: Floats | None = None,
) -> tuple[Floats, float]:
    """(θ, cost) of the curve that minimises Σ ρ((y - p)²/scale²)·scale²/2 (scipy's trust-region solver,
    analytic derivative), from the best `starts` of the curve's net, or from `start` alone.
    """  # fmt: skip
    from scipy.optimize import least_squares

    z, t = axis.z(x), axis.t(x)
    low, high = curve.box(axis)
    candidates = _starts(curve, axis, x, y, starts) if start is None else start[None, :]
    best: tuple[Floats, float] | None = None
    inside = 1e-9 * (high - low)

    def residual(theta: Floats) -> Floats:
        return np.asarray(curve.evaluate(theta, z, t)[0] - y)

    def slope(theta: Floats) -> Floats:
        return np.asarray(curve.evaluate(theta, z, t)[1])

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
            start = _starts(curve, axis, x, y, 4)
            theta, cost = _refit(curve, axis, x, y, np.ones((len(start), y.size)), start, self.loss, scale)
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
            theta, cost = _refit(curve, axis, x, y, weight, start, self.loss, scale)
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


def _starts(curve: Curve, axis: Axis, x: Floats, y: Floats, count: int) -> Floats:
    """The points of the curve's net with the smallest squares, (count, P)."""
    at, code, n = np.unique(x, return_inverse=True, return_counts=True)
    mean = np.bincount(code, weights=y) / n
    net = curve.starts(axis)
    error = ((curve.evaluate(net, axis.z(at), axis.t(at))[0] - mean) ** 2 * n).sum(axis=-1)
    return np.asarray(net[np.argsort(error)[:count]])


def _refit(
    curve: Curve, axis: Axis, x: Floats, y: Floats, weight: Floats, theta: Floats, loss: Loss, scale: float
) -> tuple[Floats, Floats]:
    """(θ, cost) for each row of `weight` (r, n), from `theta` (P,) or a start each (r, P).

    Gauss and Newton's steps with Levenberg's damping on the reweighted squares, for all resamples at once: the
    minimum that `least_squares_curve` finds one by one.
    """
    order = np.argsort(x, kind="stable")
    at, start = np.unique(x[order], return_index=True)
    y, weight = y[order], weight[:, order]
    code = np.repeat(np.arange(at.size), np.diff([*start, x.size]))
    z, t = axis.z(at), axis.t(at)
    low, high = curve.box(axis)
    eye = np.eye(curve.size)

    def parts(theta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Cost, derivative, and by position the sums of weights and of weighted residuals."""
        p, jac = curve.evaluate(theta, z, t)
        residual = y - p[:, code]
        size = (residual / scale) ** 2
        if loss == "soft_l1":
            cost, factor = 2 * (np.sqrt(1 + size) - 1), 1 / np.sqrt(1 + size)
        elif loss == "huber":
            root = np.sqrt(np.maximum(size, 1.0))
            cost, factor = np.where(size > 1, 2 * root - 1, size), 1 / root
        else:
            cost, factor = size, np.ones(size.shape)
        factor = factor * weight
        sums = np.add.reduceat(factor, start, axis=1), np.add.reduceat(factor * residual, start, axis=1)
        return (cost * weight).sum(axis=1), jac, *sums

    theta = np.broadcast_to(theta, (len(weight), curve.size))
    cost, jac, total, pull = parts(theta)
    damping = np.full(len(weight), 1e-3)
    for _ in range(60):
        turned = jac.swapaxes(-1, -2)
        gradient = (turned @ pull[..., None])[..., 0]
        held = ((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0))
        gradient = np.where(held, 0.0, gradient)
        normal = (turned * total[:, None, :]) @ jac
        scaling = np.diagonal(normal, axis1=-2, axis2=-1)
        ridge = damping[:, None] * np.maximum(scaling, 1e-9 * scaling.max(axis=-1, keepdims=True) + 1e-12)
        step = np.linalg.solve(normal + ridge[:, None, :] * eye, gradient[..., None])[..., 0]
        proposal = np.clip(theta + np.clip(np.where(held, 0.0, step), -2, 2), low, high)
        new = parts(proposal)
        better = new[0] <= cost
        theta = np.where(better[:, None], proposal, theta)
        gained = np.where(better, cost - new[0], 0.0)
        cost = np.where(better, new[0], cost)
        jac = np.where(better[:, None, None], new[1], jac)
        total, pull = (np.where(better[:, None], a, b) for a, b in ((new[2], total), (new[3], pull)))
        damping = np.clip(np.where(better, damping * 0.3, damping * 8.0), 1e-9, 1e8)
        if np.all((better & (gained <= 1e-7 * cost)) | (damping >= 1e7)):
            break
    return theta, 0.5 * scale**2 * cost


def _scale(x: Floats, y: Floats) -> float:
    """1.35 robust standard deviations of the scores around the medians of their lengths (Huber's tuning)."""
    residual = np.concatenate([y[x == v] - np.median(y[x == v]) for v in np.unique(x)])
    return max(float(1.35 * 1.4826 * np.median(np.abs(residual))), 0.02)
