"""The latency law: when each token of an answer is due, in seconds after the request arrived."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from bunny_probe.phantom.behaviour import Latency
from bunny_probe.phantom.draws import generator

__all__ = ["Schedule", "plan_times"]


@dataclass(frozen=True, slots=True)
class Schedule:
    ttft: float  # seconds to the first token
    due: tuple[float, ...]  # of each token, the first one's equal to ttft
    slow: bool  # drawn among the slow requests

    @property
    def end(self) -> float:
        return self.due[-1] if self.due else self.ttft


def plan_times(
    law: Latency,
    *,
    prompt_tokens: int,
    cached_tokens: int,
    tokens: int,
    slow: bool,
    others: int,
    key: tuple[object, ...],
) -> Schedule:
    """The due times under the law, beside `others` in flight. `key` is what the spread's chance hangs on."""
    chance = generator("latency", *key)
    stretch = (law.slow_factor if slow else 1.0) * (1 + law.contention * others)
    mean = (
        law.base
        + law.per_prompt_token * prompt_tokens
        + law.per_uncached_token * max(0, prompt_tokens - cached_tokens)
    )
    ttft = stretch * _spread(mean, law.ttft_spread, law.distribution, chance)
    due = [ttft][:tokens]
    for _ in range(tokens - 1):
        due.append(due[-1] + stretch * _spread(law.gap, law.gap_spread, law.distribution, chance))
    return Schedule(ttft, tuple(due), slow)


def _spread(mean: float, variation: float, distribution: str, chance: random.Random) -> float:
    """A draw of this mean and coefficient of variation, never below 0.

    Gamma and lognormal keep both exactly. A normal is cut at 0 and a uniform at a variation of 1/√3, where it
    would pass below 0; past that the mean is kept and the variation is not.
    """
    if mean <= 0 or variation <= 0:
        return mean
    if distribution == "gamma":
        shape = 1 / variation**2
        return chance.gammavariate(shape, mean / shape)
    if distribution == "lognormal":
        sigma2 = math.log1p(variation**2)
        return mean * math.exp(chance.gauss(-sigma2 / 2, math.sqrt(sigma2)))
    if distribution == "uniform":
        half = min(math.sqrt(3) * variation, 1.0)
        return mean * chance.uniform(1 - half, 1 + half)
    # Cut symmetrically, at 0 and at twice the mean, so that the mean stays.
    while not 0 <= (value := chance.gauss(mean, variation * mean)) <= 2 * mean:
        pass
    return value
