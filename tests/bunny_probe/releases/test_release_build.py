"""Building a release against the phantom: what is kept, what a kill leaves, what a key never reaches."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from releases import notebook

from bunny_probe.errors import RunLocked, UsageError
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.releases import (
    Index,
    asked_endpoints,
    build,
    gate,
    load_results,
    load_rules,
    make_request,
)
from bunny_probe.releases.history import compare_releases
from bunny_probe.releases.hygiene import child_environment, scrub, secret_values
from bunny_probe.releases.job import read_json
from bunny_probe.releases.notebook import find_notebook
from bunny_probe.resources import resource_dir

CANARY = 'sk-canary-"7f3a\\91c2'
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_release_keeps_everything_and_no_key(tmp_path: Path, suite_file: Path, cli: Cli) -> None:
    """A notebook prints the environment, another fails, an endpoint is not there: each is kept and told."""
    leaky = notebook(
        tmp_path / "leaky.ipynb",
        "import os\nprint(type(release).__name__, release, sorted(os.environ.items()), os.environ[key_env])",
    )
    broken = notebook(tmp_path / "broken.ipynb", "print('before')", "raise ValueError('on purpose')")
    with Phantom(Behaviour(name="a"), api_key=CANARY) as phantom:
        done = cli(
            "release", "2024_01", "-e", f"prod={phantom.url}", "-e", "gone=http://127.0.0.1:9/v1",
            "--model", "gone=m", "--key-env", "PROD_KEY", "--notebooks", f"{leaky},{broken}",
            "--suite", suite_file, "--runs", tmp_path / "runs", "-c", "4", "--json",
            PROD_KEY=CANARY, OTHER_API_TOKEN="canary-of-another-kind",
        )  # fmt: skip
        assert phantom.stats.snapshot()["prompts_answered_twice"] == 0
    assert done.returncode == 1, done.stderr
    assert "broken.ipynb failed in cell" in done.stderr
    told = json.loads(done.stdout)
    assert (told["state"], told["release"]) == ("partial", "2024_01")
    assert set(told["failed"]) == {"prod/leaky", "prod/broken", "gone"}
    assert "127.0.0.1:9" in told["failures"]["gone"]
    folder = Path(told["folder"])
    assert folder.parent.name == "2024_01"
    place = folder / "prod"
    assert len(load_results(place)) == 21
    summary = read_json(place / "summary.json")
    assert summary["metrics"]["recall"]["value"] == 1.0
    assert summary["simulated"]
    assert summary["reported_models"]
    assert read_json(place / "leaky" / "params.json")["release"] == "2024_01"
    assert "str 2024_01" in (place / "leaky" / "report.html").read_text("utf-8")
    assert "a cell showed a credential" in read_json(place / "leaky" / "job.json")["error"]
    kept = (place / "broken" / "report.html").read_text("utf-8")
    assert "before" in kept
    assert "on purpose" in kept
    assert "print(" not in kept
    assert read_json(folder / "environment.json")["packages"]["pandas"]
    secrets = (CANARY, json.dumps(CANARY)[1:-1], "canary-of-another-kind", "7f3a")
    for path in (p for p in (tmp_path / "runs").rglob("*") if p.is_file()):
        content = path.read_bytes()
        for secret in secrets:
            assert secret.encode() not in content, path
    for secret in secrets:
        assert secret not in done.stdout + done.stderr


def test_a_kill_leaves_the_truth_and_the_same_again_finishes(
    tmp_path: Path, suite_file: Path, cli: Cli
) -> None:
    """SIGKILL between two notebooks: interrupted, the children end, and only the rest is done again."""
    go_on, runs = tmp_path / "go-on", tmp_path / "runs"
    quick = notebook(tmp_path / "quick.ipynb", "print('quick')")
    slow = notebook(
        tmp_path / "slow.ipynb",
        f"import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(.05)\nprint('slow')",
    )
    with Phantom(Behaviour()) as phantom:
        command: list[Any] = [
            "release", "1.10", "-e", f"prod={phantom.url}", "--suite", suite_file, "--runs", runs,
            "--notebooks", f"{quick},{slow}", "--jobs", "1",
        ]  # fmt: skip
        request = make_request(
            "1.10", asked_endpoints([f"prod={phantom.url}"]), notebooks=[str(quick), str(slow)],
            suites=[str(suite_file)], root=runs,
        )  # fmt: skip
        child = subprocess.Popen(
            [sys.executable, "-m", "bunny_probe", *map(str, command)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        pid_file = _wait_for(lambda: next(iter(runs.glob("1.10/*/prod/slow/pid")), None))
        _wait_for(lambda: pid_file.read_text().isdecimal() or None)
        assert [entry.state for entry in Index(runs).entries()] == ["running"]
        with pytest.raises(RunLocked, match=f"being built by process {child.pid}"):
            build(request)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert [(entry.release, entry.state) for entry in Index(runs).entries()] == [("1.10", "interrupted")]
        kernel = int(pid_file.read_text())
        _wait_for(lambda: None if _runs(kernel) else True)
        asked = phantom.stats.snapshot()["requests"]
        report = pid_file.parents[1] / "quick" / "report.html"
        written = report.stat().st_mtime_ns
        go_on.touch()
        assert cli(*command).returncode == 0
        assert report.stat().st_mtime_ns == written
        (entry,) = Index(runs).entries()
        assert (entry.state, entry.failed) == ("done", ())
        assert "slow" in (pid_file.parents[1] / "slow" / "report.html").read_text("utf-8")
        again = build(request)
        assert (again.entry.state, again.resumed, len(again.reports)) == ("done", True, 2)
        assert phantom.stats.snapshot()["requests"] == asked
        assert len(Index(runs).entries()) == 1
        with Held(runs / entry.folder), pytest.raises(RunLocked, match="another process"):
            build(request)


SUITE = """
name = "gate"
description = "Two lengths"
seed = 3

[[probe]]
family = "length"
task = "single"
lengths = [200]
samples = 20

[[probe]]
family = "length"
task = "single"
lengths = [400]
samples = 110
"""


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks count as done: the numbers are what is looked at."""

    def done(jobs: Iterable[Any], *_: Any) -> Iterator[tuple[Any, str]]:
        return iter([(job, "") for job in jobs])

    monkeypatch.setattr("bunny_probe.releases.building.run_jobs", done)


def test_a_planted_regression_stops_the_release(tmp_path: Path, no_kernel: None, cli: Cli) -> None:
    """From the phantom to the exit code: ten points of recall at one length are refused, the same passes."""
    suite = tmp_path / "gate.toml"
    suite.write_text(SUITE, "utf-8")
    usual = Behaviour(name="m", recall=0.98)
    states = {"1.9": usual, "1.10": usual, "1.11": Behaviour(name="m", recall="0.98 - 0.1 * (L > 300)")}
    runs = tmp_path / "runs"
    plain = notebook(tmp_path / "plain.ipynb", "1")
    for release, behaviour in states.items():
        with Phantom(behaviour) as phantom:
            asked = asked_endpoints([f"prod={phantom.url}"])
            request = make_request(
                release, asked, notebooks=[str(plain)], suites=[str(suite)], root=runs, concurrency=8
            )
            assert build(request).entry.state == "done"
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nmetric = "recall@*"\ncompare = "baseline"\nnot_worse_by = 0.03\n', "utf-8")
    assert gate(Index(runs), "1.10", load_rules(rules), baseline="1.9").passed
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    done = cli(
        "releases", "gate", "1.11", "--rules", rules, "--baseline", "1.9", "--runs", runs,
        "--junit", junit, "--markdown", markdown, "--json",
    )  # fmt: skip
    assert done.returncode == 1
    assert "does not pass rules.toml" in done.stderr
    assert {check["metric"] for check in json.loads(done.stdout)["checks"] if check["blocks"]} == {"recall@400"}
    assert "<failure" in junit.read_text("utf-8")
    assert "does not pass" in markdown.read_text("utf-8")
    told = compare_releases(Index(runs), "1.9", "1.11")["endpoints"]["prod"]["metrics"]
    assert {item["measure"]: item["verdict"] for item in told}["recall@400"] == "worse"


def test_what_cannot_be_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    """Unknown notebooks, parameters and suites; nothing is written."""
    engine = asked_endpoints(["engine"])
    with pytest.raises(UsageError, match="Did you mean 'diagnose'"):
        make_request("1", engine, notebooks=["diagnos"])
    with pytest.raises(UsageError, match="no notebook takes a parameter 'colour'"):
        make_request("1", engine, settings={"colour": 1})
    with pytest.raises(UsageError, match="Choices"):
        make_request("1", engine, suites=["no-such-suite"])
    bad = tmp_path / "bad.ipynb"
    bad.write_text("{}", "utf-8")
    with pytest.raises(UsageError, match=r"bad\.ipynb"):
        make_request("1", engine, notebooks=[str(bad)])


def test_bundled_notebooks_take_what_a_release_gives() -> None:
    """Each declares its parameters as papermill reads them, as JSON values."""
    for path in resource_dir("notebooks").glob("*.ipynb"):
        json.dumps(find_notebook(path.stem).parameters, allow_nan=False)


def test_children_see_no_credential_that_is_not_theirs(tmp_path: Path) -> None:
    """By custom of their names; what a child wrote all the same is blotted out."""
    environment = {
        "OPENAI_API_KEY": "sk-one-two-three",
        "PROD_KEY": "abc",
        "HOME": "/h",
        "GIT_TOKEN": "tok-12345678",
    }
    (asked,) = asked_endpoints(["http://127.0.0.1:1/v1"], key_envs=["PROD_KEY"])
    assert child_environment([asked.target], environment) == {"PROD_KEY": "abc", "HOME": "/h"}
    (tmp_path / "log.txt").write_text("x sk-one-two-three y tok-12345678", "utf-8")
    assert scrub(tmp_path, secret_values([asked.target], environment)) == ["log.txt"]
    assert (tmp_path / "log.txt").read_text("utf-8") == "x [redacted] y [redacted]"


def _wait_for(found: Callable[[], Any], seconds: float = 60) -> Any:
    limit = time.monotonic() + seconds
    while (value := found()) is None:
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.05)
    return value


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Held:
    """The lock of a release's folder, held by this process."""

    def __init__(self, folder: Path) -> None:
        from bunny_probe.runs.lock import WriterLock

        self.lock = WriterLock(folder / "release")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.lock.release()
