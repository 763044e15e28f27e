"""Intervals for shares, differences of shares and quantiles, vectorised."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["critical", "mover_difference", "quantile_ranks", "wilson"]

Floats = npt.NDArray[np.float64]


def critical(level: float, df: float | None = None) -> float:
    """Two-sided critical value: normal, or Student's t where the variance was estimated on `df` degrees."""
    from scipy.special import ndtri, stdtrit

    upper = 0.5 + level / 2
    if df is None or not np.isfinite(df):
        return float(ndtri(upper))
    return float(stdtrit(max(df, 1.0), upper))


def wilson(
    hits: npt.ArrayLike, trials: npt.ArrayLike, level: float = 0.95, *, z: float | None = None
) -> tuple[Floats, Floats]:
    """Wilson's score interval for a share (Wilson 1927). Shapes broadcast; NaN where there is no trial.

    `hits` and `trials` may be fractional: effective counts after a design effect, or sums of graded scores.
    """
    k, n = np.broadcast_arrays(np.asarray(hits, dtype=float), np.asarray(trials, dtype=float))
    z = critical(level) if z is None else z
    with np.errstate(divide="ignore", invalid="ignore"):
        share = k / n
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(np.maximum(share * (1 - share), 0) / n + z * z / (4 * n * n))
    low = np.where(k <= 0, 0.0, np.clip(centre - half, 0.0, 1.0))
    high = np.where(k >= n, 1.0, np.clip(centre + half, 0.0, 1.0))
    empty = n <= 0
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def mover_difference(
    first: tuple[Any, Any, Any], second: tuple[Any, Any, Any], correlation: Any = 0.0
) -> tuple[Any, Any]:
    """Interval of `first - second` from (value, low, high) of each: Newcombe's method, MOVER.

    Zou and Donner 2008 give the general form; `correlation` is that of the two estimates (Newcombe 1998
    for paired shares), 0 when they come from different documents.
    """
    p1, l1, u1 = first
    p2, l2, u2 = second
    d = p1 - p2
    below = (p1 - l1) ** 2 - 2 * correlation * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    above = (u1 - p1) ** 2 - 2 * correlation * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    return d - np.sqrt(np.maximum(below, 0)), d + np.sqrt(np.maximum(above, 0))


def quantile_ranks(n: int, q: float, level: float = 0.95) -> tuple[int | None, int | None]:
    """Ranks (from 0) of the order statistics that bound the q-quantile; None: n is too small for a bound.

    Exact for independent draws: the number below the quantile is binomial(n, q) (David and Nagaraja 2003, 7.1).
    """
    from scipy.special import bdtr

    tail = (1 - level) / 2
    # the wanted ranks lie within ten standard deviations of n·q
    reach = 10 * np.sqrt(n * q * (1 - q)) + 10
    first = int(max(n * q - reach, 0))
    ranks = np.arange(first, min(n, int(n * q + reach) + 1))
    below = bdtr(ranks, n, q)  # P(at most r draws lie below the quantile)
    # X_(r) <= quantile unless at most r draws lie below it; X_(s) >= quantile unless more than s do
    low = np.flatnonzero(below <= tail)
    high = np.flatnonzero(below >= 1 - tail)
    return (int(ranks[low[-1]]) if low.size else None), (int(ranks[high[0]]) if high.size else None)
