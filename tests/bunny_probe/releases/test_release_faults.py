"""What people and disks do wrong is one line that names the thing, and no exit code that reads as a verdict."""

from __future__ import annotations

import errno
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from releases import file_release, notebook, observations

from bunny_probe.cli import main
from bunny_probe.errors import UsageError
from bunny_probe.phantom import Phantom
from bunny_probe.releases import Index, asked_endpoints, build, make_request
from bunny_probe.releases.summary import RESULTS, SUMMARY
from bunny_probe.releases.workers import Job

Run = Callable[..., tuple[int, str, str]]
ONE = """
name = "one"
description = "One probe"
seed = 7

[[probe]]
family = "length"
task = "single"
lengths = [200]
samples = 1
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line as a user has it, in this process: exit code, standard output and error."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["bunny-probe", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        code = ended.value.code
        return int(code or 0), told.out, told.err

    return call


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases that are alike; only read."""
    folder = tmp_path_factory.mktemp("whole")
    for number, release in enumerate(("1.9", "1.10")):
        file_release(folder, release, {"prod": observations(samples=5)}, started=f"2026-01-0{number + 1}")
    return folder


@pytest.fixture
def runs(whole: Path, tmp_path: Path) -> Path:
    """The same, to be damaged."""
    return shutil.copytree(whole, tmp_path / "runs")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _noise(path: Path) -> None:
    path.write_bytes(b"PAR1" + b"\xff" * 400 + b"PAR1")


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-200:-100] = b"\xaa" * 100
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _other(path: Path) -> None:
    observations(samples=1)[["text"]].to_parquet(path)


@pytest.mark.parametrize("damage", [_empty, _torn, _noise, _flipped, _folder, _other])
@pytest.mark.parametrize("command", [("gate", "1.10"), ("compare", "1.9", "1.10")])
def test_damaged_results_are_no_verdict(
    runs: Path, run: Run, command: Sequence[str], damage: Callable[[Path], None]
) -> None:
    """Exit code 2, and a line with the file and the way out: exit code 1 would read as a refusal."""
    (path,) = runs.glob(f"1.9/*/prod/{RESULTS}")
    damage(path)
    code, _, told = run("releases", *command, "--runs", runs)
    assert code == 2
    assert len(told.splitlines()) == 1
    assert str(path) in told
    assert "--anew" in told


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"metrics": 1}', "\x00"])
@pytest.mark.parametrize("command", [("releases", "show", "1.9"), ("site",)])
def test_a_damaged_summary_is_told(runs: Path, run: Run, command: Sequence[str], content: str) -> None:
    """With its file, by whatever command reads it."""
    (path,) = runs.glob(f"1.9/*/prod/{SUMMARY}")
    path.write_text(content, "utf-8")
    code, _, told = run(*command, "--runs", runs)
    assert (code, len(told.splitlines())) == (2, 1)
    assert str(path) in told


@pytest.mark.parametrize(
    ("baseline", "told"),
    [
        ("nope", r"unknown release 'nope'\. Choices: 1\.10, 1\.9, half\.$"),
        ("1.8", r"Did you mean '1\.9'"),
        ("2.0", "cannot be held to itself"),
        ("half", "'half' is failed: run `release half` again"),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_baseline_that_is_not_there_costs_nothing(
    runs: Path, tmp_path: Path, suite_file: Path, phantom: Phantom, baseline: str, told: str, begun: bool
) -> None:
    """It is told before anything is asked or written, begun before or not; the release itself is no choice."""
    file_release(runs, "half", {}, started="2026-01-03", state="failed")
    request = make_request(
        "2.0", asked_endpoints([f"prod={phantom.url}"]), notebooks=[str(notebook(tmp_path / "n.ipynb", "1"))],
        suites=[str(suite_file)], root=runs, baseline=baseline,
    )  # fmt: skip
    if begun:
        entry = file_release(
            runs, "2.0", {"prod": observations(samples=1)}, started="2026-01-04", state="partial"
        )
        Index(runs).append(replace(entry, arguments=request.arguments))
    before = Index(runs).path.read_bytes()
    with pytest.raises(UsageError, match=told):
        build(request)
    assert phantom.stats.snapshot()["requests"] == 0
    assert Index(runs).path.read_bytes() == before


def test_the_pinned_release_can_be_built_again(
    runs: Path, tmp_path: Path, phantom: Phantom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not held to itself, nor refused because it is at work; another one is held to it."""
    jobs: list[Job] = []

    def done(given: Sequence[Job], *_: object) -> list[tuple[Job, str]]:
        jobs.extend(given)
        return [(job, "on purpose") for job in given]

    monkeypatch.setattr("bunny_probe.releases.building.run_jobs", done)
    path = notebook(tmp_path / "n.ipynb", "1", parameters="baseline = ''\nbaseline_path = ''")
    suite_file = tmp_path / "one.toml"
    suite_file.write_text(ONE, "utf-8")
    held = {}
    for release in ("2.0", "2.0", "2.1"):
        request = make_request(
            release, asked_endpoints([f"prod={phantom.url}"]), notebooks=[str(path)],
            suites=[str(suite_file)], root=runs,
        )  # fmt: skip
        assert build(request).entry.state == "partial"
        Index(runs).pin("2.0", "now")
        held[release] = jobs[-1].params["baseline"]
    assert held == {"2.0": "", "2.1": "2.0"}


@pytest.mark.parametrize("model", [(), ("--model", "m")])
def test_a_release_that_reached_no_endpoint_is_endpoint_trouble(
    tmp_path: Path, suite_file: Path, run: Run, model: Sequence[str]
) -> None:
    """Exit code 3, also when two fail; the release is filed as failed with the reason."""
    path = notebook(tmp_path / "n.ipynb", "1")
    with socket.socket() as taken:  # bound and not listening: nothing answers there
        taken.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        code, _, told = run(
            "release", "1.10", "-e", f"a={gone}", "-e", f"b={gone}", *model, "--notebooks", path,
            "--suite", suite_file, "--runs", tmp_path / "runs",
        )  # fmt: skip
    assert code == 3
    assert "release 1.10 is failed" in told
    assert Index(tmp_path / "runs").entries()[0].failed == ("a", "b")


def test_a_release_that_reached_one_endpoint_is_not(
    tmp_path: Path, suite_file: Path, run: Run, phantom: Phantom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 where one endpoint or a notebook failed and the rest went on."""
    monkeypatch.setattr(
        "bunny_probe.releases.building.run_jobs", lambda jobs, *_: [(job, "on purpose") for job in jobs]
    )
    path = notebook(tmp_path / "n.ipynb", "1")
    usual = ("--notebooks", path, "--suite", suite_file, "--runs", tmp_path / "runs")
    code, _, told = run("release", "1", "-e", f"a={phantom.url}", "-e", "b=http://127.0.0.1:9/v1", *usual)
    assert code == 1
    assert "release 1 is partial" in told


def test_a_release_whose_only_run_is_damaged_is_no_verdict(
    tmp_path: Path, suite_file: Path, run: Run, phantom: Phantom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever kept every endpoint from being asked, exit code 1 would say that the model got worse."""
    monkeypatch.setattr(
        "bunny_probe.releases.building.run_jobs", lambda jobs, *_: [(job, "on purpose") for job in jobs]
    )
    path = notebook(tmp_path / "n.ipynb", "1")
    usual = ("--notebooks", path, "--suite", suite_file, "--runs", tmp_path / "runs")
    assert run("release", "1", "-e", f"a={phantom.url}", *usual)[0] == 1
    (kept,) = (tmp_path / "runs").glob("1/*/a/run.db")
    kept.write_bytes(b"x" * 4096)
    code, _, told = run("release", "1", "-e", f"a={phantom.url}", *usual)
    assert code == 3
    assert "cannot be used as a run file" in told


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--key-env", "b=BUNNY_NO_SUCH_KEY"), "BUNNY_NO_SUCH_KEY is not set or empty"),
        (("--tokenizer", "b=nofile"), "no tokenizer file at nofile"),
        (("--dialect", "b=openai"), "Choices: anthropic-messages"),
    ],
)
def test_what_an_endpoint_lacks_is_told_before_any_other_is_asked(
    tmp_path: Path, suite_file: Path, run: Run, phantom: Phantom, options: Sequence[str], reason: str
) -> None:
    """A key's variable, a tokenizer, a dialect of the second endpoint: exit code 2, nothing asked or filed."""
    endpoints = ("-e", f"a={phantom.url}", "-e", "b=https://models.example.com/v1")
    usual = ("--notebooks", notebook(tmp_path / "n.ipynb", "1"), "--suite", suite_file)
    code, _, told = run("release", "1", *endpoints, *options, *usual, "--runs", tmp_path / "runs")
    assert (code, len(told.splitlines())) == (2, 1)
    assert reason in told
    assert phantom.stats.snapshot()["requests"] == 0
    assert not Index(tmp_path / "runs").entries()


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
@pytest.mark.parametrize("place", [".", "afile/gate.xml", "n" * 300])
def test_where_a_verdict_cannot_go_is_told_before_it_is_sought(
    runs: Path, tmp_path: Path, run: Run, option: str, place: str
) -> None:
    """A folder, below a file, a name that no disk takes: exit code 2 and its name, nothing judged."""
    (tmp_path / "afile").write_text("mine", "utf-8")
    code, out, told = run("releases", "gate", "1.10", "--runs", runs, option, tmp_path / place)
    assert (code, out, len(told.splitlines())) == (2, "", 1)
    assert str(tmp_path / place) in told
    assert not list(runs.glob("*/*/gate.json"))


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_disk_that_fails_later_does_not_take_the_verdict_along(
    runs: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, as_json: Sequence[str]
) -> None:
    """It is printed all the same; the file that was not written is named."""

    def full(path: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    code, out, told = run(
        "releases", "gate", "1.10", "--runs", runs, "--junit", tmp_path / "gate.xml", *as_json
    )
    assert code == 2
    assert "Release 1.10 passes" in out
    assert f"{tmp_path / 'gate.xml'} cannot be written (No space left on device)" in told


@pytest.mark.parametrize("place", ["afile", "afile/below", "n" * 300])
def test_a_site_takes_no_file(runs: Path, tmp_path: Path, run: Run, place: str) -> None:
    """Nor a place below one; the file stays as it was."""
    (tmp_path / "afile").write_text("mine", "utf-8")
    code, _, told = run("site", "--runs", runs, "--out", tmp_path / place)
    assert (code, len(told.splitlines())) == (2, 1)
    assert str(tmp_path / place) in told
    assert (tmp_path / "afile").read_text("utf-8") == "mine"


@pytest.mark.parametrize("name", ["nodir", "n" * 300])
def test_a_site_of_no_folder_is_refused(tmp_path: Path, run: Run, name: str) -> None:
    """And no folder is made for it: the name was mistyped."""
    code, _, told = run("site", "--runs", tmp_path / name, "--out", tmp_path / "out")
    assert code == 2
    assert "there is no folder" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [("site",), *(("releases", *words) for words in (
        ("list",), ("show", "1"), ("compare", "1", "2"), ("gate", "1"), ("pin", "1")
    ))],
)  # fmt: skip
def test_a_file_is_no_folder_of_releases(tmp_path: Path, run: Run, command: Sequence[str]) -> None:
    """Each command says so, instead of that there is no release."""
    path = tmp_path / "afile"
    path.write_text("mine", "utf-8")
    code, out, told = run(*command, "--runs", path)
    assert (code, out) == (2, "")
    assert f"{path} is a file" in told


def test_an_index_that_cannot_be_read_is_told(tmp_path: Path, run: Run) -> None:
    """Rather than that there is no release."""
    (tmp_path / "index.jsonl").mkdir()
    code, out, told = run("releases", "list", "--runs", tmp_path)
    assert (code, out, len(told.splitlines())) == (2, "", 1)
    assert "index.jsonl cannot be read" in told


@pytest.mark.parametrize("place", ["afile/below", "n" * 300])
def test_a_place_that_cannot_be_made_costs_nothing(
    tmp_path: Path, suite_file: Path, run: Run, phantom: Phantom, place: str
) -> None:
    """A release is told where it cannot be filed before anything is asked."""
    (tmp_path / "afile").write_text("mine", "utf-8")
    path = notebook(tmp_path / "n.ipynb", "1")
    code, _, told = run(
        "release", "1", "-e", f"a={phantom.url}", "--notebooks", path, "--suite", suite_file,
        "--runs", tmp_path / place,
    )  # fmt: skip
    assert (code, len(told.splitlines())) == (2, 1)
    assert str(tmp_path / place) in told
    assert phantom.stats.snapshot()["requests"] == 0
