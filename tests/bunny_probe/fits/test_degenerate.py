"""Data that cannot carry an estimate: a stated refusal or a censored answer, never a traceback."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from bunny_probe import fits

FITS = {
    "decay": fits.Decay(),
    "decay from the end": fits.Decay(axis="from_end"),
    "decay by position": fits.Decay(axis="position"),
    "window": fits.Window(),
    "window from the end": fits.Window(axis="from_end"),
    "recall": fits.Recall(),
    "surface": fits.RecallSurface(),
    "unreferenced": fits.Unreferenced(),
    "entropy": fits.Entropy(),
    "first entropy by depth": fits.Entropy(by="depth", token="first"),
    "entropy by variant": fits.Entropy(by="variant"),
    "collapse": fits.Collapse(choices=2),
    "outcomes": fits.Outcomes(),
    "outcomes by family": fits.Outcomes(by="family"),
    "distribution": fits.Distribution(),
    "agreement": fits.Agreement(),
    "robust decay": fits.RobustDecay(resamples=10, model="power"),
}

DAMAGE = {
    "empty": lambda f: f.iloc[:0],
    "one row": lambda f: f.iloc[:1],
    "three rows": lambda f: f.iloc[[0, 40, 80]],
    "one length": lambda f: f[f["length_tokens"] == 1024],
    "two lengths": lambda f: f[f["length_tokens"] <= 2048],
    "all hits": lambda f: f.assign(score=1.0, label="hit"),
    "no hits": lambda f: f.assign(score=0.0, label="miss"),
    "only NaN": lambda f: f.assign(score=np.nan, entropy_low=np.nan, first_entropy_low=np.nan),
    "some NaN": lambda f: f.assign(score=f["score"].where(np.arange(len(f)) % 3 > 0)),
    "infinite": lambda f: f.assign(score=np.inf, latency_s=np.inf, entropy_low=np.inf),
    "out of range": lambda f: f.assign(score=7.0),
    "nothing answered": lambda f: f.assign(answered=False, outcome="server_error"),
    "no columns": lambda f: f[["probe_id"]],
    "no depth": lambda f: f.drop(columns=["depth", "length_tokens"]),
    "missing coordinates": lambda f: f.assign(depth=np.nan, length_tokens=pd.NA),
    "zero length": lambda f: f.assign(length_tokens=0),
    "one document": lambda f: f.assign(cluster="same"),
    "no cluster": lambda f: f.drop(columns=["cluster"]),
    "text as numbers": lambda f: f.assign(score="high"),
    "repeats only": lambda f: pd.concat([f.iloc[:1]] * 20),
    "rising": lambda f: f.assign(score=(f["length_tokens"].astype(float) > 3000).astype(float)),
    "graded": lambda f: f.assign(score=np.linspace(0, 1, len(f))),
    "constant grade": lambda f: f.assign(score=0.5),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FITS)
def test_a_fit_answers_whatever_it_is_given(name, damage, campaign):
    """Every fit returns a record with a status, a sentence, a table and JSON without NaN."""
    frame = DAMAGE[damage](
        campaign(lambda x, d: 0.9 - 0.3 * (x > 5000) - 0.2 * (d == 0.5), depths=(0.0, 0.5, 1.0))
    )
    result = FITS[name](frame)
    assert result.status in {"ok", "censored", "refused"}
    assert result.sentence().endswith(".")
    assert "nan" not in result.sentence().lower()
    text = json.dumps(result.to_json(), allow_nan=False)
    assert json.loads(text)["status"] == result.status
    assert isinstance(result.table(), pd.DataFrame)
    if result.status == "refused":
        assert result.reason


@pytest.mark.parametrize("damage", ["empty", "only NaN", "nothing answered", "no columns"])
def test_no_data_is_refused_with_a_reason(damage, campaign):
    """Where no answer was scored no fit of a score pretends to an estimate."""
    frame = DAMAGE[damage](campaign(lambda x, d: 0.9 + 0 * x, depths=(0.0, 0.5, 1.0)))
    for name in ("decay", "window", "recall", "surface", "unreferenced", "agreement"):
        assert FITS[name](frame).status == "refused", name


def test_all_hits_never_give_a_confident_window(campaign):
    """Without a single miss the window is censored and the base keeps an interval."""
    result = fits.Window()(campaign(lambda x, d: 1.0 + 0 * x, documents=5))
    assert result.status == "censored"
    assert result.window is not None
    assert result.window.value is None
    assert result.window.high is None
    assert result.base.low < 0.97


def test_no_hits_at_short_context_leave_no_base(campaign):
    """A window of a model that never hits is refused: there is nothing to fall from."""
    assert fits.Window()(campaign(lambda x, d: 0.0 * x)).status == "refused"


def test_failures_never_count_as_misses(campaign):
    """Rows that were not answered change the counts and nothing else."""
    whole = campaign(lambda x, d: 0.9 / (1 + (x / 9000) ** 2), documents=15)
    failed = whole.iloc[:30].assign(answered=False, outcome="timeout", score=0.0, probe_id="f", cluster="f")
    both = fits.Decay()(pd.concat([whole, failed]))
    alone = fits.Decay()(whole)
    assert both.curve == alone.curve
    assert both.counts.failed == (("timeout", 30),)
    assert both.counts.used == alone.counts.used
