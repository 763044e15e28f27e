"""How late the client itself was: the event loop's own lateness, measured all the time.

A client that is starved of CPU reads the clock late and blames the server. Every attempt therefore carries the
worst lateness seen while it ran, and one that is too large marks its times invalid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

__all__ = ["LagMeter", "LagWatch", "lag_limit_ns"]

_TICK_NS = 5_000_000


def lag_limit_ns(latency_ns: int) -> int:
    """The lateness up to which an attempt's times are trusted: 2 % of its duration, but at least 20 ms."""
    return max(20_000_000, latency_ns // 50)


class LagWatch:
    """The worst lateness in nanoseconds since it was opened."""

    __slots__ = ("worst",)

    def __init__(self) -> None:
        self.worst = 0


class LagMeter:
    """A timer on the running loop that should fire every 5 ms and notes by how much it is late."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watches: set[LagWatch] = set()
        self._due = 0
        self._handle: asyncio.TimerHandle | None = None

    @contextmanager
    def watch(self) -> Iterator[LagWatch]:
        watch = LagWatch()
        self._watches.add(watch)
        if self._handle is None:
            self._arm()
        try:
            yield watch
        finally:
            self._note()  # lateness that no tick has seen yet
            self._watches.discard(watch)
            if not self._watches and self._handle is not None:
                self._handle.cancel()
                self._handle = None

    def _arm(self) -> None:
        self._due = perf_counter_ns() + _TICK_NS
        self._handle = self._loop.call_later(_TICK_NS / 1e9, self._tick)

    def _note(self) -> None:
        late = perf_counter_ns() - self._due
        for watch in self._watches:
            if late > watch.worst:
                watch.worst = late

    def _tick(self) -> None:
        self._note()
        self._arm()
