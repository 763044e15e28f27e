"""Where sealed blocks lie: beside the model, or in host memory with the next layer's blocks on their way.

On a CPU both are the same memory, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from bunny_engine.memory_forms import Stored

__all__ = ["Shelf"]


class Shelf:
    """Sealed blocks in order. `host`: kept in page-locked host memory, and read from there layer by layer."""

    def __init__(self, device: torch.device, layers: int, *, host: bool = False) -> None:
        self._device, self._layers = device, layers
        self._fetches = host and device.type != "cpu"
        self._stream: Any = torch.cuda.Stream(device) if self._fetches else None  # type: ignore[no-untyped-call]
        self._blocks: list[Stored] = []
        self._coming: tuple[int, dict[int, Stored]] = (0, {})  # a layer, and its blocks by place

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks)

    def add(self, block: Stored) -> None:
        self._blocks.append(block.pinned() if self._stream is not None else block)

    def parts(self, layer: int, places: Sequence[int]) -> Iterator[Stored]:
        """One layer of each of these blocks, on the device; the next layer's are sent for meanwhile."""
        if not self._fetches:
            yield from (self._blocks[place].part(layer) for place in places)
            return
        expected, here = self._coming
        if expected != layer:
            here = {}
        here |= self._send(layer, [place for place in places if place not in here])
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        coming = (layer + 1) % self._layers
        self._coming = coming, self._send(coming, places)
        yield from (here[place] for place in places)

    def _send(self, layer: int, places: Sequence[int]) -> dict[int, Stored]:
        """Start copying. What was computed so far ends first: its blocks' memory is what the copies reuse."""
        stream = self._stream
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream(self._device))
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            return {place: self._blocks[place].part(layer).to(self._device) for place in places}
