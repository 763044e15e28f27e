"""The index of releases: a file of JSON lines that only grows, one line a change of state.

A line is written whole under a lock, or not at all; a line that a dying machine tore is stepped over. A run
says `running` when it begins: where its process is no longer alive, that reads as `interrupted`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from bunny_probe.errors import RunError, UsageError, unknown_choice

__all__ = ["FINAL", "Entry", "Index", "State", "alive", "process_identity", "utc"]

State = Literal["running", "done", "partial", "failed", "interrupted"]
FINAL: frozenset[str] = frozenset({"done", "partial"})  # states with results to compare


@dataclass(frozen=True, slots=True)
class Entry:
    """A run of a release as its latest line tells it."""

    id: str
    release: str  # as typed
    arguments: str  # hash of what was asked for: the same again goes on with this run
    folder: str  # below the index's folder
    state: State
    started: str  # UTC, ISO 8601
    at: str  # of this line
    endpoints: tuple[str, ...]
    notebooks: tuple[str, ...]
    failed: tuple[str, ...] = ()  # "endpoint/notebook", or "endpoint" when it could not be asked
    reason: str = ""
    process: str = ""  # machine boot, process id and its start: who writes `running`
    simulated: bool = False  # the phantom answered, not a model

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Index:
    """The index at `root`/index.jsonl. Reading needs no lock. Raises UsageError where `root` is a file."""

    def __init__(self, root: Path) -> None:
        if os.path.exists(root) and not root.is_dir():  # noqa: PTH110  a name too long does not raise
            raise UsageError(f"{root} is a file: name the folder of all releases")
        self.root = root
        self.path = root / "index.jsonl"

    def append(self, entry: Entry) -> None:
        """One more line, on disk when this returns."""
        self._write({"kind": "run", **entry.to_json()})

    def pin(self, release: str, at: str) -> None:
        """Make `release` the baseline, until another one is pinned."""
        self.of(release)
        self._write({"kind": "pin", "release": release, "at": at})

    def entries(self) -> list[Entry]:
        """Every run, the oldest first, with the state that is true now."""
        latest: dict[str, Entry] = {}
        for line in self._lines():
            if line.get("kind") != "run":
                continue
            entry = _entry(line)
            if entry is not None:
                latest[entry.id] = entry
        found = [_truthful(entry) for entry in latest.values()]
        return sorted(found, key=lambda entry: (entry.started, entry.id))

    def baseline(self) -> str | None:
        """The release that was pinned last."""
        pins = [
            str(line["release"]) for line in self._lines() if line.get("kind") == "pin" and "release" in line
        ]
        return pins[-1] if pins else None

    def of(self, release: str, *, among: frozenset[str] = FINAL, besides: Entry | None = None) -> Entry:
        """The latest run of a release that has results; `RELEASE/ID` names an earlier one.

        `besides`: the run that looks for another one to be held to; its release is not offered.
        Raises UsageError that lists what there is.
        """
        entries = [e for e in self.entries() if besides is None or e.id != besides.id]
        named = [e for e in entries if e.release == release] or [
            e for e in entries if f"{e.release}/{e.id}" == release or e.id == release
        ]
        fit = [e for e in named if e.state in among]
        if fit:
            return fit[-1]
        if named:
            raise UsageError(f"release {release!r} is {named[-1].state}: run `release {release}` again")
        if besides is not None and release in (besides.release, besides.id, f"{besides.release}/{besides.id}"):
            raise UsageError(f"release {release!r} cannot be held to itself")
        own = "" if besides is None else besides.release
        raise UsageError(unknown_choice("release", release, {e.release for e in entries} - {own}))

    def before(self, entry: Entry, endpoint: str) -> Entry | None:
        """The latest finished run of another release that began before `entry` and asked `endpoint`."""
        earlier = [
            e
            for e in self.entries()
            if (e.started, e.id) < (entry.started, entry.id)
            and e.release != entry.release
            and e.state in FINAL
            and endpoint in e.endpoints
            and endpoint not in e.failed
        ]
        return earlier[-1] if earlier else None

    # ── the file ────────────────────────────────────────────────────────────────────────────────────

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            content = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror or error}") from None
        for raw in content.split(b"\n"):
            try:
                line = json.loads(raw)
            except ValueError:  # empty, or torn by a crash: the line before it still holds
                continue
            if isinstance(line, dict):
                yield line

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
        self.root.mkdir(parents=True, exist_ok=True)
        with _locked(self.root / "index.lock"):
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                size = os.fstat(file).st_size
                if size and os.pread(file, 1, size - 1) != b"\n":
                    text = b"\n" + text  # a torn line stays alone
                if os.write(file, text) != len(text):
                    raise RunError(f"{self.path}: the disk took only a part of a line")
                os.fsync(file)
            finally:
                os.close(file)


def _entry(line: dict[str, Any]) -> Entry | None:
    try:
        known = {name: line[name] for name in Entry.__dataclass_fields__ if name in line}
        for name in ("endpoints", "notebooks", "failed"):
            known[name] = tuple(known.get(name, ()))
        return Entry(**known)
    except (KeyError, TypeError):
        return None


def _truthful(entry: Entry) -> Entry:
    if entry.state == "running" and not alive(entry.process):
        return replace(entry, state="interrupted", reason="its process ended without a word")
    return entry


# ── who is alive ────────────────────────────────────────────────────────────────────────────────────


def process_identity(pid: int | None = None) -> str:
    """Machine boot, process id and the process's start, so that a reused id is not taken for the old one."""
    pid = os.getpid() if pid is None else pid
    return f"{_boot()}:{pid}:{_start(pid)}"


def alive(identity: str) -> bool:
    """Whether the process still runs. One of another machine, or before a reboot, counts as ended."""
    boot, _, rest = identity.partition(":")
    pid, _, start = rest.partition(":")
    return boot == _boot() and pid.isdecimal() and start != "" and _start(int(pid)) == start


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:13]
    except OSError:
        return sys.platform


def _start(pid: int) -> str:
    """Ticks since boot at which the process began (field 22 of its stat); empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists() or sys.platform == "win32":
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "0"
    return "0"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held for one line; waits for whoever holds it. The kernel lets go of it however the holder dies."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def utc(moment: datetime | None = None) -> str:
    """`moment` (now) in UTC, ISO 8601 to the microsecond: sorts as text."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
