from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bunny_probe.fits import token_entropy_bounds


@given(
    weights=st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=40),
    k=st.integers(1, 40),
    extra=st.integers(0, 1000),
)
@settings(max_examples=200, deadline=None)
def test_the_true_entropy_lies_between_the_bounds(weights, k, extra):
    """Whatever the distribution and however few tokens are returned, the bounds hold the entropy."""
    p = np.sort(np.array(weights) / np.sum(weights))[::-1]
    truth = float(-(p * np.log(p)).sum())
    low, high = token_entropy_bounds([np.log(p[:k])], vocab_size=p.size + extra)
    assert low[0] <= truth + 1e-9
    assert high[0] >= truth - 1e-9


def test_hostile_rows_give_numbers_or_nan_and_never_raise():
    """Ragged rows, None, NaN, infinities, positive logarithms and empty rows are read as what they are."""
    rows = [[-0.1, None], [], [float("nan"), -0.5], [-np.inf, -0.2], [0.3], [-9999.0], [-0.1] * 30]
    low, high = token_entropy_bounds(rows, vocab_size=100)
    assert np.isnan(low[1])
    assert np.isnan(high[1])
    rest = np.delete(np.arange(7), 1)
    assert np.all(np.isfinite(low[rest]))
    assert np.all(low[rest] <= high[rest] + 1e-12)
    assert np.all(high[rest] <= np.log(100) + 1e-9)


def test_without_a_vocabulary_the_upper_bound_still_bounds():
    """An unknown vocabulary is taken larger than those in use."""
    known, unknown = (token_entropy_bounds([[-0.5]], size)[1][0] for size in (49_152, None))
    assert unknown > known


def test_one_row_a_token_is_required():
    """A flat list is refused: it could be one token's alternatives or one alternative a token."""
    with pytest.raises(ValueError, match="one row"):
        token_entropy_bounds([-0.1, -0.2])
