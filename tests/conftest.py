"""What several test modules need: a small suite, a phantom, the command line."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bunny_probe.cli import main
from bunny_probe.phantom import Behaviour, Phantom

# A shell that runs us in the background sets SIGINT to be ignored, and children inherit that: the tests that
# interrupt a child would wait for ever.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

SUITE = """
name = "small"
description = "Two lengths and three depths"
seed = 7

[[probe]]
family = "length"
task = "single"
lengths = [400, 800]
samples = 6

[[probe]]
family = "position"
task = "single"
lengths = [600]
depths = [0.0, 0.5, 1.0]
samples = 3
"""

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def suite_file(tmp_path: Path) -> Path:
    """A suite of 21 probes."""
    path = tmp_path / "small.toml"
    path.write_text(SUITE, "utf-8")
    return path


@pytest.fixture
def phantom() -> Iterator[Phantom]:
    """An endpoint that is always right."""
    with Phantom(Behaviour(recall=1.0, wrong_anchor=0.0)) as running:
        yield running


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs `bunny-probe` as its entry point does, but in this process: no second of imports each time. What
    only a process of its own shows (signals, a closed pipe) is for the test to start."""

    def call(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        said = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        code: object = 0
        with monkeypatch.context() as patch, redirect_stdout(said[0]), redirect_stderr(said[1]):
            patch.setattr(sys, "argv", ["bunny-probe", *map(str, arguments)])
            for name, value in {"COLUMNS": "100", **environment}.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as ended:
                code = ended.code
        texts = [stream.buffer.getvalue().decode("utf-8") for stream in said]
        return subprocess.CompletedProcess(arguments, int(code or 0), *texts)

    return call
