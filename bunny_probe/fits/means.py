"""Means of bounded or free quantities by group, with intervals between documents."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.proportions import critical

__all__ = ["cluster_mean", "cluster_slope"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def cluster_mean(value: Floats, cluster: Ints, level: float) -> tuple[float, float | None, float | None, int]:
    """(mean, low, high, documents): the mean of all rows, Student's t on the documents' residual sums.

    The sums' skewness is taken out by the monotone cubic of Hall 1992 (J. Roy. Stat. Soc. B 54, 221-228):
    entropies and times have a long right tail, where the plain interval of ten documents covers 0.84.
    One document gives no interval (None, None).
    """
    mean = float(value.mean())
    _, code = np.unique(cluster, return_inverse=True)
    documents = int(code.max()) + 1
    if documents < 2:
        return mean, None, None, documents
    part = np.bincount(code, weights=value - mean) / value.size
    error = float(np.sqrt(part @ part * documents / (documents - 1)))
    half = critical(level, documents - 1)
    spread = float(np.sqrt(part @ part / documents))
    skew = float(np.mean(part**3)) / spread**3 if spread > 0 else 0.0
    if abs(skew) < 1e-6:
        return mean, mean - half * error, mean + half * error, documents
    ends = np.array([half, -half]) / np.sqrt(documents)
    turned = 3 / skew * (np.cbrt(1 + skew * (ends - skew / (6 * documents))) - 1)
    low, high = mean - error * np.sqrt(documents) * turned
    return mean, float(min(low, mean)), float(max(high, mean)), documents


def cluster_slope(x: Floats, y: Floats, cluster: Ints, level: float) -> tuple[float, float, float] | None:
    """(slope, low, high) of y on x by least squares, with the documents' sandwich variance (Liang and
    Zeger 1986, corrected for few documents); None when x does not vary or there are under three documents.
    """
    _, code = np.unique(cluster, return_inverse=True)
    documents = int(code.max()) + 1
    centred = x - x.mean()
    spread = float(centred @ centred)
    if spread <= 0 or documents < 3:
        return None
    slope = float(centred @ y) / spread
    residual = y - y.mean() - slope * centred
    part = np.bincount(code, weights=centred * residual) / spread
    n = x.size
    correction = documents / (documents - 1) * (n - 1) / max(n - 2, 1)
    half = critical(level, documents - 2) * float(np.sqrt(part @ part * correction))
    return slope, slope - half, slope + half
