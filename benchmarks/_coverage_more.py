"""More simulated campaigns for `coverage.py`: tails, groups, settings, standings, edits, typical scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from _held import Held, frame_of
from scipy import stats

from bunny_probe import fits
from bunny_probe.fits.paired import unpaired_difference

TAILS = {"no tie": 0.0, "slow is worse": 1.0, "slow is much worse": 2.5, "slow is better": -1.0}


def tails(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Score of the slowest tenth and of the others; the score's logit falls with the latency's z."""
    tie, n = TAILS[name], documents * 20
    z = np.linspace(-6, 6, 20_001)
    density, cut = stats.norm.pdf(z), stats.norm.ppf(0.9)

    def chance(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-(1.5 - tie * v)))

    truths = [float((chance(z) * density)[s].sum() / density[s].sum()) for s in (z > cut, z <= cut)]
    out = [Held("score of the slowest tenth"), Held("score of the others")]
    rng = np.random.default_rng(seed)
    for _ in range(campaigns):
        v = rng.normal(0, 1, n)
        frame = frame_of(np.full(n, 1024), np.ones(n), (rng.random(n) < chance(v)).astype(float), np.arange(n))
        fit = fits.Distribution(quantities=("latency_s",), q=(0.5,))(frame.assign(latency_s=np.exp(0.4 * v)))
        for held, found, truth in zip(out, (fit.slow_score, fit.fast_score), truths, strict=True):
            held.add(None if found is None else found.low, None if found is None else found.high, truth)
    return out


BOTH: dict[str, float | str] = {
    "no tie": 0.0,
    "tied": 0.6,
    "tied closely": 0.95,
    "a step": "step",
    "held out: a hump": "hump",
}


def both_tails(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Graded scores, four answers a document that share most of its score and latency.

    Mean score of the slowest tenth, and median latency of the worst-scored tenth and of the others.
    """
    tie = BOTH[name]

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """(score, latency), each (n, 4)."""
        alike = lambda: np.sqrt(0.6) * rng.normal(size=(n, 1)) + np.sqrt(0.4) * rng.normal(size=(n, 4))  # noqa: E731
        slow, own = alike(), alike()
        if tie == "step":  # answers that were retried: slow, and bad at once
            value = 1.2 - 2.5 * (slow > 1.4) + 0.7 * own
        elif tie == "hump":  # the worst are not the slowest
            value = 1.5 - 2.0 * np.exp(-((slow - 0.8) ** 2)) + 0.8 * own
        else:
            value = 0.8 - 1.2 * (tie * slow + np.sqrt(1 - tie**2) * own)
        return 1 / (1 + np.exp(-value)), np.exp(0.5 * slow)

    score, latency = (v.ravel() for v in draw(np.random.default_rng(5), 1_000_000))
    bad = score <= np.quantile(score, 0.1)
    truths = [
        score[latency >= np.quantile(latency, 0.9)].mean(),
        np.median(latency[bad]),
        np.median(latency[~bad]),
    ]
    out = [Held("graded score of the slowest tenth"), Held("latency of the worst tenth"),
           Held("latency of the others")]  # fmt: skip
    rng = np.random.default_rng(seed)
    n = documents * 10
    for _ in range(campaigns):
        score, latency = (v.ravel() for v in draw(rng, n))
        frame = frame_of(np.full(4 * n, 1024), np.ones(4 * n), score, np.arange(n).repeat(4))
        fit = fits.Distribution(quantities=("latency_s",), q=(0.5,))(frame.assign(latency_s=latency))
        for held, found, truth in zip(
            out, (fit.slow_score, fit.worst_latency, fit.best_latency), truths, strict=True
        ):
            held.add(None if found is None else found.low, None if found is None else found.high, float(truth))
    return out


ALIKE = {"independent": (0.0, 1.0), "alike": (1.0, 1.0), "very alike": (2.5, 0.0), "rare misses": (0.8, 2.8)}


def groups(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Mean score of a group, five facts a document that share its difficulty."""
    spread, middle = ALIKE[name]
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    truth = float((1 / (1 + np.exp(-(middle + spread * nodes)))) @ weights / weights.sum())
    held = Held("mean score of a group")
    document = np.arange(3 * documents).repeat(5)
    task = np.array(["a", "b", "c"]).repeat(5 * documents)
    rng = np.random.default_rng(seed)
    for _ in range(campaigns):
        own = middle + spread * rng.normal(0, 1, 3 * documents)[document]
        hit = (rng.random(own.size) < 1 / (1 + np.exp(-own))).astype(float)
        frame = frame_of(np.full(own.size, 1024), np.ones(own.size), hit, document).assign(task=task)
        for row in fits.Groups(by=("task",))(frame).rows:
            held.add(row.low, row.high, truth)
    return [held]


HEAT = {"none lost": (0.9, 0.9), "some lost": (0.9, 0.75), "half lost": (0.8, 0.4), "few right": (0.4, 0.3)}


def settings(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Score kept when hot, and lost by a repetition penalty, on probes that share their difficulty."""
    cold, hot = HEAT[name]
    n = documents * 6
    out = [Held("score kept when hot (ratio)"), Held("score lost per unit of penalty")]
    rng = np.random.default_rng(seed)
    for _ in range(campaigns):
        own = rng.normal(0, 1, n)
        parts = []
        for column, value, share in (
            ("temperature", 0.0, cold), ("temperature", 1.0, hot),
            ("repetition_penalty", 1.0, cold), ("repetition_penalty", 1.5, hot),
        ):  # fmt: skip
            latent = np.sqrt(0.4) * own + np.sqrt(0.6) * rng.normal(0, 1, n)
            hit = (latent < stats.norm.ppf(share)).astype(float)
            part = frame_of(np.full(n, 1024), np.ones(n), hit, np.arange(n))
            kind = column[0]
            parts.append(
                part.assign(
                    probe_id=[f"{kind}{i}" for i in range(n)], decoding_id=f"{column}{value}", text="",
                    temperature=0.0, repetition_penalty=1.0,
                ).assign(**{column: value})
            )  # fmt: skip
        fit = fits.Agreement()(pd.concat(parts, ignore_index=True))
        for held, found, truth in (
            (out[0], fit.resilience, hot / cold), (out[1], fit.sensitivity, (cold - hot) / 0.5)
        ):  # fmt: skip
            held.add(None if found is None else found.low, None if found is None else found.high, truth)
    return out


STRENGTHS = {
    "equal": (0.0, 0.0, 0.0, 0.0), "spread": (0.9, 0.3, -0.3, -0.9), "one ahead": (1.5, -0.5, -0.5, -0.5),
    "two": (0.6, -0.6),
}  # fmt: skip


def standings(name: str, votes: int, campaigns: int, seed: int) -> list[Held]:
    """Strengths of Bradley and Terry's model, so many votes a pair."""
    strength = np.array(STRENGTHS[name])
    names = [f"m{i}" for i in range(strength.size)]
    held = Held("strength from votes")
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(strength.size) for j in range(i)]
    for _ in range(campaigns):
        cast = [
            (names[i], names[j], float(x))
            for i, j in pairs
            for x in rng.random(votes) < 1 / (1 + np.exp(strength[j] - strength[i]))
        ]
        for row in fits.BradleyTerry()(cast).standings:
            held.add(row.low, row.high, float(strength[names.index(row.name)]))
    return [held]


def apart(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """Difference of two runs without a common probe, four facts a document."""
    shares = APART[name]
    held = Held("unpaired score difference")
    rng = np.random.default_rng(seed)
    cluster = np.arange(documents * 6).repeat(4)
    for _ in range(campaigns):
        sides = []
        for share in shares:
            own = rng.normal(0, 1, documents * 6).repeat(4)
            latent = np.sqrt(0.3) * own + np.sqrt(0.7) * rng.normal(0, 1, own.size)
            sides.append((latent < stats.norm.ppf(share)).astype(float))
        found = unpaired_difference(*sides, cluster, cluster)
        held.add(found.low, found.high, shares[1] - shares[0])
    return [held]


APART = {"equal": (0.85, 0.85), "10 points": (0.85, 0.75), "rare": (0.97, 0.95), "half": (0.5, 0.4)}


SHIFTS = {"none": (0.0, 0.05), "small": (0.03, 0.1), "large": (-0.3, 0.2), "some only": (-0.1, 0.3)}


def edits(name: str, answers: int, campaigns: int, seed: int) -> list[Held]:
    """Shift of a scorer by an edit of the answers."""
    shift, spread = SHIFTS[name]
    held = Held("shift by an edit")
    rng = np.random.default_rng(seed)
    texts = [f"Answer {i}." for i in range(answers)]
    for _ in range(campaigns):
        before = rng.uniform(0.3, 0.7, answers)
        moved = before + rng.normal(shift, spread, answers) * (rng.random(answers) < 0.5) * 2 * (
            name == "some only"
        )
        moved = moved if name == "some only" else before + rng.normal(shift, spread, answers)

        def score(i: int, text: str, before: np.ndarray = before, moved: np.ndarray = moved) -> float:
            return float(before[i] if text == texts[i] else moved[i])

        fit = fits.ScorerEdits(edits={"mark": lambda text: text + "!"})(score, texts)
        row = fit.shifts[0]
        held.add(row.low, row.high, shift)
    return [held]


MEDIANS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "flat": lambda x: np.full(np.shape(x), 0.6),
    "power": lambda x: 0.8 * (x / 1024) ** -0.12,
    "exponential": lambda x: 0.3 + 0.5 * np.exp(-x / 20_000),
    "knee": lambda x: 0.85 * (1 - 0.15 * np.maximum(np.log2(x / 4096), 0)),
}


def typical(name: str, documents: int, campaigns: int, seed: int) -> list[Held]:
    """The band of `RobustDecay` at the first, middle and last length; noise is symmetric with a heavy tail."""
    course = MEDIANS[name]
    lengths = np.array([1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0])
    length = lengths.repeat(documents)
    held = Held("typical score (robust)")
    rng = np.random.default_rng(seed)
    for _ in range(campaigns):
        noise = np.clip(0.08 * rng.standard_t(3, length.size), -0.14, 0.14)
        frame = frame_of(length, np.ones(length.size), course(length) + noise, np.arange(length.size))
        curve = fits.RobustDecay(points=6)(frame).curve
        for i in (0, 2, 5):
            held.add(curve[i].low, curve[i].high, float(course(np.array([curve[i].x]))[0]))
    return [held]


ESTIMATORS = (
    ("tails", tails, TAILS, (10, 30, 100), ("distribution",)),
    ("both tails", both_tails, BOTH, (5, 15, 50), ("distribution",)),
    ("groups", groups, ALIKE, (10, 30, 100), ("groups",)),
    ("settings", settings, HEAT, (5, 15, 50), ("agreement",)),
    ("standings", standings, STRENGTHS, (20, 60, 200), ("bradley_terry",)),
    ("apart", apart, APART, (5, 15, 50), ("paired",)),
    ("edits", edits, SHIFTS, (10, 30, 100), ("audit",)),
    ("typical", typical, MEDIANS, (10, 30, 100), ("robust",)),
)
