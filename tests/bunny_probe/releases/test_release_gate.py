"""The gate: rules, decisions from intervals, and what CI and a pull request are told."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from releases import file_release, observations

from bunny_probe.errors import UsageError
from bunny_probe.releases import Index, Rules, Side, gate, judge, load_rules
from bunny_probe.releases.rules import Rule

DEFAULT = load_rules()


def decisions(rules: Rules, current: object, previous: object) -> dict[str, str]:
    checks = judge(rules, "prod", Side("new", current), {"previous": Side("old", previous)})  # type: ignore[arg-type]
    return {check.metric: check.decision for check in checks}


def one(**rule: object) -> Rules:
    return Rules((Rule(where="test", **rule),), 0.95, "test.toml")  # type: ignore[arg-type]


def test_a_planted_regression_fails() -> None:
    """Ten points of recall at 32K and 30 % on P95 block the release; what did not change does not."""
    before = observations(samples=400, seed=1)
    lost = observations(samples=400, recall={1024: 0.95, 32768: 0.85}, seed=1)
    slow = observations(samples=400, latency=1.3, seed=1)
    assert decisions(DEFAULT, lost, before)["recall@32768"] == "fail"
    assert decisions(DEFAULT, lost, before)["recall@1024"] != "fail"
    assert decisions(DEFAULT, slow, before)["latency_p95"] == "fail"
    assert decisions(DEFAULT, slow, before)["recall"] != "fail"


def test_the_same_model_twice_passes_every_time() -> None:
    """Fresh answers and fresh times of the same truth never block, with every default rule asked. How often
    they would in hundreds of campaigns is counted by benchmarks/release_gate.py."""
    blocked = []
    for seed in range(8):
        old, new = observations(seed=100 + seed, cost=0.001), observations(seed=200 + seed, cost=0.001)
        checks = judge(DEFAULT, "prod", Side("new", new), {"previous": Side("old", old)})
        blocked += [(seed, check.metric, check.reason) for check in checks if check.blocks]
    assert not blocked


def test_a_difference_inside_the_noise_is_undecided_and_says_what_would_decide() -> None:
    """Few documents neither fail nor pass; strict turns that into a refusal."""
    old, new = observations(samples=20, seed=1), observations(samples=20, recall=0.85, seed=2)
    rule = {"metric": "recall", "compare": "previous", "not_worse_by": 0.03}
    (check,) = judge(one(**rule), "prod", Side("new", new), {"previous": Side("old", old)})
    assert (check.decision, check.blocks) == ("undecided", False)
    assert check.documents_needed is not None
    assert check.documents_needed > check.clusters == 40
    assert f"{check.documents_needed:,} documents would decide" in check.reason
    (check,) = judge(one(**rule, strict=True), "prod", Side("new", new), {"previous": Side("old", old)})
    assert (check.decision, check.blocks) == ("undecided", True)


def test_what_is_shown_to_be_within_the_allowance_passes() -> None:
    """A loss that is real and small passes a rule that allows it, by its interval."""
    old, new = observations(samples=800, recall=0.97), observations(samples=800, recall=0.96)
    rule = one(metric="recall", compare="previous", not_worse_by=0.05)
    assert decisions(rule, new, old) == {"recall": "pass"}


@pytest.mark.parametrize(
    ("limit", "decision"),
    [
        ({"at_least": 0.8}, "pass"),
        ({"at_least": 0.99}, "fail"),
        ({"at_least": 0.95}, "undecided"),
        ({"at_most": 0.8}, "fail"),
        ({"at_most": 0.99}, "pass"),
    ],
)
def test_an_absolute_limit_is_judged_by_the_interval(limit: dict[str, float], decision: str) -> None:
    """Missed, kept, or within the interval; no other run is needed."""
    (check,) = judge(one(metric="recall", compare="absolute", **limit), "prod", Side("new", observations()), {})
    assert check.decision == decision
    assert check.n == 400


def test_a_number_that_is_not_there_is_never_passed_in_silence() -> None:
    """A length that was dropped is undecided, optional metrics are skipped, a first release loses nothing."""
    old, new = observations(), observations(lengths=(1024,))
    rule = one(metric="recall@*", compare="previous", not_worse_by=0.03)
    assert decisions(rule, new, old)["recall@32768"] == "undecided"
    assert decisions(DEFAULT, new, old)["cost_per_1000"] == "skipped"
    checks = judge(DEFAULT, "prod", Side("new", new), {})
    assert {check.decision for check in checks} == {"skipped"}
    strict = one(metric="recall", compare="baseline", not_worse_by=0.03, strict=True)
    assert judge(strict, "prod", Side("new", new), {})[0].blocks


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at least one"),
        ("rule = 3", "at least one"),
        ("[[rules]]", "Did you mean 'rule'"),
        ("level = 2.0\n[[rule]]", "level"),
        ('[[rule]]\nmetric = "recall"', "compare is missing"),
        ('[[rule]]\nmetric = "recal"\ncompare = "previous"\nnot_worse_by = 0.1', "Did you mean 'recall'"),
        ('[[rule]]\nmetric = "recall"\ncompare = "last"\nnot_worse_by = 0.1', "unknown compare 'last'"),
        ('[[rule]]\nmetric = "recall"\ncompare = "previous"\nat_least = 0.1', "has one of"),
        ('[[rule]]\nmetric = "recall"\ncompare = "absolute"\nat_least = 0.1\nat_most = 0.2', "has one of"),
        ('[[rule]]\nmetric = "recall"\ncompare = "previous"\nnot_worse_by = -0.1', "0 or more"),
        ('[[rule]]\nmetric = "recall"\ncompare = "previous"\nnot_worse_by = "3"', "int or float"),
        ('[[rule]]\nmetric = "recall"\ncompare = "previous"\nnot_worse_by = true', "int or float"),
        ('[[rule]]\nmetric = "recall"\ncompare = "previous"\nnot_worse_by = nan', "finite"),
        ('[[rule]]\nmetric = "entropy_low"\ncompare = "previous"\nnot_worse_by = 0.1', "direction"),
        ('[[rule]]\nmetric = "recall"\ncompare = "previous"\nnot_worse_by = 0.1\nmargin = 1', "unknown key"),
        (f'[[rule]]\nmetric = "recall"\ncompare = "previous"\nnot_worse_by = 1{"0" * 400}', "finite"),
        (f"level = {'9' * 5000}", "cannot be read"),
        ("[[rule", "test.toml"),
    ],
)
def test_a_faulty_rule_is_told_with_file_and_key(tmp_path: Path, text: str, told: str) -> None:
    """Before anything is judged."""
    path = tmp_path / "test.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=told) as error:
        load_rules(path)
    assert "test.toml" in str(error.value)


def test_ci_and_a_pull_request_are_told_the_reason(tmp_path: Path) -> None:
    """JUnit that parses, with as many failures as it says; Markdown whose table no name can break."""
    hostile = "2024_01 | <b>*x*</b>\x07"
    file_release(tmp_path, "1.9", {"prod": observations(samples=400)}, started="2026-01-01")
    lost = observations(samples=400, recall={1024: 0.95, 32768: 0.8})
    file_release(tmp_path, hostile, {"prod": lost, "new": observations()}, started="2026-01-02")
    found = gate(Index(tmp_path), hostile, DEFAULT)
    assert not found.passed
    root = ElementTree.fromstring(found.junit())
    assert int(root.attrib["failures"]) == len(root.findall(".//failure")) == len(found.blocking) > 0
    assert int(root.attrib["tests"]) == len(root.findall(".//testcase")) == len(found.checks)
    assert int(root.attrib["skipped"]) == len(root.findall(".//skipped"))
    markdown = found.markdown()
    assert "<b>" not in markdown
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 5, line
    assert "recall@32768" in " ".join(found.reasons())
    assert "phantom" in markdown
    fresh = [check for check in found.checks if check.endpoint == "new"]
    assert {check.decision for check in fresh} == {"skipped"}


def test_each_endpoint_is_held_to_its_own_past(tmp_path: Path) -> None:
    """The one before is the last finished one of another name at this endpoint; the baseline is pinned."""
    good, bad = observations(samples=400), observations(samples=400, recall=0.7)
    file_release(tmp_path, "1.8", {"prod": bad}, started="2026-01-01")
    file_release(tmp_path, "1.9", {"prod": good}, started="2026-01-02")
    file_release(tmp_path, "broken", {"prod": bad}, started="2026-01-03", state="failed")
    file_release(tmp_path, "1.10", {"prod": bad}, started="2026-01-04")
    file_release(tmp_path, "1.10", {"prod": good}, started="2026-01-05")
    index = Index(tmp_path)
    found = gate(index, "1.10", DEFAULT)
    assert found.passed
    assert {check.reference for check in found.checks if check.loss is not None} == {"1.9"}
    assert not gate(index, "broken", DEFAULT).passed
    index.pin("1.9", "2026-01-06")
    rule = one(metric="recall", compare="baseline", not_worse_by=0.03)
    assert gate(index, "1.8", rule).checks[0].decision == "fail"
    with pytest.raises(UsageError, match="itself"):
        gate(index, "1.10", DEFAULT, previous="1.10")
    with pytest.raises(UsageError, match=r"Choices: .*1\.10"):
        gate(index, "1.1", DEFAULT)
