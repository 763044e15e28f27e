"""Token distributions of a stated entropy.

The phantom's next-token distribution is a truncated geometric over `size` tokens: p_i ∝ r^i, i = 0 … size−1.
Its entropy H = log Z + s·E[i], with r = e^(−s), Z = (1 − r^size)/(1 − r) and
E[i] = r/(1 − r) − size·r^size/(1 − r^size), falls without a break from log(size) at s = 0 to 0 at s = ∞, so
every entropy between has exactly one s, found here by bisection.
"""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["Geometric", "with_entropy"]

_LARGEST_DECAY = 745.0  # e^-745 is the smallest positive double


class Geometric:
    """p_i ∝ e^(−decay·i) for i in 0 … size−1. Logarithms are natural."""

    __slots__ = ("_log_z", "decay", "size")

    def __init__(self, decay: float, size: int) -> None:
        self.decay, self.size = decay, size
        if decay * size < 1e-9:
            self._log_z = math.log(size)
        else:
            self._log_z = math.log(-math.expm1(-decay * size)) - math.log(-math.expm1(-decay))

    def logprob(self, rank: int) -> float:
        return -self.decay * rank - self._log_z

    @property
    def mean_rank(self) -> float:
        s, n = self.decay, self.size
        if s * n < 1e-4:
            return (n - 1) / 2 - s * (n * n - 1) / 12
        tail = n / math.expm1(s * n) if s * n < 700 else 0.0
        return 1 / math.expm1(s) - tail if s < 700 else 0.0

    @property
    def entropy(self) -> float:
        """In nats."""
        return self._log_z + self.decay * self.mean_rank

    def rank(self, u: float, temperature: float = 1.0) -> int:
        """The rank that the uniform u draws once the distribution is sharpened by the temperature."""
        if temperature <= 0:
            return 0
        s = self.decay / temperature
        if s * self.size < 1e-9:
            return min(int(u * self.size), self.size - 1)
        # Invert the cumulative (1 − e^(−s(k+1)))/(1 − e^(−s·size)).
        mass = u * -math.expm1(-s * self.size)
        return max(0, min(math.floor(-math.log1p(-mass) / s), self.size - 1))


@lru_cache(maxsize=65536)
def with_entropy(entropy: float, size: int) -> Geometric:
    """The distribution over `size` tokens whose entropy, in nats, is `entropy`, held into [0, log(size)]."""
    if entropy <= 0:
        return Geometric(_LARGEST_DECAY, size)
    if entropy >= math.log(size) - 1e-9:
        return Geometric(0.0, size)
    low, high = -40.0, math.log(_LARGEST_DECAY)  # log of the decay
    for _ in range(80):
        middle = (low + high) / 2
        if Geometric(math.exp(middle), size).entropy > entropy:
            low = middle
        else:
            high = middle
    return Geometric(math.exp((low + high) / 2), size)
