"""Frames that nobody meant to send: whatever they hold, a fit answers with a record that keeps its promises."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bunny_probe import fits
from bunny_probe.fits.result import Crossing, Estimate, Result

FITS = {
    "decay": fits.Decay(points=8),
    "decay from the end": fits.Decay(axis="from_end", points=8),
    "window": fits.Window(),
    "window from the end": fits.Window(axis="from_end", fraction=0.5),
    "recall": fits.Recall(),
    "surface": fits.RecallSurface(),
    "unreferenced": fits.Unreferenced(),
    "entropy": fits.Entropy(),
    "first entropy by depth": fits.Entropy(by="depth", token="first"),
    "entropy by variant": fits.Entropy(by="variant"),
    "collapse": fits.Collapse(choices=2),
    "outcomes": fits.Outcomes(by="family"),
    "groups": fits.Groups(by=("family", "variant")),
    "distribution": fits.Distribution(),
    "agreement": fits.Agreement(),
    "robust": fits.RobustDecay(resamples=5, model="power", points=5),
    "contrasts": fits.Contrasts(pairs=(("form", "plain", "twin"),)),
    "compare": lambda frame: fits.Compare(rounds=20)(frame.iloc[::2], frame.iloc[1::2]),
    "compare with itself": lambda frame: fits.Compare(rounds=20)(frame, frame),
    "swaps": fits.ScorerSwaps(),
    "ranking": lambda frame: fits.Ranking(draws=20)({"a": frame, "b": frame.iloc[::-1]}),
}

ODD = [0.0, 1.0, 0.5, 1e-300, -1.0, 2.0, math.nan, math.inf, -math.inf, 1e300, None]
number = st.sampled_from(ODD) | st.floats(0, 1)
COLUMNS: dict[str, st.SearchStrategy[object]] = {
    "score": st.sampled_from([0.0, 1.0]) | number,
    "length_tokens": st.sampled_from([1024, 2048, 4096]) | st.sampled_from([0, -5, 1, 10**15, None, math.inf]),
    "depth": st.sampled_from([0.0, 0.5, 1.0]) | number,
    "cluster": st.sampled_from(["a", "b", "c", "d", "e", "", None]) | st.text(max_size=3),
    "probe_id": st.sampled_from([f"p{i}" for i in range(12)] + [None]),
    "answered": st.sampled_from([True, True, True, False, None]),
    "outcome": st.sampled_from(["answered", "timeout", "", None]),
    "family": st.sampled_from(["length", "position", None]),
    "variant": st.sampled_from(["plain", "twin", None]),
    "label": st.sampled_from(["hit", "wrong_anchor", None]),
    "text": st.sampled_from(["K-1", "", None, "é", "no"]),
    "first_top": st.sampled_from(['[["K", -0.1]]', "[]", "{", None, '[["K", null]]', '[1, 2]']),
    "decoding_id": st.sampled_from(["d", "e", None]),
    "temperature": st.sampled_from([0.0, 1.0, None, math.nan, math.inf]),
    "repetition_penalty": st.sampled_from([1.0, 1.5, None]),
    "entropy_low": number,
    "entropy_high": number,
    "first_entropy_low": number,
    "first_entropy_high": number,
    "latency_s": number,
    "ttft_s": number,
    "completion_tokens": st.sampled_from([1, 20, None]),
    "timing_valid": st.sampled_from([True, False, None]),
    "chance": number,
    "model": st.sampled_from(["m", "n"]),
    "scorer": st.sampled_from(["s", "t"]),
}  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Up to 60 rows; a few columns odd, a few constant, a few missing, the others as a campaign's."""
    n = draw(st.integers(0, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    frame = pd.DataFrame(
        {
            "score": (rng.random(n) < draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))).astype(float),
            "length_tokens": rng.choice([1024, 2048, 4096, 8192], n), "depth": rng.choice([0.0, 0.5, 1.0], n),
            "cluster": [f"c{i}" for i in rng.integers(0, max(n // 2, 1), n)],
            "probe_id": [f"p{i}" for i in rng.integers(0, max(n // 2, 1), n)], "answered": True,
            "outcome": "answered", "family": "length", "variant": rng.choice(["plain", "twin"], n),
            "label": "hit", "text": "K-1", "first_top": '[["K", -0.1]]', "decoding_id": "d", "temperature": 0.0,
            "repetition_penalty": 1.0, "latency_s": rng.lognormal(0, 1, n), "ttft_s": rng.lognormal(0, 1, n),
            "completion_tokens": 5, "timing_valid": True, "chance": 0.0,
            "model": rng.choice(["m", "n"], n), "scorer": rng.choice(["s", "t"], n),
            **{name: rng.gamma(2, 0.2, n) for name in COLUMNS if "entropy" in name},
        }
    )  # fmt: skip
    for name in draw(st.sets(st.sampled_from(sorted(COLUMNS)), max_size=4)):
        kind = draw(st.sampled_from(["odd", "constant", "missing", "nothing"]))
        if kind == "missing":
            frame = frame.drop(columns=name)
        elif kind == "nothing":
            frame[name] = None
        elif kind == "constant":
            frame[name] = [draw(COLUMNS[name])] * n
        else:
            palette = draw(st.lists(COLUMNS[name], min_size=1, max_size=5))
            frame[name] = [palette[i] for i in rng.integers(0, len(palette), n)]
    return frame


def _numbers(value: object) -> list[object]:
    """Every estimate and crossing within a result."""
    if isinstance(value, Estimate | Crossing):
        return [value]
    if dataclasses.is_dataclass(value):
        return [found for f in dataclasses.fields(value) for found in _numbers(getattr(value, f.name))]
    if isinstance(value, tuple):
        return [found for item in value for found in _numbers(item)]
    return []


def check(result: Result, name: str) -> None:
    assert result.status in {"ok", "censored", "refused"}
    sentence = result.sentence()
    assert sentence.endswith("."), (name, sentence)
    assert "nan" not in sentence.lower().replace("[", " ").split(), (name, sentence)
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["status"] == result.status
    assert isinstance(result.table(), pd.DataFrame)
    if result.status == "refused":
        assert result.reason, name
    for found in _numbers(result):
        ends = [v for v in (found.low, found.value, found.high) if v is not None]
        assert all(math.isfinite(v) for v in ends), (name, found)
        assert all(a <= b + 1e-9 * abs(b) for a, b in itertools.pairwise(ends)), (name, found)


@pytest.mark.parametrize("name", FITS)
@given(frame=frames())
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_frame_breaks_a_fit(name, frame):
    """No traceback and no warning; finite numbers in order, or a refusal with its reason."""
    check(FITS[name](frame), name)
