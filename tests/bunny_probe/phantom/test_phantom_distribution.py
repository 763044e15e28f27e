"""The token distributions have the entropy that they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.phantom.distribution import Geometric, with_entropy
from bunny_probe.phantom.draws import generator, uniform


def probabilities(shape: Geometric) -> np.ndarray:
    return np.exp([shape.logprob(rank) for rank in range(shape.size)])


@given(st.floats(0, 1), st.integers(2, 3000))
def test_every_entropy_between_none_and_all_is_met(share: float, size: int):
    """The probabilities add up to 1 and their entropy, summed by hand, is the asked one."""
    wanted = share * math.log(size)
    p = probabilities(with_entropy(wanted, size))
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert -(p[p > 0] * np.log(p[p > 0])).sum() == pytest.approx(wanted, abs=1e-6)
    assert (np.diff(p) <= 1e-15).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_ranks_are_drawn_from_the_distribution_at_the_temperature(temperature: float):
    """Frequencies of 20,000 drawn ranks follow p^(1/T), renormalised, within four standard errors."""
    shape, n = with_entropy(1.5, 200), 20_000
    p = probabilities(shape) ** (1 / temperature)
    p /= p.sum()
    ranks = np.array([shape.rank(uniform("t", i), temperature) for i in range(n)])
    for rank in range(6):
        error = math.sqrt(p[rank] * (1 - p[rank]) / n)
        assert abs((ranks == rank).mean() - p[rank]) < 4 * error
    assert shape.rank(0.99, 0.0) == 0


def test_draws_are_uniform_apart_and_stable():
    """A draw depends on its parts alone: the same ones give the same number, others an unrelated one."""
    draws = np.array([uniform("x", i) for i in range(20_000)])
    assert abs(draws.mean() - 0.5) < 4 * math.sqrt(1 / 12 / 20_000)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 4 / math.sqrt(20_000)
    assert uniform("x", 1) == uniform("x", 1) != uniform("x", "1")
    assert uniform("ab", "c") != uniform("a", "bc")
    assert generator("g", 1).random() == generator("g", 1).random()
