"""Draws: pinned for ever, and fair."""

from __future__ import annotations

from collections import Counter

import pytest

from bunny_probe.text import Rng

PINNED = [763, 906, 628, 890, 627, 801, 51, 426]
PATTERN = "UX-686"


def test_draws_are_pinned() -> None:
    """These numbers are part of every probe's identity: they must never change."""
    rng = Rng(20)
    assert [rng.below(1000) for _ in range(8)] == PINNED
    assert Rng(20).pattern("@@-^##") == PATTERN


def test_draws_are_fair() -> None:
    """Each of six sides comes up about as often as the others (chi-squared below its 99.99 % point)."""
    rng = Rng(1)
    seen = Counter(rng.below(6) for _ in range(60_000))
    assert sum((count - 10_000) ** 2 / 10_000 for count in seen.values()) < 25.7


def test_samples_hold_each_item_once() -> None:
    """A sample has no repeats, a shuffle loses nothing, and too large a sample is refused."""
    rng = Rng(2)
    assert len(set(rng.sample(range(50), 20))) == 20
    assert sorted(rng.shuffled(range(9))) == list(range(9))
    with pytest.raises(ValueError, match="cannot take 4 of 3"):
        rng.sample([1, 2, 3], 4)
