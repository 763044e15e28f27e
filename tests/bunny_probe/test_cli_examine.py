"""doctor and load, as a person and a program meet them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from bunny_probe.phantom import Phantom

Cli = Callable[..., "CompletedProcess[str]"]


def test_doctor_tells_what_an_endpoint_can_do(cli: Cli, phantom: Phantom, tmp_path: Path) -> None:
    """A sound endpoint is usable, each finding has its status; the capabilities are told, and kept."""
    told = json.loads(cli("doctor", "--endpoint", phantom.url, "--json", XDG_CACHE_HOME=str(tmp_path)).stdout)
    (kept,) = tmp_path.rglob("capabilities/*.json")
    assert json.loads(kept.read_text("utf-8"))["capabilities"] == told["capabilities"]
    assert told["usable"] is True
    assert told["capabilities"]["logprobs"] is True
    assert told["capabilities"]["usage"] is True
    assert {finding["status"] for finding in told["findings"]} <= {"ok", "warning", "unknown"}


def test_doctor_of_nobody_says_so_with_code_3(cli: Cli) -> None:
    """A dead address is one line and what to do."""
    done = cli("doctor", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "nothing answers" in done.stdout + done.stderr


def test_load_states_no_percentile_that_n_cannot_carry(cli: Cli, phantom: Phantom) -> None:
    """Each cell once, its requests counted; P99 of a few requests is left open."""
    arguments = ["--lengths", "300,600", "--concurrencies", "1,2", "--requests", "5", "--warm-up", "1"]
    done = cli("load", "--endpoint", phantom.url, *arguments, "--json")
    rows = json.loads(done.stdout)
    assert [(row["prompt_tokens"], row["concurrency"]) for row in rows] == [
        (300, 1),
        (300, 2),
        (600, 1),
        (600, 2),
    ]
    assert all(row["requests"] == 5 and row["errors"] == 0 for row in rows)
    assert all(row["latency"]["p99"]["value"] is None for row in rows)
    assert phantom.stats.snapshot()["prompts_answered_twice"] == 0
    assert cli("load", "--endpoint", phantom.url, "--lengths", "1,x").returncode == 2
