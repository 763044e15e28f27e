"""All curves on the same counts: their AICc table, and intervals that hold whichever curve is true.

The interval of a quantity is the envelope of its profile likelihood over the curves (discrete profiling,
Dauncey, Kenzie, Wardle and Davies 2015, JINST 10 P04015): a curve that is Δ worse than the best one adds
the values it reaches within (threshold - Δ). Curves that lost narrowly so still widen the interval. Averaging
over curves by weights instead (Fletcher and Turek 2012) can cover far less than it says (Kabaila, Welsh and
Abeysekera 2016).

No curve rises, nor falls in two steps. The cells alone, one share a position, are therefore one model more:
their intervals shrink by what AICc puts them behind the best curve. A crossing they know only up to a whole gap
between two positions, so there they count where they are ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.cells_alone import cell_crossings, cell_values
from bunny_probe.fits.curves import CURVES, Axis, Curve
from bunny_probe.fits.likelihood import Maximum, extremes, maximise, saturated
from bunny_probe.fits.profile import crossing_region
from bunny_probe.fits.proportions import critical
from bunny_probe.fits.result import Crossing
from bunny_probe.fits.tilt import value_region

__all__ = ["Ensemble", "ModelRow", "fit_curves"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_Part = Callable[[int, Ints, Floats, Floats, Floats], tuple[Floats, Floats]]

# What a parameter gains on average when it is not needed, in units of -2 log-likelihood (Dauncey et al.).
_PENALTY = 1.0

# All curves fall or stay: they cannot rise. Where the truth is flat, as before a cliff, the profile's deviance
# is then heavier tailed than a chi-square with one degree of freedom (Robertson, Wright and Dykstra 1988). One
# factor on the threshold stands for that. A crossing or a parameter is a ratio of estimates: it needs more room
# where trials are few. The coverage benchmark tells what both are worth, on curves of this set and on others.
_WIDEN = 1.05
_CROSSING = (1.05, 2.0)  # factor for these: first + second / √trials

_MISFIT = 0.01  # chance of a worse fit under which no curve is believed: intervals then widen by what is missed


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
    wall: Floats  # (...) threshold of a likelihood region, before the factors above
    excess: Floats  # (...) by how much it grows where no curve fits, else 1
    behind: Floats  # (..., models) deviance by which each curve is behind the others
    lead: Floats  # (...) AICc of the best curve over that of the cells alone: above 0, no curve describes them
    trials: Floats  # (...)
    level: float

    @property
    def thresholds(self) -> Floats:
        """Of each curve's region, (..., models)."""
        return np.asarray(_WIDEN * (self.wall * self.excess)[..., None] - self.behind)

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
        return replace(
            self, maxima=(self.maxima[index],), aicc=self.aicc[..., [index]],
            behind=np.zeros((*self.wall.shape, 1)), lead=np.full(self.wall.shape, -np.inf),
        )  # fmt: skip

    def values(self, at: Floats) -> tuple[Floats, Floats]:
        """Lowest and highest value at each position of `at` (q,), in tokens, over all curves: (..., q) each."""

        def of(i: int, use: Ints, k: Floats, n: Floats, wall: Floats) -> tuple[Floats, Floats]:
            chosen = self.maxima[i]
            some = Maximum(chosen.curve, _rows(chosen.theta, use, 1), _rows(chosen.log_likelihood, use, 0))
            return value_region(some, self.axis, self.x, k, n, wall, at)

        low, high = self._envelope(of, (at.size,), self.thresholds)
        below, above = cell_values(self.x, self.k, self.n, self.wall + np.minimum(self.lead, 0.0), at)
        return np.minimum(low, below), np.maximum(high, above)

    def crossings(self, fraction: float) -> tuple[Floats, Floats]:
        """Lowest and highest ln(x) at which a curve leaves `fraction` of its base; inf: beyond. (...) each."""
        start = np.log(self.axis.low)

        def of(i: int, use: Ints, k: Floats, n: Floats, wall: Floats) -> tuple[Floats, Floats]:
            chosen = self.maxima[i]
            best, theta = _rows(chosen.log_likelihood, use, 0), _rows(chosen.theta, use, 1)
            if chosen.curve.name == "constant":
                return np.full(best.shape, np.inf), np.full(best.shape, np.inf)
            at = self.crossings_of(chosen.curve, theta, fraction) - start
            return crossing_region(chosen.curve.name, fraction, self.axis, self.x, k, n, at, best, wall)

        low, high = self._envelope(of, (), self._wide)
        room = np.where(self.cells_lead, self.wall, -1.0)
        first, last = cell_crossings(self.x, self.k, self.n, room, fraction)
        return np.minimum(low + start, first), np.maximum(high + start, last)

    def knee(self) -> tuple[Floats, Floats]:
        """Lowest and highest ln(x) of the knee, given that the curve is piecewise linear: (...) each."""
        alone = self.only("piecewise")
        start = np.log(self.axis.low)

        def of(i: int, use: Ints, k: Floats, n: Floats, wall: Floats) -> tuple[Floats, Floats]:
            best, theta = _rows(alone.maxima[i].log_likelihood, use, 0), _rows(alone.maxima[i].theta, use, 1)
            return crossing_region("knee", 1.0, self.axis, self.x, k, n, theta[:, 1], best, wall)

        low, high = alone._envelope(of, (), alone._wide)
        return low + start, high + start

    @property
    def cells_lead(self) -> npt.NDArray[np.bool_]:
        """Whether AICc prefers the cells to every curve, (...)."""
        return np.asarray(self.lead > 0)

    @property
    def _wide(self) -> Floats:
        """Thresholds for crossings and parameters."""
        first, second = _CROSSING
        factor = first + second / np.sqrt(np.maximum(self.trials, 1.0))
        return np.asarray((factor * self.wall * self.excess)[..., None] - self.behind)

    def _envelope(self, of: _Part, tail: tuple[int, ...], thresholds: Floats) -> tuple[Floats, Floats]:
        """The widest of the curves' regions; `of` gives those of curve i for the data sets in `use`."""
        shape = thresholds.shape[:-1]
        k, n = (np.broadcast_to(v, (*shape, self.x.size)).reshape(-1, self.x.size) for v in (self.k, self.n))
        low, high = np.full((len(k), *tail), np.inf), np.full((len(k), *tail), -np.inf)
        for i in range(len(self.maxima)):
            wall = thresholds[..., i].reshape(-1)
            use = wall > 0
            if not use.any():
                continue
            for some in np.array_split(np.flatnonzero(use), 1 + use.sum() // 100):  # bounded memory
                found = of(i, some, k[some], n[some], wall[some])
                low[some], high[some] = np.minimum(low[some], found[0]), np.maximum(high[some], found[1])
        return low.reshape((*shape, *tail)), high.reshape((*shape, *tail))

    def project(self, quantities: Callable[[Curve, Floats], Floats]) -> tuple[Floats, Floats]:
        """Lowest and highest of each smooth quantity over the region of the only curve, (..., q).

        `quantities(curve, θ (..., r, P))` → (..., r, q), finite.
        """
        (maximum,) = self.maxima
        curve = maximum.curve
        return extremes(
            curve, self.axis, self.x, self.k, self.n, maximum.theta, self._wide[..., 0],
            lambda theta: quantities(curve, theta),
        )  # fmt: skip

    def crossings_of(self, curve: Curve, theta: Floats, fraction: float) -> Floats:
        """ln x of the crossing, (...); what lies far beyond the probed range stands just there."""
        far = np.log(self.axis.high) + 1.0
        return np.asarray(np.minimum(np.log(curve.crossing(theta, fraction, self.axis)), far), dtype=float)

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
    size = np.asarray(size, dtype=float)
    aicc = _aicc(fits, sizes, size[..., None])
    wall = np.vectorize(lambda d: critical(level, d) ** 2)(np.asarray(df, dtype=float))
    chosen, top = aicc.argmin(axis=-1), saturated(k, n)
    deviance = 2 * (top - np.take_along_axis(fits, chosen[..., None], axis=-1)[..., 0])
    excess = dispersion(deviance, x.size - sizes[chosen])
    lead = aicc.min(axis=-1) - _aicc(top, float(x.size), size)
    return Ensemble(
        axis, x, k, n, maxima, aicc, np.broadcast_to(wall, excess.shape), excess, _behind(fits, sizes),
        np.where(excess > 1, np.maximum(lead, 0.0), lead), n.sum(axis=-1), level,
    )  # fmt: skip


def _aicc(log_likelihood: Floats, parameters: Floats | float, size: Floats) -> Floats:
    """Akaike's criterion for few trials (Hurvich and Tsai 1989)."""
    spare = np.maximum(size - parameters - 1, 1.0)
    return np.asarray(-2 * log_likelihood + 2 * parameters * (1 + (parameters + 1) / spare))


def dispersion(deviance: Floats, df: Floats) -> Floats:
    """Deviance over its degrees of freedom where the best curve is shown not to fit, else 1.

    All deviances are then worth that much less (McCullagh and Nelder 1989, 4.5): intervals around a curve
    that is wrong are as wide as it is wrong.
    """
    from scipy.special import chdtrc

    free = np.maximum(df, 1.0)
    misfit = (df > 0) & (chdtrc(free, np.maximum(deviance, 0.0)) < _MISFIT)
    return np.asarray(np.where(misfit, np.maximum(deviance / free, 1.0), 1.0))


def _behind(fits: Floats, sizes: Floats) -> Floats:
    """How far each curve is behind the others, in deviance: each parameter more is worth `_PENALTY`, and so is
    another shape of as many, which gains by chance too.
    """
    ahead = 2 * (fits[..., None, :] - fits[..., :, None])  # of column over row
    more = np.maximum(sizes[None, :] - sizes[:, None], 1.0)
    return np.asarray(np.maximum(ahead - _PENALTY * more, 0.0).max(axis=-1))


def _misfit(deviance: float, df: int) -> float | None:
    from scipy.special import chdtrc

    return float(chdtrc(df, max(deviance, 0.0))) if df > 0 else None


def _rows(values: Floats, use: Ints, inner: int) -> Floats:
    """The data sets in `use` of values with `inner` dimensions each."""
    return np.asarray(values.reshape(-1, *values.shape[values.ndim - inner :])[use])
