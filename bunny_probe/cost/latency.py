"""Orders lost to waiting, from the latency distribution.

The loss is not linear in the wait, so the mean latency gives the wrong answer: a service whose mean is half the
customers' patience may still lose one order in ten to its tail. So every latency seen is put through the loss
function, and the losses are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.cost.distributions import Beta, Floats

__all__ = ["LatencyLoss", "LossShape", "Stratum", "beta_of", "mix_weights"]

LossShape = Literal["threshold", "ramp", "exponential"]
_CELLS = 4_000_000  # draws × latencies held at once
_NODES = 257
# The narrowest ramp, seconds. The partial sums lose about 1e-16 of the mean latency, which a narrower ramp
# would divide by nearly nothing; and nobody's patience is known to the millisecond.
_NARROWEST = 1e-3


@dataclass(frozen=True, slots=True, eq=False)  # holds an array, whose equality is no single truth
class Stratum:
    """The latencies of requests of one length."""

    length: float  # prompt tokens; NaN: not told apart by length
    seconds: Floats  # sorted
    independent: float  # effective number of independent latencies; inf: a stated distribution


@dataclass(frozen=True, slots=True)
class LatencyLoss:
    """The share of waiting orders that is lost: the mean of a loss function over the latency distribution.

    threshold: everybody leaves at `patience`. ramp: leaving rises linearly from `grace` to `patience`
    (over a millisecond at least).
    exponential: 1 - exp(-(t - grace) / patience). All times `most`, the share that would ever leave.
    """

    shape: LossShape
    strata: tuple[Stratum, ...]
    weights: tuple[float, ...]  # of the strata in the traffic, summing to 1
    source: str = ""

    def at(self, length: float) -> LatencyLoss:
        """The loss for traffic of one length: a mixture of the neighbouring strata."""
        lengths = [stratum.length for stratum in self.strata]
        return replace(self, weights=mix_weights(lengths, length))

    def share(
        self, grace: npt.ArrayLike, patience: npt.ArrayLike, most: npt.ArrayLike, u: Floats | None = None
    ) -> Floats:
        """The lost share by draw. `u`: where in the sampling error to be; None: the plain estimate."""
        arrays = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (grace, patience, most)))
        if u is not None:
            arrays = np.broadcast_arrays(*arrays, u)[:3]
        shape = arrays[0].shape
        g, p, m = (np.ravel(array) for array in arrays)
        mean, variance = np.zeros(g.shape), np.zeros(g.shape)
        for stratum, weight in zip(self.strata, self.weights, strict=True):
            if weight == 0:
                continue
            seen = self._mean(stratum.seconds, g, p)
            if u is None or np.isinf(stratum.independent):
                mean += weight * seen
                continue
            a, b = stratum.independent * seen + 0.5, stratum.independent * (1 - seen) + 0.5
            mean += weight * a / (a + b)
            variance += weight**2 * a * b / ((a + b) ** 2 * (a + b + 1))
        if u is not None and variance.any():
            from scipy.special import betaincinv

            size = mean * (1 - mean) / variance - 1
            mean = np.asarray(betaincinv(mean * size, (1 - mean) * size, np.ravel(u)), dtype=float)
        return np.asarray((mean * m).reshape(shape), dtype=float)

    def mean_seconds(self) -> float:
        """The mean latency, which is what not to use: for saying how far off it would be."""
        pairs = zip(self.strata, self.weights, strict=True)
        return float(sum(weight * stratum.seconds.mean() for stratum, weight in pairs if weight))

    def quantiles(self, probabilities: tuple[float, ...]) -> tuple[float, ...]:
        """Quantiles of the mixture, in seconds."""
        seconds = np.concatenate([stratum.seconds for stratum in self.strata])
        mass = np.concatenate(
            [
                np.full(s.seconds.size, w / s.seconds.size)
                for s, w in zip(self.strata, self.weights, strict=True)
            ]
        )
        order = np.argsort(seconds)
        reached = np.cumsum(mass[order])
        at = np.searchsorted(reached, np.asarray(probabilities) - 1e-12).clip(0, seconds.size - 1)
        return tuple(float(value) for value in seconds[order][at])

    def of(self, seconds: npt.ArrayLike, grace: float, patience: float, most: float) -> Floats:
        """The loss function itself, for pictures."""
        t = np.asarray(seconds, dtype=float)
        return np.asarray(most * self._loss(t, np.asarray(grace), np.asarray(patience)), dtype=float)

    def _mean(self, seconds: Floats, grace: Floats, patience: Floats) -> Floats:
        if self.shape == "threshold":
            return 1 - np.searchsorted(seconds, patience, side="right") / seconds.size
        if np.ptp(grace) == 0 and np.ptp(patience) == 0:
            return np.full(grace.shape, self._loss(seconds, grace[0], patience[0]).mean())
        if self.shape == "ramp":
            return _ramp_mean(seconds, grace, np.maximum(patience, grace + _NARROWEST))
        if np.ptp(grace) == 0:  # a smooth function of patience alone: tabulate it
            nodes = np.geomspace(patience.min(), patience.max(), _NODES)
            table = self._loss(seconds, grace[:1, None], nodes[:, None]).mean(axis=1)
            return np.asarray(np.interp(np.log(patience), np.log(nodes), table), dtype=float)
        step = max(1, _CELLS // seconds.size)
        return np.concatenate(
            [
                self._loss(seconds, grace[i : i + step, None], patience[i : i + step, None]).mean(axis=1)
                for i in range(0, grace.size, step)
            ]
        )

    def _loss(self, t: Floats, grace: Floats, patience: Floats) -> Floats:
        if self.shape == "threshold":
            return np.asarray(t > patience, dtype=float)
        if self.shape == "ramp":
            return np.asarray(
                np.clip((t - grace) / np.maximum(patience - grace, _NARROWEST), 0.0, 1.0), dtype=float
            )
        return np.asarray(-np.expm1(-np.maximum(t - grace, 0.0) / patience), dtype=float)


def _ramp_mean(seconds: Floats, grace: Floats, patience: Floats) -> Floats:
    """Mean of the ramp over sorted `seconds`, by partial sums instead of draws × latencies."""
    sums = np.concatenate([[0.0], np.cumsum(seconds)])
    first, last = np.searchsorted(seconds, grace), np.searchsorted(seconds, patience)
    rising = sums[last] - sums[first] - grace * (last - first)
    lost = (rising / (patience - grace) + seconds.size - last) / seconds.size
    return np.asarray(np.clip(lost, 0.0, 1.0), dtype=float)


def mix_weights(lengths: list[float], length: float) -> tuple[float, ...]:
    """Weights that interpolate between the strata in log-length; the end strata serve beyond them."""
    if len(lengths) == 1 or np.isnan(lengths).any():
        return (
            tuple([1.0] + [0.0] * (len(lengths) - 1))
            if len(lengths) == 1
            else (1 / len(lengths),) * len(lengths)
        )
    order = np.argsort(lengths)
    grid = np.log2(np.asarray(lengths)[order])
    place = float(np.clip(np.log2(length), grid[0], grid[-1]))
    above = int(np.clip(np.searchsorted(grid, place), 1, grid.size - 1))
    part = (place - grid[above - 1]) / (grid[above] - grid[above - 1])
    weights = np.zeros(grid.size)
    weights[order[above - 1]], weights[order[above]] = 1 - part, part
    return tuple(float(weight) for weight in weights)


def beta_of(strata: tuple[tuple[float, float, float], ...], weights: tuple[float, ...]) -> Beta:
    """The posterior of a share measured in strata (length, share seen, effective n), mixed by `weights`.

    Jeffreys in each stratum; the mixture is matched by mean and variance.
    """
    estimate = mean = variance = 0.0
    for (_, share, n), weight in zip(strata, weights, strict=True):
        a, b = n * share + 0.5, n * (1 - share) + 0.5
        estimate += weight * share
        mean += weight * a / (a + b)
        variance += weight**2 * a * b / ((a + b) ** 2 * (a + b + 1))
    size = mean * (1 - mean) / variance - 1
    return Beta(estimate, mean * size, (1 - mean) * size)
