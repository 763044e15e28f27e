"""Simulated campaigns for `coverage.py`: truths, designs, and whether an estimator's interval held the truth.

Each estimator is a function (truth, documents, campaigns, seed) → list of `Held`: one entry a reported
quantity, with how many of the campaigns' intervals held the truth, missed below or above it, or gave none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bunny_probe import fits
from bunny_probe.fits.ensemble import fit_curves

SHORT = np.round(np.geomspace(1024, 131_072, 8))
LONG = np.round(np.geomspace(1024, 2**20, 11))
DEPTHS = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0])


@dataclass
class Held:
    quantity: str
    n: int = 0
    inside: int = 0
    below: int = 0  # the truth lies below the interval
    above: int = 0
    none: int = 0  # no interval was given
    peer: int = 0  # how many of the peer's intervals held the truth
    width: float = 0.0

    def add(self, low: float | None, high: float | None, truth: float) -> None:
        self.n += 1
        if low is None and high is None:
            self.none += 1
            return
        slack = 1e-9 * max(abs(truth), 1.0) if np.isfinite(truth) else 0.0
        if low is not None and truth < low - slack:
            self.below += 1
        elif high is not None and truth > high + slack:
            self.above += 1
        else:
            self.inside += 1


# ── score against length ────────────────────────────────────────────────────────────────────────────

COURSES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]] = {
    "exponential 0.85·e^(-2.3e-6·L), to 1M": (lambda x: 0.85 * np.exp(-2.3e-6 * x), LONG),
    "hard cliff at 50,000": (lambda x: np.where(x < 50_000, 0.92, 0.08), SHORT),
    "no decay": (lambda x: np.full(np.shape(x), 0.9), SHORT),
    "logistic, window 12,000": (lambda x: 0.95 / (1 + (x / 30_000.0) ** 1.6), SHORT),
    "knee at 8,192": (lambda x: 0.92 * (1 - 0.16 * np.maximum(np.log2(x / 8192), 0)), SHORT),
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


def from_end(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """`Window(axis="from_end")` where only the last tokens count, one fact a document, several depths."""
    reach, sharp = {"last 20,000, soft": (20_000.0, 1.5), "last 6,000, sharp": (6_000.0, 4.0)}[name]
    lengths = np.array([4096, 16384, 65536])
    held = Held("last tokens that count, 85 %")
    rng = np.random.default_rng(seed)
    grid_l, grid_d = (v.ravel() for v in np.meshgrid(lengths, np.arange(0.0, 1.0, 0.1), indexing="ij"))
    length, depth = np.repeat(grid_l, documents), np.repeat(grid_d, documents)
    back = np.round(length * (1 - depth))

    def course(x):
        return 0.95 / (1 + (x / reach) ** sharp)

    truth = true_crossing(course, float(back.min()), float(back.max()), 0.85)
    for _ in range(campaigns):
        hit = (rng.random(back.size) < course(back)).astype(float)
        fit = fits.Window(axis="from_end")(_frame(length, depth, hit, np.arange(back.size)))
        w = fit.window
        if w is None:
            held.add(None, None, truth)
        else:
            held.add(w.low if w.low is not None else np.inf, w.high, truth)
    return [held]


def _frame(length: np.ndarray, depth: np.ndarray, score: np.ndarray, cluster: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {"length_tokens": length, "depth": depth, "score": score, "cluster": cluster, "answered": True}
    )


# ── recall over depth and length, documents asked at every depth ────────────────────────────────────


def _dip(depth: np.ndarray, length: np.ndarray) -> np.ndarray:
    return 2.2 - 0.25 * np.log2(length / 1024) - 2.4 * np.exp(-(((depth - 0.5) / 0.25) ** 2))


SURFACES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "mid-depth dip": _dip,
    "recency only": lambda d, x: -0.5 + 3.2 * d**3 - 0.15 * np.log2(x / 1024),
    "flat": lambda d, x: np.full(np.broadcast(d, x).shape, 1.4),
    "primacy and length": lambda d, x: 2.5 - 2.5 * d - 0.3 * np.log2(x / 1024),
}


def surface(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Wilson cells, the smooth surface, primacy and recency; facts of one document share its difficulty."""
    logit = SURFACES[name]
    lengths = np.array([1024.0, 4096.0, 16384.0])
    grid_l, grid_d = np.meshgrid(lengths, DEPTHS, indexing="ij")
    spread = 0.6  # standard deviation of the documents' difficulty, in logits
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    marginal = (1 / (1 + np.exp(-(logit(grid_d, grid_l)[..., None] + spread * nodes)))) @ (
        weights / weights.sum()
    )
    length = np.repeat(np.repeat(lengths, documents), DEPTHS.size)
    document = np.repeat(np.arange(lengths.size * documents), DEPTHS.size)
    depth = np.tile(DEPTHS, lengths.size * documents)
    middle = (DEPTHS >= 0.3) & (DEPTHS <= 0.7)
    means = [marginal[:, part].mean() for part in (DEPTHS <= 0.2, DEPTHS >= 0.8, middle)]
    cells, smooth = Held("recall cell (Wilson)"), Held("smooth recall surface")
    start, finish = Held("start minus middle"), Held("end minus middle")
    overall = Held("overall recall")
    rng = np.random.default_rng(seed)
    where = {(float(x), float(d)): marginal[i, j] for i, x in enumerate(lengths) for j, d in enumerate(DEPTHS)}
    for _ in range(campaigns):
        own = rng.normal(0, spread, lengths.size * documents)[document]
        hit = (rng.random(depth.size) < 1 / (1 + np.exp(-(logit(depth, length) + own)))).astype(float)
        frame = _frame(length, depth, hit, document)
        recall = fits.Recall()(frame)
        for cell in recall.cells:
            cells.add(cell.low, cell.high, where[cell.length, cell.depth])
        for contrast, held, at in ((recall.primacy, start, 0), (recall.recency, finish, 1)):
            if contrast is not None:
                held.add(contrast.low, contrast.high, float(means[at] - means[2]))
        overall.add(recall.overall.low, recall.overall.high, float(marginal.mean()))
        for point in fits.RecallSurface()(frame).points:
            smooth.add(point.low, point.high, where[point.length, point.depth])
    return [cells, smooth, start, finish, overall]


# ── means and percentiles ───────────────────────────────────────────────────────────────────────────


def entropy(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Mean entropy bounds and their slope over log-length; five answers a document."""
    shape, rise = {"calm": (2.0, 0.0), "rising": (2.0, 0.08), "heavy tail": (0.5, 0.04), "flat": (8.0, 0.0)}[
        name
    ]
    lengths = np.array([1024.0, 4096.0, 16384.0, 65536.0])
    length = np.repeat(lengths, documents)
    of = np.repeat(np.arange(length.size), 5)
    mean, slope = Held("mean entropy bound"), Held("entropy slope a doubling")
    level = 0.4 + rise * np.log2(length / 1024)
    rng = np.random.default_rng(seed)
    for _ in range(campaigns):
        document = level * rng.gamma(shape, 1 / shape, length.size)
        value = document[of] * rng.gamma(4.0, 0.25, of.size)
        frame = pd.DataFrame(
            {"length_tokens": length[of], "cluster": of, "answered": True,
             "entropy_low": value, "entropy_high": value * 1.5}
        )  # fmt: skip
        fit = fits.Entropy()(frame)
        for row in fit.levels:
            mean.add(row.low_from, row.low_to, 0.4 + rise * float(np.log2(float(row.at) / 1024)))
        assert fit.slope_low is not None
        slope.add(fit.slope_low.low, fit.slope_low.high, rise)
    return [mean, slope]


def percentiles(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Order-statistic intervals of P10, P50 and P90 of a latency."""
    from scipy import stats

    law = {
        "log-normal": stats.lognorm(0.5),
        "exponential": stats.expon(),
        "two humps": None,
        "uniform": stats.uniform(),
    }[name]
    out = [Held("P10"), Held("P50"), Held("P90")]
    rng = np.random.default_rng(seed)
    n = documents * 6
    probs = (0.10, 0.50, 0.90)
    if law is None:
        big = np.concatenate([stats.norm(1, 0.1).ppf(np.linspace(1e-6, 1 - 1e-6, 200_001)) + 0.0,
                              stats.norm(3, 0.3).ppf(np.linspace(1e-6, 1 - 1e-6, 200_001))])  # fmt: skip
        truths = np.quantile(big, probs)
    else:
        truths = law.ppf(probs)
    fit = fits.Distribution(quantities=("latency_s",), q=probs)
    for _ in range(campaigns):
        if law is None:
            value = np.where(rng.random(n) < 0.5, rng.normal(1, 0.1, n), rng.normal(3, 0.3, n))
        else:
            value = law.rvs(n, random_state=rng)
        rows = fit(pd.DataFrame({"latency_s": value, "cluster": np.arange(n), "answered": True})).percentiles
        for held, row, truth in zip(out, rows, truths, strict=True):
            if row.low is None and row.high is None:
                held.add(None, None, truth)
            else:
                held.add(
                    -np.inf if row.low is None else row.low,
                    np.inf if row.high is None else row.high,
                    float(truth),
                )
    return out


# ── differences and agreement ───────────────────────────────────────────────────────────────────────


def differences(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Paired difference of hits, four facts a document that share its difficulty."""
    from bunny_probe.fits.paired import paired_difference

    p1, p2 = {"equal": (0.85, 0.85), "10 points": (0.85, 0.75), "rare": (0.97, 0.95), "half": (0.5, 0.4)}[name]
    held = Held("paired score difference")
    rng = np.random.default_rng(seed)
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    from scipy.special import ndtr, ndtri

    share, scale = 0.3, np.sqrt(1.3)  # documents' part of the latent variance
    truth = p2 - p1
    for _ in range(campaigns):
        own = rng.normal(0, np.sqrt(share), documents * 6).repeat(4)
        both = rng.normal(0, 0.6, own.size)
        rest = np.sqrt(1 - 0.36)
        hits = [
            (own + both + rest * rng.normal(0, 1, own.size) < scale * ndtri(p)).astype(float) for p in (p1, p2)
        ]
        found = paired_difference(hits[1] - hits[0], np.arange(documents * 6).repeat(4), seed=seed)
        held.add(found.low, found.high, truth)
    del nodes, weights, ndtr
    return [held]


def consistency(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Self-consistency: pairs of three repeats that agree, probes of differing steadiness."""
    a, b = {"steady": (18.0, 2.0), "mixed": (2.0, 2.0), "loose": (2.0, 6.0), "wide": (0.7, 0.7)}[name]
    held = Held("self-consistency")
    rng = np.random.default_rng(seed)
    n = documents * 6
    # an answer is the probe's own with chance s, else one of many: two agree with chance s²
    truth = a * (a + 1) / ((a + b) * (a + b + 1))
    for _ in range(campaigns):
        steady = rng.beta(a, b, n).repeat(3)
        probe = np.arange(n).repeat(3)
        own = rng.random(steady.size) < steady
        text = np.where(own, "own", rng.integers(0, 10**9, steady.size).astype(str))
        frame = pd.DataFrame(
            {"probe_id": probe, "decoding_id": "d", "cluster": probe, "text": text, "score": own.astype(float),
             "answered": True}
        )  # fmt: skip
        found = fits.Agreement()(frame).consistency
        assert found is not None
        held.add(found.low, found.high, truth)
    return [held]


def unreferenced(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """a + b(1 - e^(-k·position)) from misses at twelve positions."""
    a, b, scale = {
        "slow": (0.05, 0.5, 20_000.0), "fast": (0.1, 0.4, 3_000.0), "large": (0.02, 0.8, 10_000.0),
        "small": (0.2, 0.25, 8_000.0),
    }[name]  # fmt: skip
    position = np.round(np.geomspace(200, 60_000, 12)).repeat(documents)
    miss = a + b * (1 - np.exp(-position / scale))
    held = [Held("unreferenced at the start (a)"), Held("unreferenced rise (b)")]
    rng = np.random.default_rng(seed)
    for _ in range(campaigns):
        hit = (rng.random(position.size) >= miss).astype(float)
        fit = fits.Unreferenced()(_frame(position, np.ones(position.size), hit, np.arange(position.size)))
        for h, e, truth in ((held[0], fit.start, a), (held[1], fit.rise, b)):
            h.add(e.low, e.high, truth)
    return held


ESTIMATORS: dict[str, tuple[Callable[[str, int, int, int], list[Held]], tuple[str, ...], tuple[int, ...]]] = {
    "curves": (curves, tuple(COURSES), (10, 30, 100)),
    "from_end": (from_end, ("last 20,000, soft", "last 6,000, sharp"), (10, 30, 100)),
    "surface": (surface, tuple(SURFACES), (10, 30, 100)),
    "entropy": (entropy, ("calm", "rising", "heavy tail", "flat"), (10, 30, 100)),
    "percentiles": (percentiles, ("log-normal", "exponential", "two humps", "uniform"), (5, 15, 50)),
    "differences": (differences, ("equal", "10 points", "rare", "half"), (5, 15, 50)),
    "consistency": (consistency, ("steady", "mixed", "loose", "wide"), (5, 15, 50)),
    "unreferenced": (unreferenced, ("slow", "fast", "large", "small"), (10, 30, 100)),
}
