"""When a failed attempt is made again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bunny_probe.errors import UsageError
from bunny_probe.records import Attempt, Outcome

__all__ = ["Retries"]


@dataclass(frozen=True, slots=True)
class Retries:
    """Bounded, jittered, exponential backoff that honours what the server asks for.

    The wait before attempt k + 1 is drawn evenly from [d/2, d] with d = min(`cap`, `base` · 2^(k-1)); where the
    server named a wait, it is that one and up to a tenth more. A server that asks for more than `patience`
    is not waited for: the trial stays open for the next run. A timeout is tried once more only: each costs the
    whole of its limit, here and at the server.
    """

    attempts: int = 5  # the first one included
    base: float = 0.5  # seconds
    cap: float = 30.0  # seconds
    patience: float = 120.0  # seconds

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise UsageError("retries.attempts counts the first attempt too: at least 1")

    def delay(self, attempt: Attempt, made: int, rng: random.Random) -> float | None:
        """Seconds to wait after the `made`-th attempt, or None when it was the last one."""
        most = min(self.attempts, 2) if attempt.outcome is Outcome.TIMEOUT else self.attempts
        if not attempt.outcome.transient or made >= most:
            return None
        if attempt.retry_after is not None:
            if attempt.retry_after > self.patience:
                return None
            return attempt.retry_after * (1 + 0.1 * rng.random())
        full = min(self.cap, self.base * 2.0 ** (made - 1))
        return full * (0.5 + 0.5 * rng.random())
