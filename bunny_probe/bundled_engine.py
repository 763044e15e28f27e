"""Runs the bundled engine as a child process, for as long as a block lasts.

The library never imports the engine: it starts `bunny-engine serve` on a free loopback port, waits for its
ready file, and talks to it over HTTP like to any other endpoint.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bunny_probe.errors import EndpointUnreachable, MissingExtra, UsageError

__all__ = ["BundledEngine", "bundled_engine", "run_engine"]


@dataclass(frozen=True, slots=True)
class BundledEngine:
    """Where the running engine answers."""

    url: str  # base URL, with /v1
    model: str  # the name it serves
    pid: int


@contextmanager
def bundled_engine(
    model: str | None = None,
    *,
    arguments: Sequence[str] = (),
    on_status: Callable[[str], None] = lambda _: None,
    start_timeout: float = 300.0,
) -> Iterator[BundledEngine]:
    """Start the engine, yield where it answers, and stop it at the end, also on Ctrl-C.

    `model` is a name, a GGUF file or a Hugging Face folder; None is the default model, which is fetched
    when it is not there yet. `arguments` are further options of `bunny-engine serve`.

    Raises MissingExtra when the engine is not installed, EndpointUnreachable when it does not come up; the
    message ends with what the engine said last.
    """
    _check_installed()
    with tempfile.TemporaryDirectory(prefix="bunny-engine-") as folder:
        ready, log = Path(folder) / "ready.json", Path(folder) / "engine.log"
        command = [sys.executable, "-m", "bunny_engine", "serve", "--port", "0", "--ready-file", str(ready)]
        command += ["--parent-pid", str(os.getpid())]
        if model:
            command += ["--model", model]
        on_status("starting the bundled engine")
        with log.open("wb") as sink:
            # Its own session: Ctrl-C in the terminal reaches us alone, and we stop it in good order.
            process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield _wait_until_ready(process, ready, log, start_timeout)
        finally:
            _stop(process)


def run_engine(*arguments: str, timeout: float = 1800.0) -> str:
    """What `bunny-engine ARGUMENTS` prints. Raises MissingExtra, UsageError with what it said last."""
    _check_installed()
    command = [sys.executable, "-m", "bunny_engine", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"bunny-engine {arguments[0]} did not end within {timeout:.0f} s") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise UsageError(f"bunny-engine {arguments[0]}: {' | '.join(said[-4:]) or 'it said nothing'}")
    return done.stdout


def _check_installed() -> None:
    if importlib.util.find_spec("bunny_engine") is None or importlib.util.find_spec("torch") is None:
        raise MissingExtra("torch and the engine's server", "engine", "the bundled engine")


def _wait_until_ready(
    process: subprocess.Popen[bytes], ready: Path, log: Path, timeout: float
) -> BundledEngine:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if ready.exists():
            told = json.loads(ready.read_text("utf-8"))
            url = str(told["url"]).rstrip("/")
            return BundledEngine(
                url=url if url.endswith("/v1") else f"{url}/v1", model=str(told["model"]), pid=process.pid
            )
        if process.poll() is not None:
            raise EndpointUnreachable(
                f"the bundled engine ended with status {process.returncode} at its start: {_last_words(log)}"
            )
        time.sleep(0.05)
    raise EndpointUnreachable(f"the bundled engine was not ready after {timeout:.0f} s: {_last_words(log)}")


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return " | ".join(lines[-4:]) or "it said nothing"


def _stop(process: subprocess.Popen[bytes], patience: float = 5.0) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
