"""Preferences and rankings: closed forms, a peer, planted truths, refusals."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pandas as pd
import pytest

from bunny_probe.fits.bradley_terry import BradleyTerry
from bunny_probe.fits.contrasts import Contrasts
from bunny_probe.fits.ranking import Ranking


def test_two_have_a_closed_form() -> None:
    """30 wins to 10: ln 3 apart, with the standard error √(1/30 + 1/10), half of it to each side."""
    fit = BradleyTerry()([("a", "b", 1.0)] * 30 + [("a", "b", 0.0)] * 10)
    first, second = fit.standings
    assert first.name == "a"
    assert first.strength - second.strength == pytest.approx(math.log(3), abs=1e-9)
    half = 1.959964 * math.sqrt(1 / 30 + 1 / 10) / 2
    assert first.high - first.strength == pytest.approx(half, rel=1e-5)
    assert (first.wins, first.n) == (30, 40)


def test_three_agree_with_a_logit_peer() -> None:
    """Strength differences and their error are those of statsmodels' logistic regression without intercept."""
    import statsmodels.api as sm

    draw = random.Random(4)
    truth = {"a": 0.8, "b": 0.0, "c": -0.5}
    votes = []
    for _ in range(300):
        one, other = draw.sample(sorted(truth), 2)
        p = 1 / (1 + math.exp(truth[other] - truth[one]))
        votes.append((one, other, float(draw.random() < p)))
    design = np.array([[(o == n) - (t == n) for n in ("b", "c")] for o, t, _ in votes], dtype=float)
    peer = sm.Logit(np.array([x for *_, x in votes]), design).fit(disp=0)
    found = {s.name: s for s in BradleyTerry()(votes).standings}
    assert found["b"].strength - found["a"].strength == pytest.approx(peer.params[0], abs=1e-6)
    assert found["c"].strength - found["a"].strength == pytest.approx(peer.params[1], abs=1e-6)
    assert sum(s.strength for s in found.values()) == pytest.approx(0, abs=1e-9)


def test_the_intervals_cover_the_truth() -> None:
    """Over 200 simulated ballots the 95 % intervals hold the planted strength 91 to 98 times of 100."""
    draw = np.random.default_rng(5)
    truth = np.array([0.7, 0.1, -0.8])
    held = 0
    for _ in range(200):
        votes = []
        for a, b in ((0, 1), (0, 2), (1, 2)):
            won = draw.random(40) < 1 / (1 + np.exp(truth[b] - truth[a]))
            votes += [(str(a), str(b), float(x)) for x in won]
        fit = BradleyTerry()(votes)
        held += sum(s.low <= truth[int(s.name)] <= s.high for s in fit.standings)
    assert 0.91 <= held / 600 <= 0.98


def test_one_who_never_loses_is_told() -> None:
    """A clean sweep has no finite maximum: half a vote is added, said, and JSON stays plain."""
    fit = BradleyTerry()([("a", "b", 1.0)] * 8)
    assert fit.status == "censored"
    assert "half a vote" in fit.sentence()
    json.dumps(fit.to_json(), allow_nan=False)


def test_few_or_parted_votes_are_refused() -> None:
    """Too few votes, or two groups that never met, give no standings."""
    assert BradleyTerry()([("a", "b", 1.0)] * 3).status == "refused"
    parted = [("a", "b", 1.0), ("b", "a", 1.0), ("c", "d", 1.0), ("d", "c", 1.0)] * 3
    assert BradleyTerry()(parted).status == "refused"


def frame(score: float, seconds: float, n: int = 60, failed: int = 0) -> pd.DataFrame:
    draw = random.Random(int(score * 100))
    return pd.DataFrame(
        {
            "probe_id": [f"p{i}" for i in range(n)],
            "cluster": [f"d{i % 30}" for i in range(n)],
            "length_tokens": [1000] * n,
            "score": [float(draw.random() < score) if i >= failed else math.nan for i in range(n)],
            "answered": [i >= failed for i in range(n)],
            "latency_s": [seconds * (1 + draw.random() / 10) for _ in range(n)],
        }
    )


def test_weights_decide_between_fast_and_good() -> None:
    """All weight on speed names the fast one, all on quality the good one; the sensitivity shows both win."""
    frames = {"fast": frame(0.3, 0.1), "good": frame(0.95, 1.0)}
    by_speed = Ranking(weights=(1, 0, 0))(frames)
    by_quality = Ranking(weights=(0, 1, 0))(frames)
    assert by_speed.rows[0].name == "fast"
    assert by_quality.rows[0].name == "good"
    assert by_quality.rows[0].first == 1
    assert {r.name for r in by_speed.rows if 0 < r.first_by_weights < 1} == {"fast", "good"}
    for row in by_quality.rows:
        for part in (row.total, row.speed, row.quality, row.stability):
            assert part.low is not None
            assert part.high is not None
            assert part.value is not None
            assert part.low - 1e-9 <= part.value <= part.high + 1e-9
    json.dumps(by_speed.to_json(), allow_nan=False)


def test_failures_lower_stability_and_not_quality() -> None:
    """A model that fails on a third of the requests keeps its mean score and loses stability."""
    fit = Ranking()({"a": frame(0.9, 0.5), "b": frame(0.9, 0.5, failed=20)})
    found = {r.name: r for r in fit.rows}
    assert found["b"].stability.value == pytest.approx(40 / 60)
    assert found["a"].stability.value == 1
    assert found["b"].quality.value == pytest.approx(0.9, abs=0.12)


def test_longer_prompts_are_no_want_of_stability() -> None:
    """A model that takes ten times as long for prompts ten times as long is as stable as at one length."""
    mixed = frame(0.9, 0.5)
    long = mixed.index >= 20
    mixed.loc[long, "length_tokens"] = 10_000
    mixed.loc[long, "latency_s"] *= 10
    (found,) = [r for r in Ranking()({"a": mixed, "b": frame(0.9, 0.5)}).rows if r.name == "a"]
    assert found.stability.value == 1
    mixed.loc[mixed.index < 5, "latency_s"] *= 3
    (found,) = [r for r in Ranking()({"a": mixed, "b": frame(0.9, 0.5)}).rows if r.name == "a"]
    assert found.stability.value == pytest.approx(55 / 60)


def test_votes_count_only_where_everybody_has_some() -> None:
    """The human part mixes in when each model has votes, and is left out else."""
    frames = {"a": frame(1.0, 0.5), "b": frame(1.0, 0.5)}
    mixed = {r.name: r.quality.value for r in Ranking(human={"a": 0.5, "b": 0.1})(frames).rows}
    assert mixed == {"a": pytest.approx(0.85), "b": pytest.approx(0.73)}
    assert {r.quality.value for r in Ranking(human={"a": 0.5})(frames).rows} == {1.0}


def test_a_lone_model_is_not_ranked() -> None:
    """One model, no common document or senseless weights are refused in words."""
    assert Ranking()({"a": frame(0.5, 1.0)}).status == "refused"
    assert Ranking(weights=(-1, 1, 1))({"a": frame(0.5, 1.0), "b": frame(0.6, 1.0)}).status == "refused"


def test_contrasts_pair_by_document() -> None:
    """Planted: the second form loses 0.5 on every other document; a document without a partner is counted."""
    rows = [
        {"cluster": str(i), "variant": v, "score": 1.0 - (v == "b") * (i % 2), "answered": True}
        for i in range(40)
        for v in ("a", "b")
    ] + [{"cluster": "alone", "variant": "a", "score": 1.0, "answered": True}]
    fit = Contrasts((("b minus a", "a", "b"), ("never", "a", "c")))(pd.DataFrame(rows))
    row, never = fit.rows
    assert row.difference == pytest.approx(-0.5)
    assert (row.n, row.unpaired) == (40, 1)
    assert row.high is not None
    assert row.high < 0
    assert never.low is None
    assert Contrasts((("x", "a", "b"),))(pd.DataFrame(rows[:4])).status == "refused"
    json.dumps(fit.to_json(), allow_nan=False)
