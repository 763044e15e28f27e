"""Memory in blocks: the first one and the newest ones dense, the older ones sealed or dropped.

Blockwise streaming: when a block is pushed out of the dense part it is quantised once, its keys turned back to
before RoPE; a query then sees each sealed block in its turn, rebuilt for the moment, and joins what it saw by
an online softmax. Without a stored form the older blocks are forgotten: a window with an attention sink
(StreamingLLM, 2309.17453).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bunny_engine.attention import Partial, attend_one, merge, partial
from bunny_engine.config import ModelConfig
from bunny_engine.memory import Span
from bunny_engine.packing import Packed, group_of, pack, packed_bytes
from bunny_engine.rope import Rope, rotate

__all__ = ["BlockMemory"]


@dataclass(frozen=True, slots=True)
class _Sealed:
    start: int  # position of the block's first token
    k: Packed  # before RoPE
    v: Packed

    @property
    def nbytes(self) -> int:
        return self.k.nbytes + self.v.nbytes


class BlockMemory:
    """`bits`: of a sealed number, 3, 4 or 8; None drops what others seal. `block` tokens, `resident` blocks.

    A chunk must not cross a block's border.
    """

    def __init__(
        self,
        config: ModelConfig,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        rope: Rope,
        block: int,
        resident: int,
        bits: int | None,
    ) -> None:
        self._block, self._bits, self._rope = block, bits, rope
        self._room = min(capacity, (1 + resident) * block)
        shape = (config.layers, config.kv_heads, self._room, config.head_dim)
        self._k = torch.empty(shape, dtype=dtype, device=device)
        self._v = torch.empty(shape, dtype=dtype, device=device)
        self._dense = 0  # tokens in them: the first block's, then the newest ones'
        self._sealed: list[_Sealed] = []
        self.length = 0

    @staticmethod
    def bytes_for(
        config: ModelConfig, tokens: int, dtype: torch.dtype, *, block: int, resident: int, bits: int | None
    ) -> int:
        room = min(tokens, (1 + resident) * block)
        dense = 2 * config.layers * config.kv_rows * room * dtype.itemsize
        blocks = -(-(tokens - room) // block)
        if bits is None:
            return dense
        numbers = config.layers * config.kv_rows * block
        keys = packed_bytes(numbers, bits, group_of(block))
        return dense + blocks * (keys + packed_bytes(numbers, bits, group_of(config.head_dim)))

    @property
    def nbytes(self) -> int:
        """Bytes that are allocated now."""
        return self._k.nbytes + self._v.nbytes + sum(block.nbytes for block in self._sealed)

    def chunk(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        n, heads, dh = q.shape
        group = heads // k.shape[1]
        past = self._take(layer, k.transpose(0, 1), v.transpose(0, 1))
        own_k, own_v = (x.transpose(0, 1).repeat_interleave(group, 0) for x in (k, v))
        seen = partial(q.transpose(0, 1), own_k, own_v, causal=True)
        rows = q.view(n, -1, group, dh).permute(1, 2, 0, 3).reshape(-1, group * n, dh)
        for keys, values in self._past(layer, past):
            out, lse = partial(rows, keys, values, causal=False)
            seen = merge(seen, (out.reshape(heads, n, dh), lse.reshape(heads, n)))
        return seen[0].transpose(0, 1).reshape(n, heads * dh)

    def one(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        past = self._take(layer, k[:, None], v[:, None])
        if not self._sealed:
            return attend_one(q, self._k[layer, :, : past + 1], self._v[layer, :, : past + 1])
        rows = q.view(k.shape[0], -1, q.shape[1])
        seen: Partial | None = None
        for keys, values in self._past(layer, past + 1):
            found = partial(rows, keys, values, causal=False)
            seen = found if seen is None else merge(seen, found)
        assert seen is not None
        return seen[0].reshape(-1)

    def advance(self, count: int) -> None:
        self.length += count
        self._dense += count

    def export(self, start: int, stop: int) -> Span:
        first = self._dense - (self.length - start)  # what is exported was just computed: it is dense
        last = first + stop - start
        return self._k[:, :, first:last].clone(), self._v[:, :, first:last].clone()

    def adopt(self, span: Span) -> None:
        k, v = span
        self._make_room()
        stop = self._dense + k.shape[2]
        self._k[:, :, self._dense : stop] = k
        self._v[:, :, self._dense : stop] = v
        self.advance(k.shape[2])

    def _take(self, layer: int, k: Tensor, v: Tensor) -> int:
        """Write new keys and values behind the dense ones; returns how many lay there before."""
        if layer == 0:
            self._make_room()
        at = self._dense
        self._k[layer, :, at : at + k.shape[1]] = k
        self._v[layer, :, at : at + v.shape[1]] = v
        return at

    def _past(self, layer: int, dense: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values of the dense part, then of each sealed block, rebuilt when it is its turn."""
        if dense:
            yield self._k[layer, :, :dense], self._v[layer, :, :dense]
        for sealed in self._sealed:
            cos, sin = self._rope.span(sealed.start, sealed.start + self._block)
            keys = rotate(sealed.k.layer(layer), cos, sin)
            yield keys.to(self._k.dtype), sealed.v.layer(layer).to(self._v.dtype)

    def _make_room(self) -> None:
        """Seal or drop the oldest block behind the first one, if the dense part is full."""
        if self._dense < self._room or self._dense < 2 * self._block:
            return
        first, second = self._block, 2 * self._block
        if self._bits is not None:
            start = self.length - self._dense + first
            cos, sin = self._rope.span(start, start + self._block)
            plain = rotate(self._k[:, :, first:second], cos, -sin)
            keys = pack(plain, self._bits, "tokens")
            values = pack(self._v[:, :, first:second], self._bits, "channels")
            self._sealed.append(_Sealed(start, keys, values))
        for kept in (self._k, self._v):
            kept[:, :, first : self._dense - self._block] = kept[:, :, second : self._dense].clone()
        self._dense -= self._block
