"""All curves on the same counts: their AICc table, and intervals that hold whichever curve is true.

The interval of a quantity is the envelope of its profile likelihood over the curves (discrete profiling,
Dauncey, Kenzie, Wardle and Davies 2015, JINST 10 P04015): a curve that is Δ worse than the best one adds
the values it reaches within (threshold - Δ). Curves that lost narrowly so still widen the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.curves import CURVES, Axis, Curve
from bunny_probe.fits.likelihood import Maximum, extremes, maximise, saturated
from bunny_probe.fits.proportions import critical
from bunny_probe.fits.result import Crossing

__all__ = ["Ensemble", "ModelRow", "fit_curves"]

Floats = npt.NDArray[np.float64]

# Both numbers were set by the coverage benchmark. A chi-square threshold assumes one true curve with its
# parameters inside their box; a choice among curves, and a cliff between two lengths, take more room.
_PENALTY = 3.0  # of a parameter in the envelope, in units of -2 log-likelihood
_WIDEN = 1.15  # factor on the threshold


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One line of the table of curves."""

    model: str
    parameters: dict[str, float]
    size: int  # number of parameters
    log_likelihood: float
    aicc: float
    delta: float  # AICc above the best
    weight: float  # Akaike weight
    misfit_p: float | None  # chance of a worse fit if this curve were true; None: no cell to spare


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Curves fitted to one data set, or to a batch of them over the same positions (leading dimensions)."""

    axis: Axis
    x: Floats
    k: Floats  # (..., m) effective hits
    n: Floats  # (..., m) effective trials
    maxima: tuple[Maximum, ...]
    aicc: Floats  # (..., models)
    thresholds: Floats  # (..., models) of each curve's region
    level: float

    @property
    def best(self) -> npt.NDArray[np.int64]:
        """Index of the curve with the lowest AICc."""
        return np.asarray(self.aicc.argmin(axis=-1))

    @property
    def chosen(self) -> Maximum:
        """The best curve; for a single data set."""
        return self.maxima[int(self.best)]

    def only(self, model: str) -> Ensemble:
        """The ensemble as if `model` alone had been fitted."""
        index = [m.curve.name for m in self.maxima].index(model)
        whole = self.thresholds.max(axis=-1, keepdims=True)
        return Ensemble(
            self.axis, self.x, self.k, self.n, (self.maxima[index],), self.aicc[..., [index]], whole, self.level
        )

    def project(self, quantities: Callable[[Curve, Floats], Floats]) -> tuple[Floats, Floats]:
        """Lowest and highest of each quantity over all curves' regions, (..., q).

        `quantities(curve, θ (..., r, P))` → (..., r, q), finite.
        """
        lows, highs = [], []
        for i, maximum in enumerate(self.maxima):
            threshold = self.thresholds[..., i]
            if not np.any(threshold > 0):
                continue
            curve = maximum.curve

            def wanted(theta: Floats, curve: Curve = curve) -> Floats:
                return quantities(curve, theta)

            low, high = extremes(curve, self.axis, self.x, self.k, self.n, maximum.theta, threshold, wanted)
            use = (threshold > 0)[..., None]
            lows.append(np.where(use, low, np.inf))
            highs.append(np.where(use, high, -np.inf))
        return np.min(lows, axis=0), np.max(highs, axis=0)

    def crossings_of(self, curve: Curve, theta: Floats, fractions: tuple[float, ...]) -> Floats:
        """log x of each crossing, (..., q); what lies far beyond the probed range stands just there."""
        far = np.log(self.axis.high) + 1.0
        columns = [np.log(curve.crossing(theta, f, self.axis)) for f in fractions]
        return np.asarray(np.minimum(np.stack(columns, axis=-1), far), dtype=float)

    def crossing(self, value: float, low: float, high: float) -> Crossing:
        """Logarithms of positions as a crossing within the probed range."""
        end = np.log(self.axis.high) + 1e-9

        def inside(v: float) -> float | None:
            return float(np.exp(v)) if v <= end else None

        return Crossing(inside(value), inside(low), inside(high), self.axis.low, self.axis.high, self.level)

    def rows(self) -> tuple[ModelRow, ...]:
        """The table of curves of a single data set, best first."""
        delta = self.aicc - self.aicc.min()
        weight = np.exp(-0.5 * delta) / np.exp(-0.5 * delta).sum()
        top = float(saturated(self.k, self.n))
        rows = [
            ModelRow(
                model=m.curve.name,
                parameters=m.curve.natural(m.theta, self.axis),
                size=m.curve.size,
                log_likelihood=float(m.log_likelihood),
                aicc=float(self.aicc[i]),
                delta=float(delta[i]),
                weight=float(weight[i]),
                misfit_p=_misfit(2 * (top - float(m.log_likelihood)), self.x.size - m.curve.size),
            )
            for i, m in enumerate(self.maxima)
        ]
        return tuple(sorted(rows, key=lambda row: row.aicc))


def fit_curves(
    x: Floats,
    k: Floats,
    n: Floats,
    *,
    level: float,
    df: npt.ArrayLike = np.inf,
    size: npt.ArrayLike,
    models: tuple[str, ...] | None = None,
) -> Ensemble:
    """Fits every curve.

    `x`: distinct positions, ascending; `k`, `n`: (..., m) effective hits and trials; `df`: degrees of
    freedom of the design effect; `size`: independent trials, for AICc. Raises FitRefused below two positions.
    """
    if x.size < 2:
        raise FitRefused("one position alone shows no course: at least two are needed")
    names = tuple(models or CURVES)
    axis = Axis(float(x[0]), float(x[-1]))
    # all of them, however few the positions: a curve that fits no better still shows what cannot be excluded
    curves = [CURVES[name] for name in names]
    maxima = tuple(maximise(curve, axis, x, k, n) for curve in curves)
    sizes = np.array([curve.size for curve in curves], dtype=float)
    fits = np.stack([m.log_likelihood for m in maxima], axis=-1)
    spare = np.maximum(np.asarray(size, dtype=float)[..., None] - sizes - 1, 1.0)
    aicc = -2 * fits + 2 * sizes + 2 * sizes * (sizes + 1) / spare
    wall = np.vectorize(lambda d: _WIDEN * critical(level, d) ** 2)(np.asarray(df, dtype=float))
    return Ensemble(axis, x, k, n, maxima, aicc, wall[..., None] - _behind(fits, sizes), level)


def _behind(fits: Floats, sizes: Floats) -> Floats:
    """How far each curve is behind the others, in deviance: each parameter more is worth `_PENALTY`."""
    ahead = 2 * (fits[..., None, :] - fits[..., :, None])  # of column over row
    more = np.maximum(sizes[None, :] - sizes[:, None], 0.0)
    return np.asarray(np.maximum(ahead - _PENALTY * more, 0.0).max(axis=-1))


def _misfit(deviance: float, df: int) -> float | None:
    from scipy.special import chdtrc

    return float(chdtrc(df, max(deviance, 0.0))) if df > 0 else None
