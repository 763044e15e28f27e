"""`bunny-probe window`, as a person and a program meet it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from bunny_probe.phantom import Behaviour, Phantom

Cli = Callable[..., "CompletedProcess[str]"]


def test_the_window_is_found_by_length(cli: Cli, tmp_path: Path) -> None:
    """One line for a person, each step on the other stream; again it asks nothing and says the same as JSON."""
    with Phantom(Behaviour(recall="where(L < 1500, 0.98, 0.05)", wrong_anchor=0.0)) as phantom:
        asked = ("window", "--run", tmp_path / "run.db", "--endpoint", phantom.url, "--width", "2.5")
        done = cli(*asked)
        requests = phantom.stats.snapshot()["requests"]
        again = cli(*asked, "--json")
        assert phantom.stats.snapshot()["requests"] - requests <= 3  # the list of models, no prompt
    assert done.returncode == 0
    assert done.stdout.startswith("The window is ")
    assert done.stdout.count("\n") == 1
    assert "tell most for their price" in done.stderr
    told = json.loads(again.stdout)
    assert told["sentence"] == done.stdout.strip()
    window = told["belief"]["window"]
    assert window["low"] <= 1500 <= window["high"]


def test_the_last_tokens_that_count_are_found_by_depth(cli: Cli, tmp_path: Path) -> None:
    """With --by depth all prompts have one length, and the answer is a distance from their end."""
    with Phantom(Behaviour(recall="where(L * (1 - depth) < 700, 0.98, 0.05)", wrong_anchor=0.0)) as phantom:
        done = cli(
            "window", "--run", tmp_path / "run.db", "--endpoint", phantom.url, "--by", "depth",
            "--prompt", "2000", "--concurrency", "4", "--json",
        )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["sentence"].startswith("The last tokens that count are ")
    assert told["from_end"] is True
    assert told["tokens_spent"] % 2000 == 0
    assert told["tokens_spent"] <= 40 * 2000
    assert told["belief"]["window"]["low"] <= 700 * 1.1  # the phantom counts depth from the fact's start
    assert told["belief"]["window"]["high"] >= 700 * 0.9


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--by", "width"), "--by width: the search goes by 'length' or by 'depth'"),
        (("--by", "depth"), "add --prompt TOKENS"),
        (("--prompt", "4000"), "add --by depth"),
        (("--by", "depth", "--prompt", "4000", "--longest", "5000"), "before the end of --prompt 4,000"),
        (("--by", "depth", "--prompt", "4000", "--shortest", "4000"), "must be below --longest 4,000"),
        (("--shortest", "100"), "a prompt has at least 256 tokens"),
        (("--shortest", "900", "--longest", "800"), "--shortest 900 must be below --longest 800"),
        (("--budget", "1000"), "4 prompts are 2,048 tokens"),
        (("--by", "depth", "--prompt", "32000", "--budget", "100000"), "4 prompts are 128,000 tokens"),
    ],
)
def test_options_that_contradict_each_other_are_told_before_anything_is_asked(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    """Exit code 2, the reason with the way out, and no run file."""
    done = cli("window", "--run", tmp_path / "run.db", "--endpoint", "http://127.0.0.1:9/v1", *options)
    assert done.returncode == 2
    assert why in " ".join(done.stderr.split())
    assert not (tmp_path / "run.db").exists()
