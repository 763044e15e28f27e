"""Simulated campaigns of scores against length, for `coverage.py`: windows, half-lengths, values, knees."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _held import Held

from bunny_probe.fits.ensemble import fit_curves

SHORT = np.round(np.geomspace(1024, 131_072, 8))
LONG = np.round(np.geomspace(1024, 2**20, 11))
SIX = np.round(np.geomspace(2048, 65_536, 6))
MANY = np.round(np.geomspace(512, 262_144, 15))

# ── score against length ────────────────────────────────────────────────────────────────────────────

COURSES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]] = {
    "exponential 0.85·e^(-2.3e-6·L), to 1M": (lambda x: 0.85 * np.exp(-2.3e-6 * x), LONG),
    "hard cliff at 50,000": (lambda x: np.where(x < 50_000, 0.92, 0.08), SHORT),
    "no decay": (lambda x: np.full(np.shape(x), 0.9), SHORT),
    "logistic, window 12,000": (lambda x: 0.95 / (1 + (x / 30_000.0) ** 1.6), SHORT),
    "knee at 8,192": (lambda x: 0.92 * (1 - 0.16 * np.maximum(np.log2(x / 8192), 0)), SHORT),
    "two steps": (lambda x: np.where(x < 6000, 0.95, np.where(x < 40_000, 0.75, 0.4)), SHORT),
    # None of these shaped the method; none but "to a floor" is among its five curves.
    "held out: linear in tokens": (lambda x: 0.9 - 0.6 * np.asarray(x) / 131_072, SHORT),
    "held out: to a floor of 0.4": (lambda x: 0.4 + 0.55 / (1 + (x / 12_000) ** 2.5), MANY),
    "held out: two slopes": (
        lambda x: 0.95 - 0.01 * np.log2(x / 2048) - 0.14 * np.maximum(np.log2(x / 16_384), 0),
        SIX,
    ),
    "held out: mid-length dip, recovers": (
        lambda x: 0.9 - 0.35 * np.exp(-(np.log2(x / 16_384) ** 2)),
        SHORT,
    ),
    "held out: ever faster": (lambda x: 0.92 * (1 - 0.6 * (np.asarray(x) / 131_072) ** 1.7), SHORT),
    "held out: terraces": (
        lambda x: 0.92 - 0.22 * (x > 2500) - 0.15 * (x > 14_000) - 0.25 * (x > 90_000) * 1.0,
        MANY,
    ),
}


def true_crossing(
    course: Callable[[np.ndarray], np.ndarray], low: float, high: float, fraction: float
) -> float:
    grid = np.geomspace(low, high, 400_001)
    value = course(grid)
    under = np.flatnonzero(value < fraction * value[0])
    return float(grid[under[0]]) if under.size else float("inf")


def curves(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Window, half-length and the curve's value at three lengths, on raw single hits.

    The likelihood, the region and the projection are those behind `Decay` and `Window`, on many campaigns
    at once; a test pins that both fits give the same numbers one by one.
    """
    course, lengths = COURSES[name]
    rng = np.random.default_rng(seed)
    k = rng.binomial(documents, np.broadcast_to(course(lengths), (campaigns, lengths.size))).astype(float)
    n = np.full_like(k, documents)
    ensemble = fit_curves(lengths, k, n, level=0.95, size=np.full(campaigns, documents * lengths.size))
    axis = ensemble.axis
    at = lengths[[0, lengths.size // 2, -1]]
    value_low, value_high = ensemble.values(at)
    sides = [ensemble.crossings(fraction) for fraction in (0.85, 0.5)]
    low, high = (np.column_stack([sides[0][i], sides[1][i], v]) for i, v in ((0, value_low), (1, value_high)))
    end = np.log(axis.high) + 1e-9
    low[:, :2] = np.where(low[:, :2] > end, np.inf, low[:, :2])
    high[:, :2] = np.where(high[:, :2] > end, np.inf, high[:, :2])
    out = [Held("window at 85 %"), Held("half-length"), Held("score of the curve")]
    truths = [np.log(true_crossing(course, axis.low, axis.high, f)) for f in (0.85, 0.5)]
    peer = _peer_window(k / n, lengths, rng, documents)
    for i in range(campaigns):
        out[0].add(low[i, 0], high[i, 0], truths[0])
        out[1].add(low[i, 1], high[i, 1], truths[1])
        for j, value in enumerate(course(at)):
            out[2].add(low[i, 2 + j], high[i, 2 + j], float(value))
    out[0].peer = int(((peer[0] <= truths[0] + 1e-9) & (truths[0] <= peer[1] + 1e-9)).sum())
    from statsmodels.stats.proportion import proportion_confint

    index = [0, lengths.size // 2, -1]
    wald = proportion_confint(k[:, index], n[:, index], method="normal")
    out[2].peer = int(((wald[0] <= course(at)) & (course(at) <= wald[1])).sum())
    ends = np.minimum(high[:, 0], end) - np.minimum(low[:, 0], end)
    out[0].width = float(np.median(ends) / np.log(2))
    out[2].width = float(np.median(high[:, 2:] - low[:, 2:]))
    return out


def _peer_window(
    share: np.ndarray, lengths: np.ndarray, rng: np.random.Generator, documents: int
) -> tuple[np.ndarray, np.ndarray]:
    """What harnesses do: the first grid length whose mean is under the fraction; here with a parametric
    bootstrap of 200 for an interval. Lengths in logarithms, inf where it is never under.
    """
    draws = rng.binomial(documents, np.broadcast_to(share, (200, *share.shape))) / documents
    under = draws < 0.85 * draws[..., :1]
    first = np.where(under.any(axis=-1), np.log(lengths)[under.argmax(axis=-1)], np.inf)
    ranked = np.sort(first, axis=0)
    return ranked[4], ranked[194]


# ── the end-anchored window: recall against tokens from the end ─────────────────────────────────────


REACHES = {
    "last 20,000, soft": (20_000.0, 1.5), "last 6,000, sharp": (6_000.0, 4.0),
    "last 2,000, soft": (2_000.0, 1.2), "last 40,000, cliff": (40_000.0, 30.0),
}  # fmt: skip


def from_end(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """The window from the end where only the last tokens count, one fact a document, several depths."""
    reach, sharp = REACHES[name]
    lengths, depths = np.array([4096.0, 16384.0, 65536.0]), np.arange(0.0, 1.0, 0.1)
    back, cells = np.unique(np.round(lengths[:, None] * (1 - depths)), return_counts=True)

    def course(x):
        return 0.95 / (1 + (x / reach) ** sharp)

    rng = np.random.default_rng(seed)
    n = np.broadcast_to(cells * documents, (campaigns, back.size))
    k = rng.binomial(n, course(back))
    size = np.full(campaigns, n[0].sum())
    low, high = fit_curves(back, k.astype(float), n.astype(float), level=0.95, size=size).crossings(0.85)
    truth = np.log(true_crossing(course, back[0], back[-1], 0.85))
    held = Held("last tokens that count, 85 %")
    for ends in zip(low, high, strict=True):
        held.add(*ends, truth)
    return [held]


def knee(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """The knee where `Decay` reports one: its curve within 7 AICc of the best, and better than no decay."""
    at, slope, top = KNEES[name]
    rng = np.random.default_rng(seed)
    chance = np.maximum(top * (1 - slope * np.maximum(np.log2(SHORT / at), 0)), 1e-3 * top)
    k = rng.binomial(documents, np.broadcast_to(chance, (campaigns, SHORT.size))).astype(float)
    n = np.full_like(k, documents)
    ensemble = fit_curves(SHORT, k, n, level=0.95, size=np.full(campaigns, documents * SHORT.size))
    place = {m.curve.name: i for i, m in enumerate(ensemble.maxima)}
    own, none = ensemble.aicc[:, place["piecewise"]], ensemble.aicc[:, place["constant"]]
    reported = (own <= ensemble.aicc.min(axis=1) + 7) & (own < none)
    low, high = ensemble.knee()
    held = Held("knee, where one is reported")
    for ok, a, b in zip(reported, low, high, strict=True):
        held.add(*((a, b) if ok else (None, None)), np.log(at))
    return [held]


KNEES = {
    "4,096, gentle": (4096.0, 0.12, 0.92), "8,192, steep": (8192.0, 0.3, 0.95),
    "20,000": (20_000.0, 0.25, 0.9), "2,500, low": (2500.0, 0.15, 0.7),
    "held out: 12,000, very steep": (12_000.0, 0.45, 0.93),
}  # fmt: skip
