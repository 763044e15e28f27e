"""Decay, window and their kin recover what was simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bunny_probe import fits
from bunny_probe.fits.ensemble import fit_curves

LENGTHS = tuple(int(v) for v in 1024 * 2 ** np.arange(8))


def test_the_right_curve_is_chosen_with_enough_data(campaign):
    """With many documents AICc picks the shape that made the data, and keeps the runners-up in the table."""
    truths = {
        "constant": lambda x, d: 0.8 + 0 * x,
        "exponential": lambda x, d: 0.2 + 0.7 * np.exp(-x / 20_000),
        "logistic": lambda x, d: 0.1 + 0.85 / (1 + (x / 12_000) ** 4),
        "power": lambda x, d: 0.95 * (x / 1024) ** -0.2,
        "piecewise": lambda x, d: 0.9 * (1 - 0.2 * np.maximum(np.log2(x / 4096), 0)),
    }
    for name, truth in truths.items():
        fit = fits.Decay()(campaign(truth, lengths=LENGTHS, documents=800, seed=4))
        assert fit.model == name
        table = fit.table()
        assert set(table["model"]) == set(truths)
        assert table["aicc"].is_monotonic_increasing
        assert table["weight"].sum() == pytest.approx(1)


def test_the_window_is_where_the_score_has_fallen(campaign):
    """The interval holds the true window, the estimate is near it, and the sentence tells both."""
    fit = fits.Window()(campaign(lambda x, d: 0.95 / (1 + (x / 30_000) ** 2), lengths=LENGTHS, documents=300))
    truth = 30_000 * np.sqrt(1 / 0.85 * (1 + (1024 / 30_000) ** 2) - 1)
    assert fit.status == "ok"
    assert fit.window.low <= truth <= fit.window.high
    assert fit.window.value == pytest.approx(truth, rel=0.15)
    assert f"{fit.window.value:,.0f}" in fit.sentence()
    assert fit.level_wanted == pytest.approx(0.85 * fit.base.value)
    table = fit.table().set_index("model")
    assert table.loc[fit.model, "window"] == pytest.approx(fit.window.value)
    assert np.isnan(table.loc["constant", "window"])


def test_a_window_past_the_probed_range_is_never_extrapolated(campaign):
    """A slow fall that does not reach the fraction is censored, whatever the curve would say further out."""
    fit = fits.Window()(campaign(lambda x, d: 0.9 - 0.01 * np.log2(x / 1024), lengths=LENGTHS, documents=300))
    assert fit.status == "censored"
    assert fit.window.value is None
    assert fit.window.high is None
    assert "beyond 131,072" in fit.sentence()


def test_repeats_of_one_answer_add_nothing(campaign):
    """Asking each probe ten times at temperature 0 leaves the interval as it was."""
    once = campaign(lambda x, d: 0.9 / (1 + (x / 9000) ** 2), documents=25)
    often = pd.concat([once.assign(repeat=i) for i in range(10)])
    a, b = fits.Window()(once), fits.Window()(often)
    assert b.counts.clusters == a.counts.clusters
    width = [np.log(f.window.high / f.window.low) for f in (a, b)]
    assert width[1] == pytest.approx(width[0], rel=0.15)
    assert fits.Decay()(often).design_effect == pytest.approx(10, rel=0.05)


def test_batch_and_single_give_the_same_window(campaign):
    """What the coverage benchmark checks in batches is what `Window` reports."""
    frame = campaign(lambda x, d: 0.9 / (1 + (x / 9000) ** 2), lengths=LENGTHS, documents=20)
    single = fits.Window()(frame)
    k = frame.groupby("length_tokens")["score"].sum().to_numpy(dtype=float)
    batch = fit_curves(
        np.array(LENGTHS, dtype=float), np.stack([k, k]), np.full((2, 8), 20.0), level=0.95, size=[160, 160]
    )
    low, high = batch.crossings(0.85)
    assert np.exp(low[0]) == pytest.approx(single.window.low, rel=0.002)
    assert np.exp(high[1]) == pytest.approx(single.window.high, rel=0.002)
    base = batch.values(np.array([LENGTHS[0]], dtype=float))
    assert base[0][1, 0] == pytest.approx(single.base.low, abs=1e-3)
    assert base[1][0, 0] == pytest.approx(single.base.high, abs=1e-3)


def test_an_interval_holds_the_whole_gap_that_a_cliff_stands_in(campaign):
    """Nothing was asked between two lengths: a fall may be anywhere there, and the interval says so."""
    for documents, seed in ((5, 1), (30, 2), (1000, 3)):
        frame = campaign(
            lambda x, d: np.where(x < 20_000, 0.92, 0.08), lengths=LENGTHS, documents=documents, seed=seed
        )
        window, half = fits.Window()(frame).window, fits.Decay()(frame).half_length
        assert window.low <= 16_384 * 1.02
        assert window.high >= 32_768 * 0.98
        assert half.low <= 16_384 * 1.05
        assert half.high >= 32_768 * 0.98


def test_a_course_that_no_curve_follows_gets_a_band_that_holds_it(campaign):
    """A dip that recovers is told to fit no curve, and the band is as wide as the curves are wrong."""

    def dip(x, d):
        return 0.9 - 0.4 * np.exp(-(np.log2(x / 16_384) ** 2))

    fit = fits.Decay()(campaign(dip, lengths=LENGTHS, documents=200))
    assert "no curve fits well" in fit.reason
    truth = dip(np.array(LENGTHS, dtype=float), 0)
    x = [p.x for p in fit.curve]
    low, high = (
        np.interp(np.log(LENGTHS), np.log(x), [getattr(p, side) for p in fit.curve]) for side in ("low", "high")
    )
    assert np.mean((low <= truth) & (truth <= high)) >= 7 / 8


def test_intervals_narrow_with_the_root_of_the_answers(campaign):
    """A hundred times the documents give a tenth of the width, also where a net alone would be too coarse."""

    def widths(documents):
        frame = campaign(lambda x, d: 0.95 / (1 + (x / 20_000) ** 1.5), lengths=LENGTHS, documents=documents)
        window, decay = fits.Window()(frame), fits.Decay()(frame)
        return np.log(window.window.high / window.window.low), decay.last.high - decay.last.low

    few, many = widths(200), widths(20_000)
    assert few[0] / many[0] == pytest.approx(10, rel=0.35)
    assert few[1] / many[1] == pytest.approx(10, rel=0.35)


def test_the_last_tokens_that_count_are_found(campaign):
    """When only the last 3,000 tokens are read, the end-anchored window says so."""
    fit = fits.Window(axis="from_end")(
        campaign(
            lambda x, d: np.where(x * (1 - d) < 3000, 0.95, 0.05), lengths=(4096, 8192, 16384),
            depths=tuple(np.linspace(0, 0.99, 12)), documents=30,
        )
    )  # fmt: skip
    assert fit.window.low < 3000 < fit.window.high
    assert fit.window.high < 3600


def test_a_knee_is_reported_only_where_there_is_one(campaign):
    """The knee's interval holds the true knee; a flat course has none."""
    with_knee = fits.Decay()(
        campaign(
            lambda x, d: 0.9 * (1 - 0.25 * np.maximum(np.log2(x / 8192), 0)),
            lengths=LENGTHS,
            documents=400,
            seed=2,
        )
    )
    assert with_knee.knee is not None
    assert with_knee.knee.low <= 8192 <= with_knee.knee.high
    assert fits.Decay()(campaign(lambda x, d: 0.9 + 0 * x, lengths=LENGTHS, documents=50)).knee is None


def test_graded_scores_keep_their_mean_and_their_own_spread():
    """Scores that hardly vary get a narrow band, where as many hits and misses would get a wide one."""
    rng = np.random.default_rng(0)
    x = np.repeat(LENGTHS, 20)
    score = np.clip(0.6 + rng.normal(0, 0.02, x.size), 0, 1)
    frame = pd.DataFrame({"length_tokens": x, "score": score, "cluster": np.arange(x.size), "answered": True})
    fit = fits.Decay()(frame)
    assert fit.base.value == pytest.approx(0.6, abs=0.01)
    assert fit.base.high - fit.base.low < 0.03
    assert not fit.hits


def test_the_unreferenced_share_is_the_one_simulated(campaign):
    """a, b and 1/k lie in their intervals when the misses follow the curve."""
    fit = fits.Unreferenced(level=0.99)(
        campaign(
            lambda x, d: 1 - (0.1 + 0.5 * (1 - np.exp(-x * d / 6000))), lengths=(4096, 16384, 32768),
            depths=tuple(np.linspace(0.05, 1, 12)), documents=120,
        )
    )  # fmt: skip
    assert fit.status == "ok"
    for estimate, truth in ((fit.start, 0.1), (fit.rise, 0.5), (fit.scale, 6000)):
        assert estimate.low <= truth <= estimate.high


def test_the_onset_of_a_collapse_is_found():
    """First tokens that turn near-uniform past 10,000 tokens put the onset there."""
    rng = np.random.default_rng(1)
    x = np.repeat(LENGTHS, 40)
    low = np.where(x > 10_000, 1.6, 0.4) + rng.normal(0, 0.05, x.size)
    frame = pd.DataFrame(
        {"length_tokens": x, "first_entropy_low": low, "cluster": np.arange(x.size), "answered": True}
    )
    fit = fits.Collapse()(frame)
    assert fit.onset.low <= 10_000 * 1.7
    assert 8192 <= fit.onset.value <= 16384


def test_recall_separates_misses_from_wrong_anchors(campaign):
    """Cells carry both shares, the middle is worst, and the contrasts are positive."""
    fit = fits.Recall()(
        campaign(
            lambda x, d: 0.9 - 0.5 * np.exp(-(((d - 0.5) / 0.2) ** 2)),
            depths=(0.0, 0.25, 0.5, 0.75, 1.0),
            documents=60,
        )
    )
    assert fit.primacy.low > 0
    assert fit.recency.low > 0
    middle = [c for c in fit.cells if c.depth == 0.5]
    assert all(c.wrong is not None and c.recall + c.wrong <= 1 for c in middle)
    assert np.mean([c.wrong for c in middle]) > 0.1
    assert sum(c.n for c in fit.cells) == fit.counts.used


def test_entropy_that_rises_is_seen_to_rise(campaign):
    """The slope a doubling is the simulated one, for both bounds, and bounds stay ordered."""
    fit = fits.Entropy()(campaign(lambda x, d: 0.9 + 0 * x, documents=80))
    assert fit.slope_low.low <= 0.05 <= fit.slope_low.high
    assert fit.slope_low.low > 0
    assert all(level.low <= level.high for level in fit.levels)


def test_unavailable_log_probabilities_are_an_answer(campaign):
    """An endpoint without log-probabilities is told as such, with the number of answers."""
    frame = campaign(lambda x, d: 0.9 + 0 * x).assign(entropy_low=np.nan, entropy_high=np.nan)
    fit = fits.Entropy()(frame)
    assert fit.status == "refused"
    assert "log-probabilities unavailable in all 120 answers" in fit.sentence()


def test_three_lengths_leave_the_whole_gap_open(campaign):
    """Between two probed lengths nothing says how the score falls: the interval spans nearly all the gap."""
    fit = fits.Window()(
        campaign(lambda x, d: np.where(x < 1500, 0.95, 0.2), lengths=(1024, 2048, 4096), documents=60)
    )
    assert fit.window.low < 1150
    assert fit.window.high > 1800
