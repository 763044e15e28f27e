"""The model without a curve: one share a position."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bunny_probe.fits.cells_alone import cell_crossings, cell_values
from bunny_probe.fits.ensemble import fit_curves
from bunny_probe.fits.likelihood import log_likelihood, saturated
from bunny_probe.fits.proportions import wilson

X = np.geomspace(1024, 131_072, 8)
ROOM = np.array(3.84)


def _ends(shares: list[float], documents: float, fraction: float = 0.85) -> tuple[float, float]:
    k = documents * np.array(shares)
    low, high = cell_crossings(X, k, np.full(8, documents), ROOM, fraction)
    return float(np.exp(low)), float(np.exp(high))


def test_with_many_answers_the_window_is_the_gap_in_which_the_score_falls() -> None:
    """A fall between two tested lengths is known up to both of them, whether it recovers or not."""
    assert _ends([0.9, 0.9, 0.9, 0.5, 0.4, 0.3, 0.2, 0.1], 1e5) == pytest.approx((4096, 8192))
    assert _ends([0.9, 0.9, 0.9, 0.5, 0.9, 0.9, 0.9, 0.9], 1e5) == pytest.approx((4096, 8192))
    assert _ends([0.9] * 8, 1e5) == (np.inf, np.inf)


def test_with_few_answers_more_gaps_are_possible() -> None:
    """Fewer answers never shorten the interval, and at last it is open."""
    shares = [0.9, 0.9, 0.85, 0.5, 0.4, 0.3, 0.2, 0.1]
    found = [_ends(shares, documents) for documents in (1000.0, 100.0, 10.0, 2.0)]
    assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(found))
    assert found[-1] == pytest.approx((1024, np.inf))


@given(st.lists(st.integers(0, 12), min_size=4, max_size=4), st.sampled_from([0.5, 0.85]))
@settings(max_examples=25, deadline=None)
def test_a_gap_is_allowed_where_shares_like_that_are_likely_enough(hits: list[int], fraction: float) -> None:
    """The ends are those of a search over all shares on a lattice."""
    x, k, n = X[:4], np.array(hits, dtype=float), np.full(4, 12.0)
    lattice = np.linspace(0.0, 1.0, 21)
    shares = np.stack([g.ravel() for g in np.meshgrid(*[lattice] * 4, indexing="ij")], axis=-1)
    allowed = shares[2 * (saturated(k, n) - log_likelihood(shares, k, n)) <= 3.84]
    under = allowed[:, 1:] < fraction * allowed[:, :1]
    gap = np.where(under.any(axis=1), under.argmax(axis=1), 3)  # 3: beyond
    low, high = cell_crossings(x, k, n, ROOM, fraction)
    assert float(low) <= np.log(x)[gap.min()] + 1e-9 or gap.min() == 3
    assert float(high) >= (np.inf if gap.max() == 3 else np.log(x)[gap.max() + 1]) - 1e-9


def test_without_room_the_cells_add_nothing() -> None:
    """Where a curve is well ahead neither a value nor a crossing is touched."""
    k, n, none = np.array([18.0, 12.0]), np.full(2, 20.0), np.array(-1.0)
    assert [float(v) for v in cell_crossings(X[:2], k, n, none, 0.85)] == [np.inf, -np.inf]
    low, high = cell_values(X[:2], k, n, none, X[:2])
    assert np.all(low == np.inf)
    assert np.all(high == -np.inf)


def test_a_batch_is_the_same_as_one_by_one() -> None:
    """Each data set has its own room; values at tested positions are Wilson's intervals."""
    rng = np.random.default_rng(0)
    k, n, room = (
        rng.binomial(20, 0.6, (5, 8)).astype(float),
        np.full((5, 8), 20.0),
        np.array([4.0, 1, 0, -3, 9]),
    )
    together = (*cell_crossings(X, k, n, room, 0.85), *cell_values(X, k, n, room, X))
    for i in range(5):
        alone = (*cell_crossings(X, k[i], n[i], room[i], 0.85), *cell_values(X, k[i], n[i], room[i], X))
        for one, all_ in zip(alone, together, strict=True):
            assert np.array_equal(one, all_[i])
    assert np.allclose(together[2][0], wilson(k[0], n[0], z=2.0)[0])


def test_two_steps_are_in_the_interval_of_the_window() -> None:
    """No curve falls in two steps: where the cells do, the window takes in the gap of the first."""
    n = np.full(8, 100.0)
    k = n * np.array([0.95, 0.95, 0.95, 0.75, 0.75, 0.75, 0.4, 0.4])
    ensemble = fit_curves(X, k, n, level=0.95, size=800)
    low, high = (float(v) for v in ensemble.crossings(0.85))
    assert ensemble.cells_lead
    assert low <= np.log(4096) + 1e-9
    assert high >= np.log(8192) - 1e-9
