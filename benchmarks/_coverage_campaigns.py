"""Simulated campaigns for `coverage.py`: truths, designs, and whether an estimator's interval held the truth.

Each estimator is a function (truth, documents, campaigns, seed) → list of `Held`: one entry a reported
quantity, with how many of the campaigns' intervals held the truth, missed below or above it, or gave none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from _held import Held, frame_of
from scipy import stats

from bunny_probe import fits

DEPTHS = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0])


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
        frame = frame_of(length, depth, hit, document)
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


CALM = {"calm": (2.0, 0.0), "rising": (2.0, 0.08), "heavy tail": (0.5, 0.04), "flat": (8.0, 0.0)}


def entropy(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Mean entropy bounds and their slope over log-length; five answers a document."""
    shape, rise = CALM[name]
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


LAWS = {
    "log-normal": stats.lognorm(0.5), "exponential": stats.expon(), "two humps": None,
    "uniform": stats.uniform(),
}  # fmt: skip


def percentiles(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Order-statistic intervals of P10, P50 and P90 of a latency."""
    law = LAWS[name]
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


PAIRS = {"equal": (0.85, 0.85), "10 points": (0.85, 0.75), "rare": (0.97, 0.95), "half": (0.5, 0.4)}


def differences(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Paired difference of hits, four facts a document that share its difficulty."""
    from bunny_probe.fits.paired import paired_difference

    p1, p2 = PAIRS[name]
    held = Held("paired score difference")
    rng = np.random.default_rng(seed)
    from scipy.special import ndtri

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
    return [held]


STEADY = {"steady": (18.0, 2.0), "mixed": (2.0, 2.0), "loose": (2.0, 6.0), "wide": (0.7, 0.7)}


def consistency(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Self-consistency: pairs of three repeats that agree, probes of differing steadiness."""
    a, b = STEADY[name]
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


RISES = {
    "slow": (0.05, 0.5, 20_000.0), "fast": (0.1, 0.4, 3_000.0), "large": (0.02, 0.8, 10_000.0),
    "small": (0.2, 0.25, 8_000.0),
}  # fmt: skip


def unreferenced(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """a + b(1 - e^(-k·position)) from misses at twelve positions."""
    a, b, scale = RISES[name]
    position = np.round(np.geomspace(200, 60_000, 12)).repeat(documents)
    miss = a + b * (1 - np.exp(-position / scale))
    held = [Held("unreferenced at the start (a)"), Held("unreferenced rise (b)")]
    rng = np.random.default_rng(seed)
    for _ in range(campaigns):
        hit = (rng.random(position.size) >= miss).astype(float)
        fit = fits.Unreferenced()(frame_of(position, np.ones(position.size), hit, np.arange(position.size)))
        for h, e, truth in ((held[0], fit.start, a), (held[1], fit.rise, b)):
            h.add(e.low, e.high, truth)
    return held
