"""Who may take memory so that everybody can finish: Dijkstra's banker, in bytes.

A request without `max_tokens` may come to fill the whole context, and most end long before. Reserving all of it
would let a few of them keep the others out; lending what is left to whoever asks could leave all of them stuck
half-way. So a sequence holds what its tokens take, and grows only while some order is left in which all could
still grow to their limits, one after the other. Who has to wait goes on later with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["safe"]


def safe(capacity: int, holdings: Sequence[tuple[int, int]]) -> bool:
    """`holdings`: (held, most) of each, in bytes. Whether all of them can finish, one by one.

    One that alone is larger than everything counts as fitting: it runs when nothing else does.
    """
    free = capacity - sum(held for held, _ in holdings)
    for held, most in sorted(holdings, key=lambda each: each[1] - each[0]):
        if min(most, capacity) - held > free:
            return False
        free += held
    return True
