"""What people and disks do wrong is one line that names the thing, and no exit code that reads as a verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from releases import file_release, observations

from bunny_probe.cli import main
from bunny_probe.releases.summary import RESULTS, SUMMARY

Run = Callable[..., tuple[int, str, str]]


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
