"""The command line as a person and as a program meets it."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from bunny_probe.phantom import Phantom
from bunny_probe.records import canonical_json

Cli = Callable[..., "CompletedProcess[str]"]
CONTRACT = [
    "id", "family", "task", "language", "domain", "messages", "expected", "length_tokens", "depth", "seed",
    "max_tokens",
]  # fmt: skip


@pytest.fixture
def run_file(cli: Cli, suite_file: Path, tmp_path: Path, phantom: Phantom) -> Path:
    """A finished run of the small suite."""
    path = tmp_path / "run.db"
    done = cli("run", suite_file, "--endpoint", phantom.url, "--run", path, "-c", "4", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["trials"], told["asked"], told["outcomes"]) == (21, 21, {"answered": 21})
    return path


def test_every_command_has_a_help_a_person_can_use(cli: Cli) -> None:
    """`--help` lists the commands; each command's own help names its options."""
    listing = cli("--help")
    assert listing.returncode == 0
    for command in ("plan", "run", "diagnose", "fit", "score", "export"):
        assert re.search(rf"\b{command}\b", listing.stdout), command
    assert "Exit codes" in listing.stdout
    assert "--key-env" in cli("run", "--help").stdout


def test_plan_sends_nothing_and_counts_everything(cli: Cli, suite_file: Path) -> None:
    """Calls, tokens, time and money before anything is sent."""
    told = json.loads(cli("plan", suite_file, "--price", "1/0", "--json").stdout)
    assert told["trials"] == 21
    assert told["prompt_tokens"] == 6 * 400 + 6 * 800 + 9 * 600
    assert told["dollars_at_most"] == pytest.approx(told["prompt_tokens"] / 1e6)
    assert "21 requests" in cli("plan", suite_file).stdout
    assert "diagnose-quick" in json.loads(cli("plan", "--json").stdout)


def test_fit_gives_every_number_with_interval_and_n(cli: Cli, run_file: Path) -> None:
    """For a program JSON, for a person sentences."""
    told = json.loads(cli("fit", run_file, "--json").stdout)
    (estimates,) = told.values()
    assert set(estimates) == {"outcomes", "decay", "window", "recall", "stress", "entropy"}
    overall = estimates["recall"]["overall"]
    assert overall["value"] == 1.0
    assert overall["low"] < 1.0
    assert overall["n"] == 9
    assert estimates["stress"]["status"] == "refused"
    assert "95% interval" in cli("fit", run_file).stdout


def test_fit_of_a_run_that_is_not_scored_names_the_way_out(cli: Cli, run_file: Path) -> None:
    """An interrupt comes before the scoring: what no number counts is told, with the command that mends it."""
    assert "warning" not in cli("fit", run_file).stderr
    with closing(sqlite3.connect(run_file)) as db, db:
        db.execute("DELETE FROM scores")
    told = cli("fit", run_file)
    assert "21 of 21 observations are not scored" in told.stderr
    assert f"`bunny-probe score {run_file}`" in told.stderr
    with closing(sqlite3.connect(run_file)) as db, db:
        db.executescript("DELETE FROM observations; DELETE FROM attempts")
    assert "holds no observation yet: `bunny-probe run" in cli("fit", run_file).stderr


def test_export_keeps_the_contract(cli: Cli, run_file: Path, tmp_path: Path, phantom: Phantom) -> None:
    """One object a line, the contract's keys first and in order; prompts are those that were sent."""
    out = tmp_path / "probes.jsonl"
    done = cli("export", run_file, "--format", "jsonl", "--endpoint", phantom.url, "--out", out)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert len(lines) == 21
    for line in lines:
        assert list(line)[: len(CONTRACT)] == CONTRACT
        assert line["expected"][0] in line["messages"][-1]["content"]
    sent = {hashlib.sha256(canonical_json(line["messages"]).encode()).hexdigest() for line in lines}
    assert sent == set(phantom.stats.prompts)
    with_answers = cli("export", run_file, "--with-observations", "--endpoint", phantom.url)
    rows = [json.loads(line) for line in with_answers.stdout.splitlines()]
    assert list(rows[0])[len(CONTRACT) : len(CONTRACT) + 4] == ["outcome", "text", "score", "prompt_tokens"]
    assert all(row["outcome"] == "answered" and row["score"] == 1 for row in rows)
    assert all(row["length_tokens"] == row["prompt_tokens"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["run", "no-such-suite", "--run", "x.db"], 2, "Choices:"),
        (["run", "diagnose-quick"], 2, "--run"),
        (["run", "diagnose-quick", "--run", "x.db", "--endpoint", "127.0.0.1"], 2, "is not a URL"),
        (["run", "diagnose-quick", "--run", "x.db", "--dialect", "openai"], 2, "dialect"),
        (["run", "diagnose-quick", "--run", "x.db", "--field", "x=NaN"], 2, "not JSON"),
        (["run", "diagnose-quick", "--run", "x.db", "--field", f"x={'[' * 5000}"], 2, "not JSON"),
        (["run", "diagnose-quick", "--run", "x.db", "--budget", f"{'9' * 400} tokens"], 2, "leave it out"),
        (["diagnose", "--profile", "quik"], 2, "Did you mean 'quick'"),
        (["export", "diagnose-quick", "--format", "csv"], 2, "Choices: jsonl"),
        (["export", "diagnose-quick", "--with-observations"], 2, "needs a run file"),
        (["fit", "no.db"], 2, "no.db"),
        (["score", "no.db"], 2, "no run file no.db"),
        (
            ["run", "diagnose-quick", "--run", "x.db", "-e", "http://127.0.0.1:9/v1", "-m", "m"],
            3,
            "nothing answers",
        ),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(
    cli: Cli, tmp_path: Path, arguments: list[str], code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the thing and the way out; never a traceback."""
    monkeypatch.chdir(tmp_path)
    done = cli(*arguments)
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "run.db"), 2, "run.db: No space left on device"),
        (ZeroDivisionError("sk-abcdef123456"), 70, "please report the lines above"),
        (SystemExit(1), 141, ""),  # what rich and typer make of a closed pipe
    ],
)
def test_exit_code_1_is_a_verdict_and_nothing_else(
    cli: Cli, run_file: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, code: int, told: str
) -> None:
    """A disk that fails, a fault of our own and a reader that went away have codes of their own."""

    def fail(path: Path) -> None:
        raise fault

    monkeypatch.setattr("bunny_probe.estimates.estimates", fail)
    done = cli("fit", run_file)
    assert done.returncode == code
    assert told in done.stderr
    assert "sk-abcdef" not in done.stderr


@pytest.mark.parametrize("model", [(), ("--model", "m")])
@pytest.mark.parametrize("command", ["run", "diagnose", "doctor"])
def test_a_silent_endpoint_is_left_when_the_time_is_over(
    cli: Cli, suite_file: Path, tmp_path: Path, command: str, model: tuple[str, ...]
) -> None:
    """It takes a connection and never answers: exit code 3, with the time that was waited and the way out."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        more = {
            "run": (suite_file, "--run", tmp_path / "run.db"),
            "diagnose": ("--suite", suite_file, "--out", tmp_path),
            "doctor": (),
        }
        done = cli(command, *more[command], "--endpoint", url, *model, "--timeout", "0.3")
    assert done.returncode == 3
    told = " ".join((done.stdout + done.stderr).split())
    assert "says nothing (no list of models within 0.3 s)" in told
    assert "--timeout" in told


def test_a_key_that_is_refused_is_told_and_never_shown(cli: Cli, suite_file: Path, tmp_path: Path) -> None:
    """401 ends with code 3, a missing variable is bad usage, 2; the key is in no output and no file."""
    canary = "canary-3f9a1c77e0"
    with Phantom(api_key="right") as phantom:
        arguments = ["run", suite_file, "--endpoint", phantom.url, "--model", phantom.model]
        arguments += ["--run", tmp_path / "run.db", "--key-env", "BUNNY_KEY"]
        wrong = cli(*arguments, BUNNY_KEY=canary)
        missing = cli(*arguments)
        good = cli(*arguments, BUNNY_KEY="right")
    assert (wrong.returncode, missing.returncode) == (3, 2)
    assert "BUNNY_KEY" in wrong.stderr
    assert "BUNNY_KEY" in missing.stderr
    assert good.returncode == 0, good.stderr
    assert canary not in wrong.stdout + wrong.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes()


def test_a_run_without_one_answer_is_endpoint_trouble(cli: Cli, tmp_path: Path) -> None:
    """Few probes, each put off for good: what came is kept and told, and a script must not go on."""
    suite = tmp_path / "few.toml"
    suite.write_text('[[probe]]\nfamily = "length"\ntask = "single"\nlengths = [200]\nsamples = 3\n', "utf-8")
    with Phantom(script=["rate-limit:500"] * 3) as phantom:
        command = ("run", suite, "-e", phantom.url, "-m", phantom.model, "--run", tmp_path / "run.db")
        done = cli(*command)
        assert done.returncode == 3
        assert "3 rate_limited" in done.stdout
        assert "answered nothing; the same command asks again" in done.stderr
        assert cli(*command).returncode == 0


def test_a_diagnosis_without_one_answer_is_endpoint_trouble_too(
    cli: Cli, suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is still written, for it says what came instead."""
    suite_file.write_text(
        '[[probe]]\nfamily = "length"\ntask = "single"\nlengths = [200]\nsamples = 3\n', "utf-8"
    )
    written = []
    monkeypatch.setattr("bunny_probe.reports.html.execute", lambda *_, **__: None)
    monkeypatch.setattr("bunny_probe.reports.html.write_html", lambda _, report, **__: written.append(report))
    with Phantom(script=["rate-limit:500"] * 3) as phantom:
        done = cli("diagnose", "--suite", suite_file, "-e", phantom.url, "-m", phantom.model, "--out", tmp_path)
    assert done.returncode == 3
    assert "answered nothing; the same command asks again" in done.stderr
    assert written == [tmp_path / "report.html"]


def test_a_tokenizer_that_is_not_there_is_told_even_where_nothing_is_left_to_ask(
    cli: Cli, suite_file: Path, run_file: Path, phantom: Phantom
) -> None:
    """A word mistyped is bad usage, whatever the run holds."""
    again = ("run", suite_file, "--endpoint", phantom.url, "--run", run_file)
    assert cli(*again).returncode == 0
    done = cli(*again, "--tokenizer", "nofile")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no tokenizer file at nofile" in done.stderr


def test_a_spent_budget_ends_with_its_own_code(
    cli: Cli, suite_file: Path, tmp_path: Path, phantom: Phantom
) -> None:
    """Code 4, and what came is kept."""
    run = tmp_path / "run.db"
    done = cli("run", suite_file, "--endpoint", phantom.url, "--run", run, "--budget", "3 calls")
    assert done.returncode == 4, done.stderr
    assert (
        json.loads(cli("run", suite_file, "--endpoint", phantom.url, "--run", run, "--json").stdout)["already"]
        == 3
    )
