"""What is known about a number: a value, or a distribution of one of a few named shapes.

Each shape maps a probability to a quantile, vectorised. So one set of (quasi-)random numbers in (0, 1), made
by the caller from a seed, drives everything, and a correlated comparison is simply the same number used twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "Beta",
    "Distribution",
    "Fixed",
    "Floats",
    "Lognormal",
    "Normal",
    "Triangular",
    "Uniform",
    "normal_pair",
]

Floats = npt.NDArray[np.float64]


class Distribution(Protocol):
    """A number's distribution, in the unit in which it was stated."""

    @property
    def central(self) -> float:
        """The stated best value; the median where none was stated."""
        ...

    @property
    def shape(self) -> str:
        """The shape in words."""
        ...

    def quantile(self, u: npt.ArrayLike) -> Floats:
        """The `u`-quantiles, 0 < u < 1."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Known exactly, or stated without uncertainty."""

    value: float
    shape: str = "value"

    @property
    def central(self) -> float:
        return self.value

    def quantile(self, u: npt.ArrayLike) -> Floats:
        return np.full(np.shape(u), self.value)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Anything from `low` to `high`, alike."""

    low: float
    high: float
    shape: str = "uniform"

    @property
    def central(self) -> float:
        return (self.low + self.high) / 2

    def quantile(self, u: npt.ArrayLike) -> Floats:
        return self.low + (self.high - self.low) * np.asarray(u, dtype=float)


@dataclass(frozen=True, slots=True)
class Triangular:
    """From `low` to `high`, most likely `mode`; its central value is the mode, as that is what was stated."""

    low: float
    mode: float
    high: float
    shape: str = "triangular"

    @property
    def central(self) -> float:
        return self.mode

    def quantile(self, u: npt.ArrayLike) -> Floats:
        p = np.asarray(u, dtype=float)
        width = self.high - self.low
        rise = (self.mode - self.low) / width
        left = self.low + np.sqrt(p * width * (self.mode - self.low))
        right = self.high - np.sqrt((1 - p) * width * (self.high - self.mode))
        return np.where(p <= rise, left, right)


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal, cut at `low` and `high` (what the quantity can be at all)."""

    mean: float
    sd: float
    low: float = -np.inf
    high: float = np.inf
    shape: str = "normal"

    @property
    def central(self) -> float:
        return self.mean

    @property
    def cut(self) -> float:
        """The probability that lies outside the limits and is cut away."""
        below, above = self._limits()
        return float(below + 1 - above)

    def quantile(self, u: npt.ArrayLike) -> Floats:
        from scipy.special import ndtri

        below, above = self._limits()
        p = below + np.asarray(u, dtype=float) * (above - below)
        return np.clip(self.mean + self.sd * ndtri(p), self.low, self.high)

    def _limits(self) -> tuple[float, float]:
        from scipy.special import ndtr

        return float(ndtr((self.low - self.mean) / self.sd)), float(ndtr((self.high - self.mean) / self.sd))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A positive number whose logarithm is normal: median, and the factor that one standard deviation is."""

    median: float
    factor: float
    high: float = np.inf
    shape: str = "lognormal"

    @property
    def central(self) -> float:
        return self.median

    @property
    def cut(self) -> float:
        return self._log().cut

    def quantile(self, u: npt.ArrayLike) -> Floats:
        return np.exp(self._log().quantile(u))

    def _log(self) -> Normal:
        with np.errstate(divide="ignore"):
            return Normal(float(np.log(self.median)), float(np.log(self.factor)), high=float(np.log(self.high)))


@dataclass(frozen=True, slots=True)
class Beta:
    """A share that was measured: its posterior, by mean and variance; `estimate` is the plain share seen.

    From k hits in n independent trials it is Jeffreys' Beta(k + 1/2, n - k + 1/2), so that 0 of 40 is not 0.
    """

    estimate: float
    a: float
    b: float
    shape: str = "measured share"

    @property
    def central(self) -> float:
        return self.estimate

    def quantile(self, u: npt.ArrayLike) -> Floats:
        from scipy.special import betaincinv

        return np.asarray(betaincinv(self.a, self.b, np.asarray(u, dtype=float)), dtype=float)


def normal_pair(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Mean and standard deviation of the normal with P(X <= x1) = p1 and P(X <= x2) = p2, each (p, x)."""
    from scipy.special import ndtri

    z1, z2 = float(ndtri(first[0])), float(ndtri(second[0]))
    sd = (second[1] - first[1]) / (z2 - z1)
    return first[1] - z1 * sd, sd
