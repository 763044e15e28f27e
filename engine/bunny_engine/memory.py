"""What a sequence remembers of its context: the interface of memory policies, and the dense one.

The model hands each layer's rotated queries, keys and values to the memory, and gets the attention's output
back: how keys and values are kept, and which of them a query sees, is the policy's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bunny_engine.attention import attend_chunk, attend_one, attend_window
from bunny_engine.config import ModelConfig

__all__ = ["DenseMemory", "Memory", "Span"]

Span = tuple[
    Tensor, ...
]  # rotated keys and values, [layers, kv_heads, n, head_dim]; more where a policy needs it


@dataclass(frozen=True, slots=True)
class Seat:
    """What a kernel for several sequences reads of one.

    `k` and `v` are dense, [layers, kv_heads, room, head_dim], and `dense` of their tokens count; of each sealed
    block there is its start and its tensors (see `memory_forms.KeysValues`).
    """

    k: Tensor
    v: Tensor
    dense: int
    sealed: Sequence[tuple[int, tuple[Tensor, ...]]] = ()


class Memory(Protocol):
    """One sequence's memory. `length` counts the tokens that every layer holds."""

    length: int

    @property
    def nbytes(self) -> int: ...
    @property
    def stored_nbytes(self) -> int:
        """Of these, the bytes of what is not dense."""
        ...

    def chunk(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """Take n new tokens' keys and values, [n, kv_heads, dh], and attend with q, [n, heads, dh].

        `x`: the layer's normed input that they were made of, [n, width]. Returns [n, heads · dh].
        """
        ...

    def one(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """The same for one token: q [heads, dh], k and v [kv_heads, dh], x [width]; gives [heads · dh]."""
        ...

    def advance(self, count: int) -> None:
        """The `count` new tokens have passed every layer."""
        ...

    def seat(self) -> Seat | None:
        """Room made for one more token, which a kernel will write; None where no kernel reads this memory."""
        ...

    def export(self, start: int, stop: int) -> Span:
        """A copy of the keys and values of the tokens from `start` up to `stop`, to be shared."""
        ...

    def adopt(self, span: Span) -> None:
        """Take over a span that another sequence computed for the same tokens at the same positions."""
        ...


class DenseMemory:
    """Every key and value, unquantised, in one piece of memory with room for `capacity` tokens."""

    def __init__(self, config: ModelConfig, capacity: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (config.layers, config.kv_heads, capacity, config.head_dim)
        self._k = torch.empty(shape, dtype=dtype, device=device)
        self._v = torch.empty(shape, dtype=dtype, device=device)
        self._windows = [config.window(layer) for layer in range(config.layers)]
        self.length = 0

    @property
    def nbytes(self) -> int:
        """Bytes that are allocated now."""
        return self._k.nbytes + self._v.nbytes

    @property
    def stored_nbytes(self) -> int:
        return 0

    @staticmethod
    def bytes_for(config: ModelConfig, tokens: int, dtype: torch.dtype) -> int:
        return 2 * config.layers * config.kv_rows * tokens * dtype.itemsize

    def chunk(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        start, stop = self.length, self.length + q.shape[0]
        keys, values = self._k[layer], self._v[layer]
        keys[:, start:stop] = k.transpose(0, 1)
        values[:, start:stop] = v.transpose(0, 1)
        if (window := self._windows[layer]) is not None:
            first = max(0, start + 1 - window)
            return attend_window(q, keys[:, first:stop], values[:, first:stop], window)
        return attend_chunk(q, k, v, keys[:, :start], values[:, :start])

    def one(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        at = self.length
        keys, values = self._k[layer], self._v[layer]
        keys[:, at] = k
        values[:, at] = v
        first = max(0, at + 1 - (self._windows[layer] or at + 1))
        return attend_one(q, keys[:, first : at + 1], values[:, first : at + 1])

    def advance(self, count: int) -> None:
        self.length += count

    def seat(self) -> Seat:
        return Seat(self._k, self._v, self.length)

    def export(self, start: int, stop: int) -> Span:
        return self._k[:, :, start:stop].clone(), self._v[:, :, start:stop].clone()

    def adopt(self, span: Span) -> None:
        k, v = span
        stop = self.length + k.shape[2]
        self._k[:, :, self.length : stop] = k
        self._v[:, :, self.length : stop] = v
        self.length = stop
