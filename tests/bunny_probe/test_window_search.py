"""The adaptive search for the effective window, over real HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bunny_probe.errors import RunError
from bunny_probe.fits.adaptive import NextLength, WindowSearch
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.runs import Store
from bunny_probe.targets import Target
from bunny_probe.window_search import search_window

SEARCH = WindowSearch(shortest=400, longest=6400, width=1.0, budget=120_000)


def test_a_cliff_is_found_and_each_step_is_explained(tmp_path: Path) -> None:
    """The interval holds the true cliff, and the run says why each length was asked."""
    steps: list[NextLength] = []
    run = tmp_path / "run.db"
    with Phantom(Behaviour(recall="where(L < 2000, 0.98, 0.05)", wrong_anchor=0.0)) as phantom:
        found = search_window(
            Target(endpoint=phantom.url), run, SEARCH, concurrency=4, mode="none", on_step=steps.append
        )
    assert found.belief is not None
    window = found.belief.window
    assert window.low is not None
    assert window.high is not None
    assert window.low <= 2000 <= window.high
    assert found.belief.width <= 1.0
    with Store(run, write=False) as store:
        kept = store.meta("window_search")["steps"]
    assert len(kept) == len(steps) - 1
    assert all("tokens" in step["reason"] for step in kept)


def test_the_last_tokens_that_count_are_found_by_depth(tmp_path: Path) -> None:
    """Of prompts of one length, facts are asked at chosen depths until it is known how far back they count."""
    search = WindowSearch(shortest=64, longest=3000, width=1.2, budget=400_000, prompt=3200)
    with Phantom(Behaviour(recall="where(L * (1 - depth) < 900, 0.98, 0.05)", wrong_anchor=0.0)) as phantom:
        found = search_window(
            Target(endpoint=phantom.url), tmp_path / "run.db", search, concurrency=4, mode="none"
        )
    assert found.from_end
    assert found.belief is not None
    window = found.belief.window
    assert window.low is not None
    assert window.high is not None
    assert window.low <= 900 * 1.1  # the phantom counts depth from the fact's start
    assert window.high >= 900 * 0.9
    assert found.tokens_spent % 3200 == 0
    assert found.sentence().startswith("The last tokens that count are")


def test_it_goes_on_where_it_stopped_and_asks_nothing_twice(tmp_path: Path) -> None:
    """The same command asks no more prompts; other settings need another file."""
    run = tmp_path / "run.db"
    small = WindowSearch(shortest=400, longest=6400, width=0.1, budget=6_000)
    with Phantom(Behaviour(recall=1.0)) as phantom:
        target = Target(endpoint=phantom.url)
        first = search_window(target, run, small, mode="none")
        asked = phantom.stats.snapshot()["requests"]
        again = search_window(target, run, small, mode="none")
        assert phantom.stats.snapshot()["prompts_answered_twice"] == 0
        assert phantom.stats.snapshot()["requests"] - asked <= 3  # the list of models, no prompt
        assert again == first
        assert first.tokens_spent <= 6_000
        with pytest.raises(RunError, match="another fraction: name"):
            search_window(target, run, replace(small, fraction=0.5), mode="none")
        with pytest.raises(RunError, match="another seed, prompt: name"):
            search_window(target, run, replace(small, prompt=6400), seed=1, mode="none")


def test_more_budget_goes_on_with_the_same_search(tmp_path: Path) -> None:
    """What was asked counts on: a larger budget only adds to it, and the run tells every step."""
    run = tmp_path / "run.db"
    with Phantom(Behaviour(recall="where(L < 2000, 0.98, 0.05)", wrong_anchor=0.0)) as phantom:
        target = Target(endpoint=phantom.url)
        first = search_window(target, run, replace(SEARCH, budget=5_000), mode="none")
        more = search_window(target, run, replace(SEARCH, budget=60_000), mode="none", concurrency=4)
        assert phantom.stats.snapshot()["prompts_answered_twice"] == 0
    assert first.tokens_spent <= 5_000 < more.tokens_spent <= 60_000
    with Store(run, write=False) as store:
        kept = store.meta("window_search")
    assert kept["settings"]["search"]["budget"] == 60_000
    assert sum(step["length"] * step["samples"] for step in kept["steps"]) == more.tokens_spent


def test_no_answer_stops_the_search(tmp_path: Path) -> None:
    """Prompts that are refused as too long never become a window of 0."""
    with Phantom(Behaviour(context_limit=300)) as phantom, pytest.raises(RunError, match="context_refused"):
        search_window(Target(endpoint=phantom.url), tmp_path / "run.db", SEARCH, mode="none")
