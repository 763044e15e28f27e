"""Differences between two runs on the same probes: estimate, interval, p-value, smallest visible difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.proportions import critical

__all__ = ["PairedDifference", "paired_difference", "paired_ratio", "unpaired_difference"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Second minus first."""

    value: float
    low: float
    high: float
    narrow_low: float  # the interval of twice the error, for equivalence (TOST)
    narrow_high: float
    p: float
    error: float  # standard error
    n: int  # pairs, or answers when unpaired
    clusters: int
    test: str


def _smoothed(total: Floats, scale: float, level: float, count: int) -> tuple[float, float, float]:
    """(low, high, error) of the sum of the documents' differences over `scale`.

    Two extra documents, one better and one worse by a typical amount, keep the interval honest where few
    documents differ: Bonett and Price 2012 for pairs of hits, of which this is the case of one pair each.
    """
    moving = total[np.abs(total) > 1e-12]
    typical = scale / count  # a document's number of pairs: all of them changed
    if moving.size:
        typical = min(typical, float(np.sqrt(np.mean(moving**2))))
    value = float(total.sum()) / scale
    pulled = float(total.sum()) / (scale + 2 * typical)
    spread = float(np.sum((total - value * scale / count) ** 2)) + 2 * typical**2
    error = float(np.sqrt(spread * (count + 2) / (count + 1))) / (scale + 2 * typical)
    half = critical(level, max(count - 1, 1)) * error
    return pulled - half, pulled + half, error


def paired_difference(
    difference: Floats, cluster: Ints, *, level: float = 0.95, rounds: int = 4000, seed: int = 0
) -> PairedDifference:
    """Mean of per-probe differences (second minus first, each in [-1, 1]) with documents as the unit.

    p by the sign-flip test on the documents' sums: exact under "the two runs are exchangeable", which is
    McNemar's exact test for single hits; with more than 20 differing documents by `rounds` random flips.
    """
    _, code = np.unique(cluster, return_inverse=True)
    total = np.asarray(np.bincount(code, weights=difference), dtype=np.float64)
    count = total.size
    value = float(difference.mean())
    low, high, error = _smoothed(total, float(difference.size), level, count)
    n_low, n_high, _ = _smoothed(total, float(difference.size), 2 * level - 1, count)
    return PairedDifference(
        value, max(low, -1.0), min(high, 1.0), max(n_low, -1.0), min(n_high, 1.0),
        sign_flip_p(total, rounds=rounds, seed=seed), error, difference.size, count, "paired sign flips",
    )  # fmt: skip


def paired_ratio(
    first: Floats, second: Floats, cluster: Ints, *, level: float = 0.95
) -> tuple[float | None, float | None]:
    """Interval of mean(second) / mean(first) of the same probes, documents as the unit (Fieller 1954).

    The ratios r at which the paired mean of second - r·first is no further from 0 than chance allows. Two extra
    documents that changed by a typical amount keep it open where few changed, as in `_smoothed`. None: the
    first mean is not told from 0, so that the ratio has no bound on that side.
    """
    _, code = np.unique(cluster, return_inverse=True)
    a, b = (np.bincount(code, weights=v) for v in (first, second))
    count = a.size
    if count < 2:
        return None, None
    moving = (b - a)[np.abs(b - a) > 1e-12]
    typical = min(float(np.sqrt(np.mean(moving**2))), first.size / count) if moving.size else first.size / count
    correction = count / (count - 1)
    v_aa, v_ab, v_bb = (
        float(np.sum((u - u.mean()) * (w - w.mean()))) * correction for u, w in ((a, a), (a, b), (b, b))
    )
    v_bb += 2 * typical**2
    t2 = critical(level, count - 1) ** 2
    total_a, total_b = float(a.sum()), float(b.sum())
    lead, middle, last = total_a**2 - t2 * v_aa, total_a * total_b - t2 * v_ab, total_b**2 - t2 * v_bb
    root = middle**2 - lead * last
    if lead <= 0 or root < 0:
        return 0.0, None
    return max((middle - root**0.5) / lead, 0.0), (middle + root**0.5) / lead


def sign_flip_p(total: Floats, *, rounds: int = 4000, seed: int = 0) -> float:
    """Two-sided p of the sum of `total` when each sign is a coin's."""
    moving = total[np.abs(total) > 1e-12]
    if moving.size == 0:
        return 1.0
    seen = abs(float(moving.sum())) - 1e-9
    size = np.abs(moving)
    if np.allclose(size, size[0]):  # equal sizes: binomial, exact at any number
        from scipy.special import bdtr

        positive = int((moving > 0).sum())
        fewer = min(positive, moving.size - positive)
        return float(min(1.0, 2 * bdtr(fewer, moving.size, 0.5)))
    if moving.size <= 12:
        bits = (np.arange(2**moving.size)[:, None] >> np.arange(moving.size)) & 1
        sums = np.abs((2 * bits - 1) @ size)
        return float((sums >= seen).mean())
    signs = np.random.default_rng(seed).integers(0, 2, size=(rounds, moving.size), dtype=np.int8)
    sums = np.abs((2.0 * signs - 1.0) @ size)
    return float((1 + (sums >= seen).sum()) / (rounds + 1))


def unpaired_difference(
    first: Floats, second: Floats, c1: Ints, c2: Ints, *, level: float = 0.95
) -> PairedDifference:
    """Difference of means of different probes: Welch's interval and test on the documents' sums."""
    from scipy.special import stdtr

    parts = []
    for value, cluster in ((first, c1), (second, c2)):
        _, code = np.unique(cluster, return_inverse=True)
        total = np.bincount(code, weights=value)
        size = np.bincount(code)
        count = total.size
        # two extra answers at the ends keep the variance above 0 where all agree (Agresti and Caffo 2000)
        mean = (float(value.sum()) + 1) / (value.size + 2)
        spread = float(np.sum((total - size * mean) ** 2)) + mean**2 + (1 - mean) ** 2
        parts.append((mean, spread * count / max(count - 1, 1) / (value.size + 2) ** 2, count))
    (m1, v1, g1), (m2, v2, g2) = parts
    error = float(np.sqrt(v1 + v2))
    df = (v1 + v2) ** 2 / (v1**2 / max(g1 - 1, 1) + v2**2 / max(g2 - 1, 1))
    centre = m2 - m1
    half, narrow = critical(level, df) * error, critical(2 * level - 1, df) * error
    p = float(2 * stdtr(df, -abs(centre) / error))
    return PairedDifference(
        float(second.mean() - first.mean()), max(centre - half, -1.0), min(centre + half, 1.0),
        centre - narrow, centre + narrow, p, error, first.size + second.size, g1 + g2,
        "Welch between documents",
    )  # fmt: skip
