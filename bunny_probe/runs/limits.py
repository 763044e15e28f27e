"""How much may be under way at once and in a minute, shared by all workers of a run."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from bunny_probe.errors import UsageError
from bunny_probe.records import Attempt, Outcome

__all__ = ["Limits"]

_WINDOW = 60.0


class Limits:
    """Concurrency that adapts to 429, a pause that the server asked for, requests and tokens a minute.

    Rates hold in *every* window of a minute, not on average: a log of the last 60 s is kept. On a 429 the
    concurrency is halved, once for all requests that were under way together; each answer then adds a
    fraction, one more a round. First come, first served.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (
            ("concurrency", concurrency),
            ("requests per minute", requests_per_minute),
            ("tokens per minute", tokens_per_minute),
        ):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        self.concurrency = concurrency
        self.window = float(concurrency)  # what 429s have left of it
        self.in_flight = 0
        self._requests, self._tokens = requests_per_minute, tokens_per_minute
        self._sent: deque[tuple[float, int]] = deque()  # (when, tokens) within the last minute
        self._sent_tokens = 0
        self._paused_until = 0.0
        self._halved_at = 0.0
        self._clock = clock
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def acquire(self, tokens: int) -> float:
        """Wait for a turn to send a request worth `tokens`; gives the clock at which it was granted."""
        async with self._turn:
            while True:
                now = self._clock()
                wait = max(self._paused_until - now, self._rate_wait(now, tokens))
                if wait > 0:
                    await asyncio.sleep(wait)
                elif self.in_flight >= max(1, int(self.window)):
                    self._freed.clear()
                    await self._freed.wait()
                else:
                    break
            self.in_flight += 1
            if self._requests is not None or self._tokens is not None:
                self._sent.append((now, tokens))
                self._sent_tokens += tokens
            return now

    def release(self, granted: float, attempt: Attempt | None) -> None:
        """Give the turn back. `attempt` is what came of it, None when it was cancelled."""
        self.in_flight -= 1
        if attempt is not None and attempt.outcome is Outcome.RATE_LIMITED:
            # One answer to all that were sent before the last halving: they met the same limit.
            if granted >= self._halved_at:
                self.window = max(1.0, self.window / 2)
                self._halved_at = self._clock()
        elif attempt is not None and attempt.status is not None:
            self.window = min(float(self.concurrency), self.window + 1 / self.window)
        self._freed.set()

    def pause(self, seconds: float) -> None:
        """Nobody sends for `seconds`: the server asked one of us to wait, and means all."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    @property
    def paused_s(self) -> float:
        """Seconds for which nobody sends any more."""
        return max(0.0, self._paused_until - self._clock())

    def _rate_wait(self, now: float, tokens: int) -> float:
        """Seconds until one more request of `tokens` fits into the minute that then ends."""
        while self._sent and self._sent[0][0] <= now - _WINDOW:
            self._sent_tokens -= self._sent.popleft()[1]
        if not self._sent:
            return 0.0
        over = self._requests is not None and len(self._sent) >= self._requests
        # A request that alone is larger than the limit goes out when the minute is empty.
        over = over or (self._tokens is not None and self._sent_tokens + tokens > self._tokens)
        return self._sent[0][0] + _WINDOW - now if over else 0.0
