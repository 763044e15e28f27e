"""Behaviours: what is in force, what files say, and what is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.errors import UsageError
from bunny_probe.phantom import (
    PRESETS,
    Behaviour,
    Latency,
    Override,
    Price,
    Table,
    behaviours_from,
    load_behaviours,
    preset,
)


@given(*(st.floats(-0.5, 1.5) for _ in range(3)))
def test_rates_are_probabilities_and_recall_comes_first(recall: float, wrong: float, abstain: float):
    """hit + wrong anchor + abstain + miss = 1, none negative, and recall is never displaced."""
    rates = Behaviour(recall=recall, wrong_anchor=wrong, abstain=abstain).rates()
    shares = (rates.hit, rates.wrong_anchor, rates.abstain, rates.miss)
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(1)
    assert rates.hit == min(max(recall, 0), 1)


def test_a_later_override_wins_for_the_prompts_it_names():
    """Overrides match all of their facts, or not at all."""
    behaviour = Behaviour(
        overrides=(
            Override({"task": "negation"}, {"recall": 0.4}),
            Override({"task": "negation", "language": "zh"}, {"recall": 0.2}),
        )
    )
    assert behaviour.under({"task": "negation"}).rates().hit == 0.4
    assert behaviour.under({"task": "negation", "language": "zh"}).rates().hit == 0.2
    assert behaviour.under({"language": "zh"}).rates().hit == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": " "},
        {"recall": "1 / (L - 1024)"},
        {"recall": "import os"},
        {"entropy": float("nan")},
        {"answer_template": "no place"},
        {"logprobs": "sometimes"},
        {"context_limit": 0},
        {"vocabulary": 1},
        {"answer_tokens": 0},
        {"requests_per_second": 0},
        {"fault_rates": {"cut": 0.6, "empty": 0.6}},
        {"fault_rates": {"cut": -0.1}},
        {"fault_rates": {"unheard-of": 0.1}},
        {"each_prompt": ("cut:x",)},
        {"overrides": (Override({}, {"latency": 1}),)},
        {"overrides": (Override({}, {"recall": "?"}),)},
    ],
)
def test_impossible_behaviours_are_refused_when_they_are_made(arguments: dict[str, Any]):
    """Not at the first request."""
    with pytest.raises(UsageError):
        Behaviour(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"base": -1}, {"slow_rate": 2}, {"slow_factor": 0}, {"distribution": "flat"}]
)
def test_impossible_latencies_are_refused(arguments: dict[str, Any]):
    """Times are finite and not negative, shares lie in [0, 1]."""
    with pytest.raises(UsageError, match=r"latency\."):
        Latency(**arguments)


def test_prices_count_cached_tokens_apart():
    """Dollars of a call, by hand."""
    assert Price(1e-6, 4e-6, 1e-7).cost(1000, 10, 400) == pytest.approx(600e-6 + 40e-6 + 40e-6)
    assert Price(1e-6, 4e-6).cost(1000, 10, 400) == pytest.approx(1000e-6 + 40e-6)
    with pytest.raises(UsageError, match=r"price\.prompt"):
        Price(prompt=-1)


TOML = """
[[model]]
name = "forgetful"
recall = "0.95 * exp(-L / 40000)"
wrong_anchor = { lengths = [1024, 131072], values = [0.0, 0.3] }
abstain = { lengths = [1024], depths = [0, 1], values = [[0.1, 0.2]] }
each_prompt = ["rate-limit:0", "none"]
fault_rates = { "cut:2" = 0.1 }

[model.latency]
base = 1
gap = 0.02

[model.price]
prompt = 1e-6
report = true

[[model.overrides]]
when = { task = "negation" }
curves = { recall = 0.4 }

[[model]]
name = "other"
"""


def test_a_file_describes_what_the_classes_do(tmp_path: Path):
    """TOML, and JSON that was written from a behaviour, give equal behaviours."""
    path = tmp_path / "models.toml"
    path.write_text(TOML)
    forgetful, other = load_behaviours(path)
    assert forgetful == Behaviour(
        "forgetful",
        recall="0.95 * exp(-L / 40000)",
        wrong_anchor=Table((1024.0, 131072.0), (0.0, 0.3)),
        abstain=Table((1024.0,), ((0.1, 0.2),), (0.0, 1.0)),
        each_prompt=("rate-limit:0", "none"),
        fault_rates={"cut:2": 0.1},
        latency=Latency(base=1, gap=0.02),
        price=Price(prompt=1e-6, report=True),
        overrides=(Override({"task": "negation"}, {"recall": 0.4}),),
    )
    assert other == Behaviour("other")
    again = tmp_path / "models.json"
    again.write_text(json.dumps([forgetful.settings(), other.settings()]))
    assert load_behaviours(again) == (forgetful, other)


@pytest.mark.parametrize("behaviour", PRESETS.values(), ids=lambda b: b.name)
def test_presets_survive_being_written_and_read(behaviour: Behaviour):
    """Each preset can be handed to another process."""
    (again,) = behaviours_from(json.loads(json.dumps(behaviour.settings())))
    assert again == behaviour
    assert preset(behaviour.model) is behaviour
    assert behaviour.model.startswith("phantom-")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("recal = 0.5", "Did you mean 'recall'"),
        ("recall = true", "recall must be"),
        ("recall = [1]", "recall must be"),
        ("recall = { lengths = [1] }", "needs values"),
        ("recall = { lengths = [1], values = ['x'] }", "numbers"),
        ("recall = { length = [1], values = [1] }", "unknown key"),
        ("context_limit = 'big'", "context_limit must be a whole number"),
        ("context_limit = 1.5", "context_limit must be a whole number"),
        ("latency = 3", "latency must be a table"),
        ("[latency]\nbase = 'x'", "latency: base must be a number"),
        ("[latency]\nbase = -1", "base must be 0 or more"),
        ("overrides = [{ when = {} }]", r"overrides\[0\]"),
        ("each_prompt = 'cut'", "each_prompt must be a list"),
        ("each_prompt = [1]", "list of strings"),
        ("fault_rates = 3", "wrong type"),
        ("model = []", "no model"),
        ("x = 1\n[[model]]\nname = 'a'", "beside"),
        ("recall = ", "recall|Invalid"),
    ],
)
def test_faults_in_a_file_are_told_with_file_and_key(tmp_path: Path, text: str, reason: str):
    """The message names the file, the key and what is allowed."""
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"models\.toml.*({reason})"):
        load_behaviours(path)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path):
    """Missing, and not text."""
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("none.toml", "bad.toml"):
        with pytest.raises(UsageError, match=name):
            load_behaviours(tmp_path / name)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*Behaviour().settings(), "when", "curves"])


@given(st.dictionaries(NAMES, JSON_VALUES, max_size=4) | JSON_VALUES)
def test_no_data_makes_the_loader_fail_in_its_own_way(data: Any):
    """Behaviours or a UsageError, never a traceback."""
    with contextlib.suppress(UsageError):
        behaviours_from(data)


def test_unknown_presets_are_told_with_the_known_ones():
    """And the nearest one first."""
    with pytest.raises(UsageError, match="Did you mean 'forgetful'"):
        preset("forgetfull")
