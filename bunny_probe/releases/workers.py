"""Runs notebooks as child processes, a few at a time; one that fails or hangs does not stop the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bunny_probe.campaign import SETTLED_VARIABLE
from bunny_probe.progress import PROGRESS_VARIABLE
from bunny_probe.releases.hygiene import child_environment
from bunny_probe.releases.job import JOB, read_json
from bunny_probe.targets import Target

__all__ = ["Job", "run_jobs"]

_POLL = 0.1  # seconds
_LOG = "log.txt"


@dataclass(frozen=True, slots=True)
class Job:
    name: str  # "endpoint/notebook"
    folder: Path
    settled: Path  # the run file, which is only read
    targets: tuple[Target, ...]  # whose credentials the notebook may need
    timeout: float  # seconds
    threads: int  # of the numerical libraries
    params: dict[str, Any]
    spec: dict[str, Any]


@dataclass(slots=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    begun: float


def run_jobs(
    jobs: Sequence[Job], at_once: int, on_status: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Job, str]]:
    """Yield each job as it ends, with why it failed ("" when it did not). Children end with the caller."""
    waiting, running = list(jobs), list[_Running]()
    done = 0
    try:
        while waiting or running:
            while waiting and len(running) < max(at_once, 1):
                running.append(_start(waiting.pop(0)))
            ended = [item for item in running if item.process.poll() is not None or _late(item)]
            if not ended:
                time.sleep(_POLL)
            for item in ended:
                running.remove(item)
                why = _verdict(item)
                done += 1
                seconds = time.monotonic() - item.begun
                on_status(f"{done}/{len(jobs)} {item.job.name}: {why or 'done'} ({seconds:.0f} s)")
                yield item.job, why
    finally:
        for item in running:
            _stop(item.process)


def _start(job: Job) -> _Running:
    environment = child_environment(job.targets)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment.setdefault(name, str(job.threads))
    environment |= {SETTLED_VARIABLE: str(job.settled.resolve()), PROGRESS_VARIABLE: "lines"}
    with (job.folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bunny_probe.releases.job", str(job.folder.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches us alone, and we stop the children with their kernels
        )
    return _Running(job, process, time.monotonic())


def _late(item: _Running) -> bool:
    if time.monotonic() - item.begun < item.job.timeout:
        return False
    _stop(item.process)
    return True


def _verdict(item: _Running) -> str:
    code = item.process.returncode
    if code == 0:
        return ""
    try:
        told = str(read_json(item.job.folder / JOB).get("error") or "")
    except (OSError, ValueError):
        told = ""
    if told:
        return told
    if time.monotonic() - item.begun >= item.job.timeout:
        return f"not done after {item.job.timeout:.0f} s: stopped"
    log = (item.job.folder / _LOG).read_text("utf-8", "replace").strip().splitlines()
    return f"ended with status {code}" + (f": {log[-1]}" if log else "")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The child and its kernel: they are a session of their own."""
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(3)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except ProcessLookupError:
        process.wait()
