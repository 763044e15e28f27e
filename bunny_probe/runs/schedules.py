"""When requests are sent in an open loop: absolute moments, whatever the answers take."""

from __future__ import annotations

import random
from collections.abc import Iterator

from bunny_probe.errors import UsageError

__all__ = ["constant", "poisson"]


def constant(rate: float) -> Iterator[float]:
    """Seconds after the start of requests at even distances, `rate` a second."""
    _check(rate)
    number = 0
    while True:
        yield number / rate  # no sum of gaps: it would drift
        number += 1


def poisson(rate: float, seed: int) -> Iterator[float]:
    """Likewise, with independent exponential gaps of mean 1 / rate: arrivals that do not know of each other."""
    _check(rate)
    rng, moment = random.Random(seed), 0.0
    while True:
        yield moment
        moment += rng.expovariate(rate)


def _check(rate: float) -> None:
    if not 0 < rate < float("inf"):
        raise UsageError(f"a rate must be a positive number of requests a second, got {rate}")
