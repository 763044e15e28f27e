"""Lending memory so that everybody can finish."""

from __future__ import annotations

from itertools import permutations

from bunny_engine.admission import safe
from hypothesis import given, settings
from hypothesis import strategies as st

HOLDINGS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted).map(tuple), max_size=5)


def can_finish(capacity: int, order: tuple[tuple[int, int], ...]) -> bool:
    free = capacity - sum(held for held, _ in order)
    for held, most in order:
        if most - held > free:
            return False
        free += held
    return True


@settings(max_examples=120, deadline=None)
@given(capacity=st.integers(12, 40), holdings=HOLDINGS)
def test_safe_means_that_some_order_lets_all_finish(capacity: int, holdings: list[tuple[int, int]]) -> None:
    """The short answer is that of trying every order."""
    assert safe(capacity, holdings) == any(can_finish(capacity, order) for order in permutations(holdings))


@settings(max_examples=100, deadline=None)
@given(capacity=st.integers(12, 40), holdings=HOLDINGS, step=st.integers(1, 4))
def test_whoever_needs_least_can_always_go_on(
    capacity: int, holdings: list[tuple[int, int]], step: int
) -> None:
    """From a safe state nobody is stuck: one has all it will need, or the one that needs least may grow."""
    if not holdings or not safe(capacity, holdings) or any(held == most for held, most in holdings):
        return
    held, most = least = min(holdings, key=lambda each: each[1] - each[0])
    rest = holdings.copy()
    rest.remove(least)
    assert safe(capacity, [*rest, (min(held + step, most), most)])
