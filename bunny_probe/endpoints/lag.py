"""How late the client itself was: the event loop's own lateness, measured all the time.

A client that is starved of CPU reads the clock late and blames the server. Every attempt therefore carries the
worst lateness seen while it ran, and one that is too large marks its times invalid.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from time import perf_counter_ns

__all__ = ["LagMeter", "LagWatch", "lag_limit_ns"]

_TICK_NS = 10_000_000


def lag_limit_ns(latency_ns: int) -> int:
    """The lateness up to which an attempt's times are trusted: 2 % of its duration, but at least 20 ms."""
    return max(20_000_000, latency_ns // 50)


class LagMeter:
    """A timer on the running loop that should fire every 10 ms and notes by how much it is late."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watches = 0
        self._due = 0
        self._handle: asyncio.TimerHandle | None = None
        # Of all latenesses since the first watch, those that none behind them has reached: the first of these
        # that a watch has lived to see is its worst. Two lists, so that it is found by bisection.
        self._ticks = 0
        self._seen_at: list[int] = []
        self._late: list[int] = []

    def watch(self) -> LagWatch:
        return LagWatch(self)

    def enter(self) -> int:
        """Begin to watch; gives what `leave` wants."""
        self._watches += 1
        if self._handle is None:
            self._arm()
        return self._ticks

    def leave(self, since: int) -> int:
        """End a watch; gives the worst lateness since it began, in nanoseconds."""
        self._note()  # lateness that no tick has seen yet
        worst = self._late[bisect_right(self._seen_at, since)]
        self._watches -= 1
        if not self._watches and self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._seen_at.clear()
            self._late.clear()
        return max(worst, 0)

    def _arm(self) -> None:
        self._due = perf_counter_ns() + _TICK_NS
        self._handle = self._loop.call_later(_TICK_NS / 1e9, self._tick)

    def _note(self) -> None:
        late, seen = perf_counter_ns() - self._due, self._late
        self._ticks += 1
        while seen and seen[-1] <= late:
            seen.pop()
            self._seen_at.pop()
        seen.append(late)
        self._seen_at.append(self._ticks)

    def _tick(self) -> None:
        self._note()
        self._arm()


class LagWatch:
    """The worst lateness in nanoseconds while it was open."""

    __slots__ = ("_meter", "_since", "worst")

    def __init__(self, meter: LagMeter) -> None:
        self._meter = meter
        self.worst = 0

    def __enter__(self) -> LagWatch:
        self._since = self._meter.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.worst = self._meter.leave(self._since)
