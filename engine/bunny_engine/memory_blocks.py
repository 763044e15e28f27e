"""Memory in blocks: the first one and the newest ones dense, the older ones sealed or dropped.

Blockwise streaming: a block that is pushed out of the dense part stays in its stored form, made once; a
query then sees the sealed blocks in their turn, a few at a time, rebuilt for the moment, and joins what it saw
by an online softmax. Without a stored form the older blocks are forgotten: a window with an attention sink
(StreamingLLM, 2309.17453).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Literal

import torch
from torch import Tensor

from bunny_engine.attention import Partial, attend_one, attend_places, merge
from bunny_engine.attention import partial as attend
from bunny_engine.config import ModelConfig
from bunny_engine.memory import Seat, Span
from bunny_engine.memory_choice import Landmarks, Tally, choose
from bunny_engine.memory_crew import side_by_side
from bunny_engine.memory_forms import FEW, Inputs, KeysValues, Stored, seal, seen
from bunny_engine.memory_place import Shelf
from bunny_engine.model import Model

__all__ = ["BlockMemory", "Shape"]

# Sealed tokens that are rebuilt at a time: for one token's step as many as fit a core's cache; for a prompt's
# chunk, whose operations use all cores, more of them, so that fewer cores are woken.
_RUN, _WIDE_RUN = 1024, 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a memory in blocks is built: sizes in tokens and blocks, checked by `policies.Policy`."""

    block: int
    resident: int
    form: Literal["kv", "x", "none"]  # none: what others seal is dropped
    bits: int
    most: int | None = None  # sealed blocks that a query may have rebuilt; None: all
    host: bool = False  # sealed blocks lie in host memory

    def bytes_for(self, config: ModelConfig, tokens: int, dtype: torch.dtype) -> int:
        """Bytes that a sequence of `tokens` takes."""
        room = min(tokens, (1 + self.resident) * self.block)
        dense = 2 * config.layers * config.kv_rows * room * dtype.itemsize
        if self.form == "none":
            return dense
        sealed = -(-(tokens - room) // self.block)
        if self.form == "kv":
            stored = sealed * KeysValues.bytes_for(config, self.block, self.bits)
        else:  # inputs are kept from the second block's first token on
            stored = max(0, -(-tokens // self.block) - 1) * Inputs.bytes_for(config, self.block, self.bits)
        marks = 0 if self.most is None else sealed * Landmarks.bytes_for(config, self.block)
        return dense + stored + marks


class BlockMemory:
    """A sequence's memory of up to `capacity` tokens. A chunk must not cross a block's border."""

    def __init__(self, model: Model, capacity: int, shape: Shape, tally: Tally) -> None:
        self._model, self._shape, self._tally = model, shape, tally
        self._block = shape.block
        self._windows = [model.config.window(layer) for layer in range(model.config.layers)]
        self._room = min(capacity, (1 + shape.resident) * shape.block)
        config = model.config
        size = (config.layers, config.kv_heads, self._room, config.head_dim)
        self._k = torch.empty(size, dtype=model.dtype, device=model.device)
        self._v = torch.empty(size, dtype=model.dtype, device=model.device)
        self._dense = 0  # tokens in them: the first block's, then the newest ones'
        self._sealed = Shelf(model.device, config.layers, host=shape.host)
        self._seats: list[tuple[int, tuple[Tensor, ...]]] = []  # of the sealed blocks, for kernels
        self._ends: list[int] = []  # of the sealed blocks: the position behind each one's last token
        self._marks: list[Landmarks] = []
        self._growing: list[Inputs] = []  # of blocks that are still dense, where inputs are what is stored
        self.length = 0

    @property
    def nbytes(self) -> int:
        """Bytes that are allocated now."""
        return self._k.nbytes + self._v.nbytes + self.stored_nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes of sealed blocks and of what will be one."""
        growing = sum(block.nbytes for block in self._growing)
        return self._sealed.nbytes + growing + sum(marks.nbytes for marks in self._marks)

    def chunk(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        n, heads, dh = q.shape
        group = heads // k.shape[1]
        past = self._take(layer, k.transpose(0, 1), v.transpose(0, 1), x)
        if (window := self._windows[layer]) is not None:
            return self._nearby(layer, q, past + n, window)
        own_k, own_v = (each.transpose(0, 1).repeat_interleave(group, 0) for each in (k, v))
        own = attend(q.transpose(0, 1), own_k, own_v, causal=True)
        rows = q.view(n, -1, group, dh).permute(1, 2, 0, 3).reshape(-1, group * n, dh)
        found = (own[0].reshape(len(rows), -1, dh), own[1].reshape(len(rows), -1))
        if past:
            found = merge(found, seen(rows, self._k[layer, :, :past], self._v[layer, :, :past]))
        out = self._older(layer, rows, [lambda: found])
        return out.reshape(heads, n, dh).transpose(0, 1).reshape(n, heads * dh)

    def one(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        past = self._take(layer, k[:, None], v[:, None], x[None])
        if (window := self._windows[layer]) is not None:
            return self._nearby(layer, q[None], past + 1, window)[0]
        keys, values = self._k[layer, :, : past + 1], self._v[layer, :, : past + 1]
        if not len(self._sealed):
            return attend_one(q, keys, values)
        rows = q.view(k.shape[0], -1, q.shape[1])
        return self._older(layer, rows, [partial(seen, rows, keys, values)]).reshape(-1)

    def advance(self, count: int) -> None:
        self.length += count
        self._dense += count

    def seat(self) -> Seat | None:
        shape = self._shape
        if any(self._windows) or shape.form == "x" or shape.most is not None or shape.host or shape.bits == 3:
            return None
        self._make_room()
        return Seat(self._k, self._v, self._dense, self._seats)

    def export(self, start: int, stop: int) -> Span:
        first = self._dense - (self.length - start)  # what is exported was just computed: it is dense
        last = first + stop - start
        span = (self._k[:, :, first:last].clone(), self._v[:, :, first:last].clone())
        if self._shape.form != "x" or start < self._block:
            return span
        block, at = self._growing[-1], start % self._block
        return (*span, *block.x.tokens(at, at + stop - start).tensors)

    def adopt(self, span: Span) -> None:
        k, v, *inputs = span
        self._make_room()
        n = k.shape[2]
        self._k[:, :, self._dense : self._dense + n] = k
        self._v[:, :, self._dense : self._dense + n] = v
        if (block := self._growing_block()) is not None:
            at = self.length % self._block
            for mine, theirs in zip(block.x.tensors, inputs, strict=True):
                mine[:, :, at : at + n] = theirs
        self.advance(n)

    def _take(self, layer: int, k: Tensor, v: Tensor, x: Tensor) -> int:
        """Write new keys and values behind the dense ones; returns how many lay there before."""
        if layer == 0:
            self._make_room()
        at = self._dense
        self._k[layer, :, at : at + k.shape[1]] = k
        self._v[layer, :, at : at + v.shape[1]] = v
        if (block := self._growing_block()) is not None:
            block.write(layer, self.length % self._block, x)
        return at

    def _older(self, layer: int, rows: Tensor, dense: list[Callable[[], Partial]]) -> Tensor:
        """What the rows, [kv_heads, n, head_dim], see: what `dense` gives, joined with the sealed blocks."""
        most, count = self._shape.most, len(self._sealed)
        found, chosen = None, list(range(count))
        if most is not None:
            found, dense = dense[0](), []
            chosen = choose(rows, found[1], self._marks, layer, most)
        for seen_here in self._each(dense, layer, rows, chosen):
            found = seen_here if found is None else merge(found, seen_here)
        assert found is not None
        self._tally.rebuilt += len(chosen)
        self._tally.skipped += count - len(chosen)
        # One layer a step is looked at whole, each in its turn: that costs a layer's share of what was saved.
        if most is not None and count and layer == self.length % self._model.config.layers:
            missed = torch.full_like(found[1], -torch.inf)
            for _, mass in self._each([], layer, rows, sorted(set(range(count)) - set(chosen))):
                missed = torch.logaddexp(missed, mass)
            self._tally.covered += float(torch.sigmoid(found[1] - missed).sum())
            self._tally.watched += missed.numel()
        return found[0].to(rows.dtype)

    def _each(
        self, dense: list[Callable[[], Partial]], layer: int, rows: Tensor, places: list[int]
    ) -> Iterable[Partial]:
        """Attention to what is dense and to each run of these sealed blocks alone."""
        few = rows.device.type == "cpu" and rows.shape[1] <= FEW
        runs = self._runs(layer, places, _RUN if few else _WIDE_RUN)
        calls: Iterator[Callable[[], Partial]] = chain(
            dense, (partial(self._seen, layer, rows, run) for run in runs)
        )
        return side_by_side(list(calls)) if few else (call() for call in calls)

    def _seen(self, layer: int, rows: Tensor, run: list[Stored]) -> Partial:
        return _joined(run).seen_by(self._model, layer, rows)

    def _nearby(self, layer: int, q: Tensor, dense: int, window: int) -> Tensor:
        """Attention in a layer of which each token sees but the `window` newest: q [n, heads, head_dim].

        `dense`: tokens in the dense part, the new ones included. A sealed block is rebuilt where it is reached.
        """
        stop, lowest = self.length + len(q), self.length + 1 - window
        behind = torch.arange(stop - max(dense - self._block, 0), stop, device=q.device)
        places = [torch.arange(min(dense, self._block), device=q.device), behind]
        keys, values = [self._k[layer, :, :dense]], [self._v[layer, :, :dense]]
        reached = [place for place, end in enumerate(self._ends) if end > lowest]
        for part in map(_joined, self._runs(layer, reached, _WIDE_RUN)):
            k, v = part.rebuild(self._model, layer)
            places += [torch.arange(start, start + self._block, device=q.device) for start in part.starts]
            keys.append(k)
            values.append(v)
        return attend_places(q, torch.cat(keys, 1), torch.cat(values, 1), torch.cat(places), stop, window)

    def _runs(self, layer: int, places: list[int], tokens: int) -> Iterator[list[Stored]]:
        """These sealed blocks, so many tokens at a time, or one block."""
        parts = self._sealed.parts(layer, places)
        while run := list(islice(parts, max(1, tokens // self._block))):
            yield run

    def _growing_block(self) -> Inputs | None:
        """Where the inputs of the next tokens are kept; None where they are not."""
        if self._shape.form != "x" or self.length < self._block:
            return None
        start = self.length - self.length % self._block
        if not self._growing or self._growing[-1].starts != (start,):
            self._growing.append(Inputs.empty(self._model, start, self._block, self._shape.bits))
        return self._growing[-1]

    def _make_room(self) -> None:
        """Seal or drop the oldest block behind the first one, if the dense part is full."""
        if self._dense < self._room or self._dense < 2 * self._block:
            return
        first, second = self._block, 2 * self._block
        start = self.length - self._dense + first
        keys, values = self._k[:, :, first:second], self._v[:, :, first:second]
        if self._shape.form != "none":
            stored: Stored
            if self._shape.form == "kv":
                stored = seal(self._model, start, keys, values, self._shape.bits)
            else:
                stored = self._growing.pop(0)
            self._sealed.add(stored)
            self._ends.append(start + self._block)
            if isinstance(stored, KeysValues):
                self._seats.append((start, (*stored.k.tensors, *stored.v.tensors)))
            if self._shape.most is not None:
                self._marks.append(Landmarks.of(keys))
        for kept in (self._k, self._v):
            kept[:, :, first : self._dense - self._block] = kept[:, :, second : self._dense].clone()
        self._dense -= self._block


def _joined(run: list[Stored]) -> Stored:
    return run[0].beside(run[1:]) if run[1:] else run[0]
