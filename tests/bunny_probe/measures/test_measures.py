"""The named numbers of a run, and their differences, on frames of known truth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import observations

from bunny_probe.errors import UsageError
from bunny_probe.measures import amount, differ, matching, measure_all, measure_named, measures, verdict


def test_every_number_has_interval_n_and_denominator() -> None:
    """What is known lies in its interval; what is not says why."""
    values = measure_all(observations())
    assert {"recall", "recall@1024", "recall@32768", "window", "latency_p95", "cost_per_1000"} <= set(values)
    for told in values.values():
        assert told.denominator
        if told.value is None:
            assert told.reason
        elif told.name != "window":
            assert told.low is not None
            assert told.high is not None
            assert told.low <= told.value <= told.high, told
            assert 0 < told.n <= told.asked
    assert values["recall"].value == pytest.approx(0.95, abs=0.03)
    assert values["recall"].n == 400
    assert values["latency_p50"].value < values["latency_p95"].value  # type: ignore[operator]
    assert values["stress_pass_rate"].value is None


def test_a_failure_is_no_wrong_answer() -> None:
    """Failures lower the answered share and leave recall's value alone, with the smaller denominator told."""
    whole = measure_all(observations(recall=1.0))
    thin = measure_all(observations(recall=1.0, failed=50))
    assert thin["recall"].value == whole["recall"].value == 1.0
    assert (thin["recall"].n, thin["recall"].asked) == (300, 400)
    assert thin["answered_share"].value == pytest.approx(300 / 400)
    assert thin["answered_share"].n == 400


def test_cost_is_told_for_a_thousand_requests() -> None:
    """The provider's cost of one request, times a thousand."""
    assert measure_all(observations(cost=0.002))["cost_per_1000"].value == pytest.approx(2.0)


def test_an_empty_run_has_no_number_and_no_error() -> None:
    """Every measure says why it is not known."""
    assert all(told.value is None and told.reason for told in measure_all(observations().iloc[:0]).values())


def test_a_run_against_itself_has_not_moved() -> None:
    """Differences are exactly 0 and never better or worse."""
    frame = observations()
    for measure in measures(frame):
        found = differ(measure, frame, frame)
        if found.value is None:
            assert found.reason
            continue
        assert found.value == 0
        assert found.low is not None
        assert found.high is not None
        assert found.low <= 0 <= found.high
        assert verdict(found) in ("same", "undecided")


@pytest.mark.parametrize(
    ("name", "changed", "word"),
    [
        ("recall@32768", {"recall": {1024: 0.95, 32768: 0.85}}, "worse"),
        ("recall@32768", {"recall": {1024: 0.95, 32768: 1.0}}, "better"),
        ("recall@1024", {"recall": {1024: 0.95, 32768: 0.85}}, "same"),
        ("latency_p95", {"latency": 1.3}, "worse"),
        ("ttft_p95", {"latency": 0.7}, "better"),
    ],
)
def test_a_planted_change_is_found(name: str, changed: dict[str, object], word: str) -> None:
    """Ten points of recall and 30 % on P95 are seen, in the right direction, where they are."""
    before, after = observations(samples=400), observations(samples=400, **changed)  # type: ignore[arg-type]
    found = differ(measure_named(name), before, after)
    assert found.paired
    assert verdict(found) == word, found


def test_pairs_are_matched_by_content_not_by_row() -> None:
    """Shuffled rows and probes that only one run holds change nothing but n."""
    before, after = observations(), observations(seed=1)
    mixed = after.sample(frac=1.0, random_state=3).iloc[40:]
    whole = differ(measure_named("recall"), before, after)
    part = differ(measure_named("recall"), before, mixed)
    assert (whole.n, part.n) == (400, 360)
    assert differ(measure_named("recall"), before, after.sample(frac=1.0, random_state=4)).value == whole.value


def test_a_window_is_compared_only_as_far_as_both_were_asked() -> None:
    """A run that was asked less is not worse for it."""
    far = observations(recall=1.0, lengths=(1024, 4096, 32768))
    near = observations(recall=1.0, lengths=(1024, 4096))
    found = differ(measure_named("window"), far, near)
    assert found.value == 0
    assert verdict(found) == "same"


def test_runs_without_a_probe_in_common_are_compared_as_samples() -> None:
    """Unpaired, and it says so; times of other probes are not taken for pairs either."""
    before, after = observations(), observations(recall=0.5, seed=2)
    after["probe_id"] = after["probe_id"] + "x"
    after["cluster"] = after["cluster"] + "x"
    for name in ("recall", "latency_p95"):
        found = differ(measure_named(name), before, after)
        assert not found.paired
        assert found.value is not None
    assert verdict(differ(measure_named("recall"), before, after)) == "worse"


def test_names_that_no_run_could_have_are_refused() -> None:
    """With the nearest one, and the pattern for lengths."""
    with pytest.raises(UsageError, match="Did you mean 'latency_p95'"):
        measure_named("latency_p59")
    for name in ("recall@", "recall@-1", "recall@1.5", "recall@x", ""):
        with pytest.raises(UsageError):
            measure_named(name)
    with pytest.raises(UsageError):
        matching("nothing*", [])
    names = [item.name for item in matching("recall@*", measures(observations()))]
    assert names == ["recall@1024", "recall@32768"]


@given(value=st.floats(0, 1e7), unit=st.sampled_from(["share", "s", "tokens", "nats", "USD"]))
@settings(max_examples=60)
def test_amounts_read_as_numbers(value: float, unit: str) -> None:
    """Any number in any unit is told without an error, a difference with its sign."""
    assert any(character.isdigit() for character in amount(value, unit))
    assert amount(-value - 1, unit, signed=True, bare=True).startswith("-")
    assert amount(None, unit) == "—"
    assert math.isfinite(value)
