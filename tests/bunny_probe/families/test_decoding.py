"""The decoding family: which decodings a probe gets, and its questions from both sides."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from bunny_probe.errors import SuiteError
from bunny_probe.families import TASKS, plan, probes
from bunny_probe.families.decoding_forms import FORMS
from bunny_probe.records import Attempt, Decoding, Observation, Outcome, Probe, Score, Trial
from bunny_probe.scores import score
from bunny_probe.suites import Entry, Suite

DECODING = sorted(name for family, name in TASKS if family == "decoding")


def entry(task: str, language: str = "en", **params: object) -> Entry:
    return Entry("decoding", task, languages=(language,), samples=6, repeats=2, seed=3, params=params)


def trials(*entries: Entry) -> list[Trial]:
    return plan(Suite("s", "", Path("s.toml"), entries))


def judged(probe: Probe, text: str) -> Score:
    attempt = Attempt(Outcome.ANSWERED, "", text)
    return score(probe, Observation(probe.id, "e", Decoding(), 0, attempt, 1, "", None))


def oracle(probe: Probe) -> str:
    """What somebody answers who reads the prompt."""
    text = probe.recipe.head + probe.recipe.tail
    if probe.variant == "recall":
        asked = next(anchor for anchor in probe.anchors if anchor.asked)
        assert text.count(asked.key) >= 2
        found = re.search(r"[A-Z]{2}-\d{4}", text[text.index(asked.key) :])
        assert found is not None
        return found[0]
    if probe.variant == "sum":
        return str(sum(map(int, re.findall(r"\d+", text))))
    if probe.variant == "list":
        return "\n".join(re.split(r", |、", re.split(r"[:：]\s*", text)[1].rstrip(".。")))
    return "Rain falls on every roof. It sings all night long."


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_oracle_is_right_and_chance_is_none(language: str) -> None:
    """Somebody who reads the prompt scores 1.0; a random code, number or list scores nothing."""
    rng = random.Random(2)
    for probe in probes(entry("self_consistency", language, forms=list(FORMS))):
        result = judged(probe, oracle(probe))
        assert result.value == 1.0, (probe.variant, oracle(probe), result.reason)
        if probe.variant != "write":
            wrong = f"{rng.choice('ABCD')}{rng.choice('ABCD')}-{rng.randrange(1000, 9999)}"
            assert judged(probe, wrong).value == probe.expectation.chance == 0.0


def test_samples_have_seeds_of_their_own() -> None:
    """Self-consistency asks k times, at one temperature, with k different seeds."""
    found = trials(entry("self_consistency", k=5, temperature=0.9, forms=["sum"]))
    per_probe = Counter(trial.probe.id for trial in found)
    assert set(per_probe.values()) == {5 * 2}
    assert {trial.decoding.temperature for trial in found} == {0.9}
    assert len({trial.decoding.seed for trial in found}) == 5
    assert all(0 <= (trial.decoding.seed or 0) < 2**31 for trial in found)


def test_temperature_zero_is_asked_once() -> None:
    """A sweep draws k samples at each temperature, and one at 0."""
    found = trials(entry("temperature", k=3, temperatures=[0.0, 0.5, 1.0], forms=["sum"]))
    seeds = {t: {x.decoding.seed for x in found if x.decoding.temperature == t} for t in (0.0, 0.5, 1.0)}
    assert seeds[0.0] == {None}
    assert len(seeds[0.5]) == len(seeds[1.0]) == 3


@pytest.mark.parametrize("name", ["repetition_penalty", "frequency_penalty", "presence_penalty"])
def test_a_sweep_moves_one_penalty(name: str) -> None:
    """Only the named penalty is sent, greedy, at each of its values."""
    found = trials(entry(name))
    assert len({getattr(trial.decoding, name) for trial in found}) == 4
    others = {"repetition_penalty", "frequency_penalty", "presence_penalty"} - {name}
    assert all(getattr(trial.decoding, other) is None for trial in found for other in others)
    assert {trial.decoding.temperature for trial in found} == {0.0}


@pytest.mark.parametrize(("name", "seeds"), [("greedy", 0), ("seeded", 1)])
def test_determinism_repeats_one_request(name: str, seeds: int) -> None:
    """Each probe is asked with one decoding, as often as the suite says, and not less than twice."""
    found = trials(entry(name))
    assert set(Counter((t.probe.id, t.decoding.id) for t in found).values()) == {2}
    assert len({t.decoding.seed for t in found} - {None}) == seeds
    with pytest.raises(SuiteError, match=r"repeats.*2 to 10,000"):
        trials(Entry("decoding", name, repeats=1, where="s.toml: probe[1]"))


@pytest.mark.parametrize("task", DECODING)
def test_plans_are_stable_and_ids_unique(task: str) -> None:
    """The same suite gives the same trials; no (probe, decoding, repeat) stands twice; lengths are honoured."""
    once, again = trials(entry(task)), trials(entry(task))
    assert once == again
    keys = [(t.probe.id, t.decoding.id, t.repeat) for t in once]
    assert len(set(keys)) == len(keys)
    long = trials(Entry("decoding", task, lengths=(1024,), repeats=2))
    assert all(t.probe.length_tokens == 1024 and t.probe.recipe.filler for t in long)
