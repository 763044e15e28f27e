"""The command line as a person or a program starts it: real processes, a tiny model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tiny_models
from bunny_engine.cli import app
from typer.testing import CliRunner

PROGRAM = [sys.executable, "-m", "bunny_engine.cli"]


@contextmanager
def serving(model: Path, ready: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*PROGRAM, "serve", "--model", str(model), "--port", "0", "--ready-file", str(ready), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while not ready.exists():
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                assert time.monotonic() < deadline
                time.sleep(0.02)
            told = json.loads(ready.read_text())
            assert told["pid"] == process.pid
            yield process, told["url"]
        finally:
            process.kill()


def get(url: str) -> tuple[int, dict[str, object]]:
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.status, json.loads(response.read())


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_serves_and_ends_on_a_signal(
    tiny: tiny_models.TinyModel, tmp_path: Path, ending: signal.Signals
) -> None:
    """A free port, a ready file, an answer; a signal ends it with code 0 and takes the file away."""
    ready = tmp_path / "ready.json"
    with serving(tiny.gguf, ready, "--threads", "1") as (process, url):
        status, models = get(f"{url}/v1/models")
        assert status == 200
        assert models["data"][0]["id"] == "llama"  # type: ignore[index]
        process.send_signal(ending)
        assert process.wait(20) == 0
        assert not ready.exists()


def test_ends_with_its_parent(tiny: tiny_models.TinyModel, tmp_path: Path) -> None:
    """With --parent-pid, no server is left when that process is gone."""
    with (
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as parent,
        serving(tiny.gguf, tmp_path / "ready.json", "--parent-pid", str(parent.pid)) as (process, url),
    ):
        assert get(f"{url}/health")[0] == 200
        parent.kill()
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["serve", "--host", "0.0.0.0"], "--api-key-env"),
        (["serve", "--api-key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
        (["serve", "--dtype", "int3"], "bfloat16"),
        (["serve", "--device", "abacus"], "cuda"),
        (["serve", "--model", "nothing-of-this-name"], "smollm2-135m-instruct"),
        (["info", "--model", "nothing-of-this-name"], "smollm2-135m-instruct"),
    ],
)
def test_mistakes_are_one_line_and_code_2(arguments: list[str], told: str) -> None:
    """An option that cannot be is refused with what can be, before any weights are loaded."""
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_info_is_json_for_a_program(tiny: tiny_models.TinyModel) -> None:
    """`info --json` states the sizes that the file states."""
    done = CliRunner().invoke(app, ["info", "--model", str(tiny.gguf), "--json"])
    facts = json.loads(done.stdout)
    assert (facts["layers"], facts["heads"], facts["kv_heads"], facts["vocab"]) == (2, 4, 2, tiny_models.VOCAB)
    assert facts["name"] == "llama"


def test_info_shows_bits_layer_by_layer(tiny: tiny_models.TinyModel) -> None:
    """What `serve` says when it loads a table of forms, before anything is converted."""
    table = "int8,mlp=int4,layers.0.*=bf16"
    done = CliRunner().invoke(app, ["info", "--model", str(tiny.gguf), "--weights", table, "--json"])
    embed, first, second = json.loads(done.stdout)["weights"]
    assert embed.startswith("bits a weight: embed 8")
    assert first == "layers 0: " + ", ".join(
        f"{name} 16 (bfloat16)" for name in ("qkv", "out", "gate_up", "down")
    )
    assert second.startswith("layers 1: qkv 8.")
    assert "down 5 (int4)" in second


def test_every_command_explains_itself() -> None:
    """Each command has a help text, and each of its options too."""
    import typer.main

    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert command.help, name
        for option in command.params:
            assert getattr(option, "help", None), f"{name} {option.name}"


def test_the_parent_of_this_test_is_alive() -> None:
    """The watcher tells a living process from one that is gone."""
    from bunny_engine.serving import _alive

    assert _alive(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        deadline = time.monotonic() + 20
        while _alive(child.pid):  # a zombie from its end on, until it is waited for
            assert time.monotonic() < deadline
            time.sleep(0.01)
