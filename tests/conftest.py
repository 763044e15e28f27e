"""What several test modules need: a small suite, a phantom, the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
def cli() -> Cli:
    """Runs `bunny-probe` as a user does, in a process of its own."""

    def call(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bunny_probe", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=110,
            env={**os.environ, "COLUMNS": "100", **environment},
        )

    return call
