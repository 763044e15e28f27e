"""The index of releases: only grows, survives kills and torn lines, and tells the truth about the dead."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bunny_probe.errors import UsageError
from bunny_probe.releases import Entry, Index, asked_endpoints, folder_name
from bunny_probe.releases.index import alive, process_identity


def entry(number: int = 1, **changes: object) -> Entry:
    made = Entry(
        id=f"id{number}", release="1.10", arguments="a", folder="1.10/x", state="running",
        started=f"2026-01-01T00:00:{number:02}", at="", endpoints=("prod",), notebooks=("diagnose",),
        process=process_identity(),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_the_latest_line_of_a_run_is_its_state(tmp_path: Path) -> None:
    """Lines are added, never changed; a run's last one counts."""
    index = Index(tmp_path / "deep" / "runs")
    assert index.entries() == []
    index.append(entry())
    first = index.path.read_bytes()
    assert index.entries()[0].state == "running"
    index.append(entry(state="done"))
    assert index.path.read_bytes().startswith(first)
    (found,) = index.entries()
    assert (found.state, found.release) == ("done", "1.10")


def test_a_dead_process_leaves_an_interrupted_run(tmp_path: Path) -> None:
    """By its id and its start: neither a dead one nor another one under the same id passes for it."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = process_identity(child.pid)
    assert alive(identity)
    index = Index(tmp_path)
    index.append(entry(process=identity))
    assert index.entries()[0].state == "running"
    child.communicate(b"\n")
    assert not alive(identity)
    assert index.entries()[0].state == "interrupted"
    boot, pid, start = process_identity().split(":")
    assert not alive(f"{boot}:{pid}:{int(start) + 1}")
    assert not alive(f"otherboot:{pid}:{start}")
    assert not alive("")


@pytest.mark.parametrize(
    "torn", [b'{"kind": "run", "id": "id2", "rel', b"\x00\xff\xfe", b"[]\n", b'{"kind": "run"}\n']
)
def test_a_torn_line_is_stepped_over(tmp_path: Path, torn: bytes) -> None:
    """What was told before and after it still holds."""
    index = Index(tmp_path)
    index.append(entry())
    with index.path.open("ab") as file:
        file.write(torn)
    assert [found.id for found in index.entries()] == ["id1"]
    index.append(entry(3, state="done"))
    assert [(found.id, found.state) for found in index.entries()] == [("id1", "running"), ("id3", "done")]


def test_many_writers_lose_no_line(tmp_path: Path) -> None:
    """Eight at once, fifty lines each: four hundred whole lines."""

    def write(number: int) -> None:
        for i in range(50):
            Index(tmp_path).append(entry(number, state="failed", reason="x" * (100 * i)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    lines = Index(tmp_path).path.read_text("utf-8").splitlines()
    assert len(lines) == 400
    assert all(json.loads(line)["kind"] == "run" for line in lines)


def test_a_baseline_is_pinned_by_name(tmp_path: Path) -> None:
    """The last pin counts; a release that is not there, or not done, cannot be pinned."""
    index = Index(tmp_path)
    index.append(entry(state="done"))
    index.append(entry(2, release="2.0"))
    assert index.baseline() is None
    index.pin("1.10", "now")
    assert index.baseline() == "1.10"
    with pytest.raises(UsageError, match="is running"):
        index.pin("2.0", "now")
    with pytest.raises(UsageError, match=r"Did you mean '1\.10'"):
        index.pin("1.1", "now")
    assert index.of("1.10/id1").id == "id1"


@given(
    st.lists(st.text(min_size=1, max_size=130).filter(lambda text: bool(text.strip())), min_size=2, max_size=6)
)
@settings(max_examples=200)
def test_any_release_has_a_folder_of_its_own(texts: list[str]) -> None:
    """No separator, no parent, no reserved name; different texts, different folders."""
    names = [folder_name(text) for text in texts]
    assert len(set(names)) == len(set(texts))
    for name in names:
        assert "/" not in name
        assert "\\" not in name
        assert "\x00" not in name
        assert not name.startswith(".")
        assert len(name) <= 110
        assert name.lower() not in ("site", "sample", "index.jsonl")


def test_release_strings_are_kept_as_typed() -> None:
    """Versions and dates are names, not numbers."""
    for text in ("1.10", "2024_01", "v2.0-rc.1", "1e3", "007"):
        assert folder_name(text) == text
    assert folder_name("feature/x") == "feature%2Fx"
    with pytest.raises(UsageError, match="needs a name"):
        folder_name("  ")


def test_endpoints_are_named_once() -> None:
    """By NAME=URL, else by model or host; an option is for all or for one."""
    found = asked_endpoints(
        ["prod=https://a.example/v1?x=1", "engine", "http://b:8000/v1"],
        models=["prod=big", "small"], key_envs=["prod=KEY_A"],
    )  # fmt: skip
    assert [item.name for item in found] == ["prod", "engine", "small"]
    assert [item.target.model for item in found] == ["big", "small", "small"]
    assert [item.target.key_env for item in found] == ["KEY_A", None, None]
    assert found[0].target.endpoint == "https://a.example/v1?x=1"
    assert asked_endpoints(["http://b:8000/v1"])[0].name == "b:8000"
    with pytest.raises(UsageError, match="two endpoints"):
        asked_endpoints(["engine", "engine"])
    with pytest.raises(UsageError, match="prd"):
        asked_endpoints(["prod=http://a/v1"], models=["prd=x", "prod=y"])
