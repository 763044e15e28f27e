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
from bunny_probe.fits.likelihood import Maximum, maximise, region, saturated
from bunny_probe.fits.proportions import critical
from bunny_probe.fits.result import Crossing

__all__ = ["Ensemble", "ModelRow", "fit_curves"]

Floats = npt.NDArray[np.float64]

_PENALTY = 1.0  # of a parameter in the envelope, in units of -2 log-likelihood: see the coverage benchmark


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
    axis: Axis
    x: Floats
    k: Floats  # effective hits
    n: Floats  # effective trials
    maxima: tuple[Maximum, ...]
    rows: tuple[ModelRow, ...]  # in the order of `maxima`
    best: int  # of the lowest AICc
    thresholds: tuple[float, ...]  # of each curve's region
    level: float

    @property
    def chosen(self) -> Maximum:
        return self.maxima[self.best]

    def project(self, quantities: Callable[[Curve, Floats], Floats]) -> tuple[Floats, Floats]:
        """Lowest and highest of each quantity over all curves' regions.

        `quantities(curve, θ (r, P))` → (r, q), finite.
        """
        low: Floats | None = None
        high: Floats | None = None
        for maximum, threshold in zip(self.maxima, self.thresholds, strict=True):
            if threshold <= 0:
                continue
            curve = maximum.curve

            def wanted(theta: Floats, curve: Curve = curve) -> Floats:
                return quantities(curve, theta)

            points = region(curve, self.axis, self.x, self.k, self.n, maximum.theta, threshold, wanted)
            values = wanted(points)
            low = values.min(axis=0) if low is None else np.minimum(low, values.min(axis=0))
            high = values.max(axis=0) if high is None else np.maximum(high, values.max(axis=0))
        assert low is not None
        assert high is not None
        return low, high

    def crossings_of(self, curve: Curve, theta: Floats, fractions: tuple[float, ...]) -> Floats:
        """log x of each crossing, (r, q); what lies far beyond the probed range stands just there."""
        far = np.log(self.axis.high) + 1.0
        columns = [np.log(curve.crossing(theta, f, self.axis)) for f in fractions]
        return np.asarray(np.minimum(np.stack(columns, axis=-1), far), dtype=float)

    def crossing(self, value: float, low: float, high: float) -> Crossing:
        """Logarithms of positions as a crossing within the probed range."""
        end = np.log(self.axis.high) + 1e-9

        def inside(v: float) -> float | None:
            return float(np.exp(v)) if v <= end else None

        return Crossing(inside(value), inside(low), inside(high), self.axis.low, self.axis.high, self.level)


def fit_curves(
    x: Floats,
    k: Floats,
    n: Floats,
    *,
    level: float,
    df: float,
    size: float,
    models: tuple[str, ...] | None = None,
) -> Ensemble:
    """Fits each curve that the number of positions can carry.

    `x`: distinct positions, ascending; `k`, `n`: effective hits and trials; `df`: degrees of freedom of
    the design effect; `size`: independent trials, for AICc. Raises FitRefused below two positions.
    """
    if x.size < 2:
        raise FitRefused("one position alone shows no course: at least two are needed")
    names = tuple(models or CURVES)
    axis = Axis(float(x[0]), float(x[-1]))
    curves = [CURVES[name] for name in names if CURVES[name].size <= max(x.size - 1, 1)] or [CURVES["constant"]]
    maxima = tuple(maximise(curve, axis, x, k, n) for curve in curves)
    sizes = np.array([curve.size for curve in curves], dtype=float)
    fits = np.array([float(m.log_likelihood) for m in maxima])
    spare = np.maximum(size - sizes - 1, 1.0)
    aicc = -2 * fits + 2 * sizes + 2 * sizes * (sizes + 1) / spare
    delta = aicc - aicc.min()
    weight = np.exp(-0.5 * delta) / np.exp(-0.5 * delta).sum()
    top = float(saturated(k, n))
    rows = tuple(
        ModelRow(
            model=m.curve.name,
            parameters=m.curve.natural(m.theta, axis),
            size=m.curve.size,
            log_likelihood=float(fits[i]),
            aicc=float(aicc[i]),
            delta=float(delta[i]),
            weight=float(weight[i]),
            misfit_p=_misfit(2 * (top - float(fits[i])), x.size - m.curve.size),
        )
        for i, m in enumerate(maxima)
    )
    penalised = -2 * fits + _PENALTY * sizes
    threshold = critical(level, df) ** 2
    thresholds = tuple(float(threshold - d) for d in penalised - penalised.min())
    return Ensemble(axis, x, k, n, maxima, rows, int(delta.argmin()), thresholds, level)


def _misfit(deviance: float, df: int) -> float | None:
    from scipy.special import chdtrc

    return float(chdtrc(df, max(deviance, 0.0))) if df > 0 else None
