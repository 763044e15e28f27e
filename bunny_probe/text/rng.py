"""Random draws that are the same on every machine, in every process, in every version of Python.

The bits come from Philox 4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11),
whose stream numpy keeps fixed; how bits become draws is written here, not left to a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rng"]

T = TypeVar("T")
_BLOCK = 64
_CLASSES = {"#": "0123456789", "^": "123456789", "@": "ABCDEFGHJKLMNPQRSTUVWXYZ"}


class Rng:
    """A stream of draws from a seed below 2**64. Not for sharing between threads."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(key=seed)
        self._ready: list[int] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` draws of 32 bits, each in the low half of a 64-bit word."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64) >> np.uint64(32)

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit` - 1; `limit` at most 2**31, where the bias stays below 5e-10."""
        if not self._ready:
            self._ready = self.words(_BLOCK).tolist()
        return (self._ready.pop() * limit) >> 32

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items in random order. Raises ValueError when there are fewer."""
        if count > len(items):
            raise ValueError(f"cannot take {count} of {len(items)}")
        pool = list(items)
        for i in range(count):
            j = i + self.below(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.sample(items, len(items))

    def pattern(self, pattern: str) -> str:
        """`pattern` with each # as a digit, each ^ as a digit from 1 to 9 and each @ as a capital letter."""
        return "".join(self.choice(_CLASSES[c]) if c in _CLASSES else c for c in pattern)
