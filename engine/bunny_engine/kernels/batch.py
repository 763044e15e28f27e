"""Several sequences' memories as one set of tables on the device, and attention over them in three launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bunny_engine.config import ModelConfig
from bunny_engine.kernels.attend import append, attend_dense, attend_stored
from bunny_engine.memory import Seat
from bunny_engine.packing import group_of

__all__ = ["Batch", "BatchShape", "merge_parts"]

_TILE = 64  # tokens a step of the dense kernel reads


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """What is fixed for as long as the tables live, and with it a graph that was captured over them."""

    sequences: int
    dense: int  # most dense tokens of a sequence
    blocks: int  # most sealed blocks of a sequence; 0: none are stored
    block: int  # tokens
    bits: int  # 4, 8 or 16
    split: int = 256  # dense tokens a program takes


class Batch:
    """Tables for `shape.sequences` sequences; `seat` fills them between steps, `attend` reads them within."""

    def __init__(
        self, config: ModelConfig, shape: BatchShape, cos: Tensor, sin: Tensor, device: torch.device
    ) -> None:
        """`cos` and `sin`: float32 [positions, head_dim / 2], of every position that can be sealed."""
        self._config, self._shape, self._cos, self._sin = config, shape, cos, sin
        self._splits = -(-shape.dense // shape.split)
        self._parts = self._splits + shape.blocks
        most, n = max(shape.blocks, 1), shape.sequences

        def whole(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.int64, device=device)

        self._k_at, self._v_at, self._rooms, self._lengths = (whole(n) for _ in range(4))
        self._live, self._counts = whole(n), whole(n)
        self._table, self._starts = whole(n, most, 7), whole(n, most)

    def seat(self, seats: Sequence[Seat]) -> None:
        """Take these sequences, in this order; the places left over are empty."""
        if len(seats) > self._shape.sequences:
            raise ValueError(f"{len(seats)} sequences in a batch of {self._shape.sequences}")
        n, most = self._shape.sequences, self._table.shape[1]
        heads: list[list[int]] = [[0] * n for _ in range(6)]
        table, starts = [[[0] * 7] * most for _ in range(n)], [[0] * most for _ in range(n)]
        for row, seat in enumerate(seats):
            if len(seat.sealed) > self._shape.blocks or seat.dense >= self._shape.dense:
                raise ValueError(f"a sequence of {seat.dense} tokens and {len(seat.sealed)} blocks has no room")
            facts = (seat.k.data_ptr(), seat.v.data_ptr(), seat.k.shape[2], seat.dense, 1, len(seat.sealed))
            for column, value in zip(heads, facts, strict=True):
                column[row] = value
            for place, (start, stored) in enumerate(seat.sealed):
                addresses = [tensor.data_ptr() for tensor in stored]
                table[row][place] = addresses + [0] * (7 - len(addresses))
                starts[row][place] = start
        columns = (self._k_at, self._v_at, self._rooms, self._lengths, self._live, self._counts)
        for target, values in zip((*columns, self._table, self._starts), (*heads, table, starts), strict=True):
            target.copy_(torch.tensor(values, dtype=torch.int64))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Keep each sequence's new key and value, and attend. q [sequences, heads, dh], k and v [sequences,
        kv_heads, dh], rotated; gives [sequences, heads · dh]. Empty places give 0, whatever they hold.
        """
        c, shape = self._config, self._shape
        n, heads, dh = q.shape
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        out = torch.empty(n, heads, self._parts, dh, dtype=torch.float32, device=q.device)
        lse = torch.empty(n, heads, self._parts, dtype=torch.float32, device=q.device)
        dense = (self._k_at, self._v_at, self._rooms, self._lengths, self._live)
        rows = max(16, 1 << (c.group - 1).bit_length())  # the least that a tensor core multiplies
        fixed: dict[str, Any] = {
            "KV_HEADS": c.kv_heads,
            "GROUP": c.group,
            "ROWS": rows,
            "PARTS": self._parts,
            "PRECISION": "ieee",
        }
        append[(c.kv_heads, n)](k, v, *dense, layer, KV_HEADS=c.kv_heads, DH=dh)
        attend_dense[(self._splits, c.kv_heads, n)](
            q, out, lse, *dense, layer, dh**-0.5, DH=dh, TILE=_TILE, SPLIT=shape.split, **fixed
        )
        if shape.blocks:
            attend_stored[(shape.blocks, c.kv_heads, n)](
                q, out, lse, self._table, self._starts, self._counts, self._cos, self._sin, layer, dh**-0.5,
                HALF=dh // 2, BLOCK=shape.block, BITS=shape.bits, V_GROUPS=dh // group_of(dh),
                MOST=self._table.shape[1], FIRST=self._splits, **fixed,
            )  # fmt: skip
        return merge_parts(out, lse).to(q.dtype).view(n, heads * dh)


def merge_parts(out: Tensor, lse: Tensor) -> Tensor:
    """Partial attentions [..., parts, dh], log-sum-exps [..., parts] as one; all empty gives 0, never NaN."""
    top = lse.amax(-1, keepdim=True)
    weight = torch.exp(lse - torch.where(top == -torch.inf, 0, top))
    total = weight.sum(-1, keepdim=True)
    return (out * (weight / torch.where(total == 0, 1, total))[..., None]).sum(-2)
