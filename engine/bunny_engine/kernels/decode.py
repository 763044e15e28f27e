"""Decode on a GPU: a token for up to 32 sequences in one replay of a graph.

A step launches hundreds of small kernels, and to launch them takes longer than to run them. So a step is
captured once for each bucket of batch sizes, when a batch of that size first comes, and replayed from then on.
What changes from step to step (ids, positions, where memories lie, how long they are) is written into fixed
tables before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bunny_engine.kernels.batch import Batch, BatchShape
from bunny_engine.memory import Memory, Seat
from bunny_engine.model import Model
from bunny_engine.policies import Policy

__all__ = ["BUCKETS", "Decoder", "attach", "shape_of"]

BUCKETS = (1, 2, 4, 8, 16, 32)
_HEADS = (16, 32, 64, 128)  # head sizes that the kernels' tiles fit
_PLAIN = ("llama", "qwen2", "qwen3")  # every layer sees the whole context, turned by the same angles


class Decoder:
    """`shape` gives the memories' sizes; its `sequences` is not read."""

    most = BUCKETS[-1]  # sequences a step

    def __init__(self, model: Model, shape: BatchShape, context: int) -> None:
        self._model, self._shape = model, shape
        cos, sin = model.angles(0, 0, context)
        self._angles = cos.contiguous(), sin.contiguous()
        self._steps: dict[int, _Step] = {}

    def tokens(self, ids: Sequence[int], memories: Sequence[Memory]) -> Tensor | None:
        """Float32 logits [sequences, vocab] of one more token each, which the memories then hold.

        None where one of them is of a kind that no kernel reads: nothing has happened then.
        """
        seats = [seat for memory in memories if (seat := memory.seat()) is not None]
        if len(seats) < len(memories):
            return None
        positions = [memory.length for memory in memories]
        size = next(bucket for bucket in BUCKETS if bucket >= len(ids))
        if size not in self._steps:
            self._steps[size] = _Step(self._model, self._shape, self._angles, size)
        logits = self._steps[size].run(ids, seats, positions)[: len(ids)]
        for memory in memories:
            memory.advance(1)
        return logits


def attach(model: Model, policy: Policy, context: int) -> None:
    """Let the model's decode run through the kernels, for sequences of up to `context` tokens."""
    if model.config.architecture not in _PLAIN or model.config.head_dim not in _HEADS:
        return
    model.decoder = Decoder(model, shape_of(policy, context, 1), context)
    model.tile = Decoder.most


def shape_of(policy: Policy, context: int, sequences: int) -> BatchShape:
    """Tables for so many sequences of up to `context` tokens under this policy."""
    dense, blocks = context + 1, 0
    if policy.name != "full":
        dense = (1 + policy.resident) * policy.block + 1
        blocks = max(0, -(-context // policy.block) - 1 - policy.resident) if policy.seals else 0
    bits = policy.bits if policy.seals else 16
    return BatchShape(sequences=sequences, dense=dense, blocks=blocks, block=policy.block, bits=bits)


class _Step:
    """One bucket: its tables, and on a GPU the graph over them."""

    def __init__(self, model: Model, shape: BatchShape, angles: tuple[Tensor, Tensor], size: int) -> None:
        self._model, self._angles, device = model, angles, model.device
        sized = BatchShape(
            sequences=size, dense=shape.dense, blocks=shape.blocks, block=shape.block, bits=shape.bits
        )
        self._batch = Batch(model.config, sized, *angles, device)
        self._ids, self._positions = (torch.zeros(size, dtype=torch.long, device=device) for _ in range(2))
        self._graph: Any = None
        self._logits = torch.empty(0)

    def run(self, ids: Sequence[int], seats: Sequence[Seat], positions: Sequence[int]) -> Tensor:
        spare = [0] * (len(self._ids) - len(ids))
        self._batch.seat(seats)
        self._ids.copy_(torch.tensor([*ids, *spare]))
        self._positions.copy_(torch.tensor([*positions, *spare]))
        if self._model.device.type != "cuda":
            return self._compute()
        if self._graph is None:
            self._capture()
        self._graph.replay()
        return self._logits.clone()

    def _capture(self) -> None:
        """Run once to compile the kernels, then record. Both write the same key and value to the same place."""
        stream: Any = torch.cuda.Stream(self._model.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._model.device))
        with torch.cuda.stream(stream):
            self._compute()
        torch.cuda.current_stream(self._model.device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = self._compute()

    def _compute(self) -> Tensor:
        angles = (self._angles[0][self._positions], self._angles[1][self._positions])
        return self._model.step(self._ids, angles, lambda layer, q, k, v, x: self._batch.attend(layer, q, k, v))
