"""A campaign: suite, endpoint, run and scorers joined."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bunny_probe.bounds import Bounds
from bunny_probe.campaign import load_plan, observe, score_run, trial_keys
from bunny_probe.errors import EndpointUnreachable, ModelNotFound, SuiteError, UsageError
from bunny_probe.exports import export_source
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.runs import Store, frame
from bunny_probe.targets import Target

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_campaign_asks_scores_and_needs_nobody_afterwards(suite_file: Path, tmp_path: Path) -> None:
    """Every probe is asked once, counted by the server as intended, and a finished run needs nobody."""
    run, plan = tmp_path / "run.db", load_plan(suite_file)
    with Phantom(Behaviour(recall=1.0, wrong_anchor=0.0)) as phantom:
        target = Target(endpoint=phantom.url)
        first = observe(plan, target, run, mode="none", concurrency=4)
        assert first.summary is not None
        assert first.summary.answered == len(plan.trials) == 21
    again = observe(plan, target, run, mode="none")
    assert again.summary is None
    assert again.fingerprint == first.fingerprint
    assert score_run(run) == 21
    assert score_run(run) == 0
    assert score_run(run, anew=True) == 21
    rows = frame(run)
    assert (rows["score"] == 1).all()
    assert (rows["length_tokens"] == rows["prompt_tokens"]).all()


def test_a_plan_counts_what_it_asks(suite_file: Path) -> None:
    """The rows of a plan add up to its trials and its tokens."""
    plan = load_plan(suite_file)
    rows = plan.rows()
    assert sum(row.trials for row in rows) == len(plan.trials) == len(trial_keys(plan))
    assert sum(row.prompt_tokens or 0 for row in rows) == 6 * 400 + 6 * 800 + 9 * 600
    assert [row.documents for row in rows] == [6, 6, 3]


def test_an_unnamed_model_is_the_only_one_served(suite_file: Path, tmp_path: Path) -> None:
    """With several served models, a name is asked for and the choices are listed."""
    plan = load_plan(suite_file)
    with (
        Phantom([Behaviour(name="a"), Behaviour(name="b")]) as phantom,
        pytest.raises(ModelNotFound, match=r"phantom-a.*phantom-b"),
    ):
        observe(plan, Target(endpoint=phantom.url), tmp_path / "run.db", mode="none")


def test_nobody_there_is_one_line(suite_file: Path, tmp_path: Path) -> None:
    """A dead address is told as such, and the run file is not spoilt."""
    plan = load_plan(suite_file)
    with pytest.raises(EndpointUnreachable, match="nothing answers at"):
        observe(plan, Target(endpoint="http://127.0.0.1:9/v1", model="m"), tmp_path / "run.db", mode="none")
    assert frame(tmp_path / "run.db").empty


def test_a_missing_tokenizer_file_is_named(suite_file: Path, tmp_path: Path, phantom: Phantom) -> None:
    """A wrong path is told before anything is asked."""
    target = Target(endpoint=phantom.url, tokenizer=str(tmp_path / "no.json"))
    with pytest.raises(UsageError, match=r"no tokenizer file at .*no\.json"):
        observe(load_plan(suite_file), target, tmp_path / "run.db", mode="none")


def test_an_unknown_suite_names_the_choices() -> None:
    """A typo is answered with what there is."""
    with pytest.raises(SuiteError, match="Did you mean 'diagnose-quick'"):
        load_plan("diagnose-quik")


def test_two_processes_ask_the_same_probes() -> None:
    """The bundled suite has the same ids under different hash seeds."""
    code = (
        "from bunny_probe.campaign import load_plan;"
        "print([t.probe.id for t in load_plan('diagnose-quick').trials])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_a_budget_stops_before_it_is_exceeded(suite_file: Path, tmp_path: Path, phantom: Phantom) -> None:
    """Five calls allowed are five calls made, and the rest is asked by the next run."""
    from bunny_probe.errors import BudgetSpent

    plan, run, target = load_plan(suite_file), tmp_path / "run.db", Target(endpoint=phantom.url)
    with pytest.raises(BudgetSpent):
        observe(plan, target, run, mode="none", bounds=Bounds(calls=5))
    assert len(frame(run)) == 5
    second = observe(plan, target, run, mode="none")
    assert second.summary is not None
    assert (second.summary.already, second.summary.asked) == (5, 16)


def test_killed_at_random_it_loses_nothing_and_asks_nothing_twice(
    cli: Cli, suite_file: Path, tmp_path: Path
) -> None:
    """SIGKILL at random moments, the same command again: every probe answered, none recorded twice."""
    rng, run = random.Random(11), tmp_path / "run.db"
    total = len(load_plan(suite_file).trials)
    with Phantom(Behaviour(recall=1.0)) as phantom:
        command = [sys.executable, "-m", "bunny_probe", "run", str(suite_file), "--endpoint", phantom.url]
        command += ["--run", str(run), "--concurrency", "2"]
        for _ in range(2):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 30
            wanted = rng.randint(1, total - 2)
            while time.monotonic() < deadline and process.poll() is None:
                if run.exists() and _observed(run) >= min(wanted, total - 1):
                    break
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert cli(*command[3:]).returncode == 0
    rows = frame(run)
    assert len(rows) == total
    assert rows["answered"].all()
    assert not rows.duplicated(["probe_id", "decoding_id", "repeat"]).any()
    assert rows["score"].notna().all()
    with Store(run, write=False) as store:
        counts = store.counts()
    assert counts["attempts"] == counts["observations"] == total


def _observed(run: Path) -> int:
    from bunny_probe.errors import RunError

    try:
        with Store(run, write=False) as store:
            return store.counts()["observations"]
    except RunError:
        return 0


def test_an_export_puts_no_answer_beside_another_prompt(
    phantom: Phantom, suite_file: Path, tmp_path: Path
) -> None:
    """With another tokenizer the prompts would not be those that were sent: refused, no file is left."""

    run, out = tmp_path / "run.db", tmp_path / "out.jsonl"
    whom = Target(endpoint=phantom.url, model=phantom.model)
    observe(load_plan(suite_file), whom, run, mode="none", concurrency=8)
    tokenizer = tmp_path / "tokenizer.json"
    other_tokenizer(tokenizer)
    for observed in (False, True):
        with pytest.raises(UsageError, match="--tokenizer"):
            export_source(
                str(run), "jsonl", out, Target(phantom.url, phantom.model, tokenizer=str(tokenizer)),
                with_observations=observed,
            )  # fmt: skip
    assert not out.exists()
    assert export_source(str(run), "jsonl", out, whom, with_observations=True) == 21


def test_a_proxy_of_the_environment_is_not_for_loopback(
    phantom: Phantom, suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither requests nor counts of tokens go through it."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    whom = Target(endpoint=phantom.url, model=phantom.model)
    made = observe(load_plan(suite_file), whom, tmp_path / "run.db", mode="none")
    assert made.summary is not None
    assert made.summary.answered == 21


def other_tokenizer(path: Path) -> None:
    """One token a character, and the plainest of chat templates."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    made.save(str(path))
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    path.with_name("chat_template.jinja").write_text(template, "utf-8")
