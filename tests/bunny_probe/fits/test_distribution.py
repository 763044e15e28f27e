"""Percentiles and the joint tail of score and latency."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bunny_probe import fits
from bunny_probe.fits.proportions import wilson


def _frame(score: np.ndarray, latency: np.ndarray, each: int = 1) -> pd.DataFrame:
    return pd.DataFrame(
        {"score": score, "latency_s": latency, "answered": True, "cluster": np.arange(score.size) // each}
    )


def _tied(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Hits that get rarer the slower the answer is."""
    slow = rng.normal(size=n)
    return (rng.random(n) < 1 / (1 + np.exp(2.5 * slow - 1.5))).astype(float), np.exp(0.4 * slow)


def test_percentiles_are_numpys_and_their_bounds_are_answers() -> None:
    """The value is numpy's quantile; a bound is an answer's own value, or none where too few were asked."""
    rng = np.random.default_rng(3)
    latency = rng.lognormal(size=40)
    fit = fits.Distribution(quantities=("latency_s",))(_frame(np.ones(40), latency))
    for row in fit.percentiles:
        assert row.value == np.quantile(latency, row.q)
        assert row.low is None or row.low in latency
        assert row.high is None or row.high in latency
    assert (
        fits.Distribution(quantities=("latency_s",))(_frame(np.ones(4), latency[:4])).percentiles[0].low is None
    )


def test_the_cut_of_a_tail_is_an_estimate_too() -> None:
    """Where the score changes at the cut, the tail's interval is wider than that of as many answers alone."""
    score, latency = _tied(np.random.default_rng(1), 2000)
    fit = fits.Distribution()(_frame(score, latency))
    slow = latency >= np.quantile(latency, 0.9)
    for found, part in ((fit.slow_score, slow), (fit.fast_score, ~slow)):
        assert found is not None
        low, high = wilson(score[part].sum(), part.sum())
        assert found.value == score[part].mean()
        assert found.high - found.low > 1.05 * float(high - low)  # type: ignore[operator]
    assert fit.worst_latency is not None
    assert fit.best_latency is not None


def test_the_interval_of_a_tail_is_as_wide_as_its_estimates_scatter() -> None:
    """Over many campaigns the half-width at 95 % is two standard deviations of what was found."""
    rng = np.random.default_rng(2)
    found = [
        fits.Distribution(quantities=("latency_s",))(_frame(*_tied(rng, 1000))).fast_score for _ in range(100)
    ]
    values = np.array([f.value for f in found if f is not None], dtype=float)
    half = np.mean([(f.high - f.low) / 2 for f in found if f is not None])  # type: ignore[operator]
    assert abs(half / (1.96 * np.std(values)) - 1) < 0.18


def test_a_cut_through_ties_is_no_estimate() -> None:
    """Latencies that are equal by the hundred leave the tail's members as they are: Wilson's interval alone."""
    score, latency = _tied(np.random.default_rng(4), 2000)
    latency = np.where(latency > 1.2, 2.0, 1.0)
    fit = fits.Distribution()(_frame(score, latency))
    assert fit.slow_score is not None
    slow = latency == 2.0
    low, high = wilson(score[slow].sum(), slow.sum())
    assert (fit.slow_score.low, fit.slow_score.high) == (float(low), float(high))


def test_answers_of_one_document_widen_every_interval() -> None:
    """The same answers, ten a document instead of one, bound less."""
    rng = np.random.default_rng(5)
    score, latency = (v.repeat(10) for v in _tied(rng, 200))
    latency = latency * rng.lognormal(0, 0.01, latency.size)
    alone, together = (fits.Distribution()(_frame(score, latency, each)) for each in (1, 10))
    for a, b in ((alone.slow_score, together.slow_score), (alone.best_latency, together.best_latency)):
        assert a is not None and b is not None  # noqa: PT018
        assert b.high - b.low > 1.5 * (a.high - a.low)  # type: ignore[operator]
