"""The two forms that a block is stored in, and how keys and values come back from each.

Per token and layer, keys and values are 2 · kv_heads · head_dim numbers, the layer's normed input is `width`:
the input is the smaller one only where width < 2 · kv_heads · head_dim, and costs two products to come back
from. With grouped queries keys before RoPE and values are themselves the lossless latent of the projections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from bunny_engine.config import ModelConfig
from bunny_engine.model import Model
from bunny_engine.packing import Packed, group_of, pack, packed_bytes
from bunny_engine.rope import rotate

__all__ = ["Inputs", "KeysValues", "Stored", "seal"]


class Stored(Protocol):
    """A sealed block of `tokens` tokens from position `start` on: all layers, or one that `part` took."""

    @property
    def start(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def part(self, layer: int) -> Self: ...
    def to(self, device: torch.device) -> Self: ...
    def pinned(self) -> Self: ...

    def rebuild(self, model: Model, layer: int) -> tuple[Tensor, Tensor]:
        """Of a part: rotated keys and values in the model's type, [kv_heads, tokens, head_dim] each."""
        ...


@dataclass(frozen=True, slots=True)
class KeysValues:
    """Keys before RoPE in groups along tokens, for their outliers sit in channels; values along channels."""

    start: int
    k: Packed
    v: Packed

    @property
    def nbytes(self) -> int:
        return self.k.nbytes + self.v.nbytes

    def part(self, layer: int) -> KeysValues:
        return KeysValues(self.start, self.k.part(layer), self.v.part(layer))

    def to(self, device: torch.device) -> KeysValues:
        return KeysValues(self.start, self.k.to(device), self.v.to(device))

    def pinned(self) -> KeysValues:
        return KeysValues(self.start, self.k.pinned(), self.v.pinned())

    def rebuild(self, model: Model, layer: int) -> tuple[Tensor, Tensor]:
        plain = self.k.numbers()
        cos, sin = model.angles(layer, self.start, self.start + plain.shape[1])
        return rotate(plain, cos, sin).to(model.dtype), self.v.numbers().to(model.dtype)

    @staticmethod
    def bytes_for(config: ModelConfig, block: int, bits: int) -> int:
        """Bytes of one block of all layers."""
        numbers = config.layers * config.kv_rows * block
        keys = packed_bytes(numbers, bits, group_of(block))
        return keys + packed_bytes(numbers, bits, group_of(config.head_dim))


@dataclass(frozen=True, slots=True)
class Inputs:
    """Each layer's normed input, in groups along channels; filled token by token from its first one on."""

    start: int
    x: Packed  # one head of `width` channels

    @classmethod
    def empty(cls, model: Model, start: int, block: int, bits: int) -> Inputs:
        shape = (model.config.layers, 1, block, model.config.width)
        return cls(start, pack(torch.zeros(shape, device=model.device), bits, "channels"))

    @property
    def nbytes(self) -> int:
        return self.x.nbytes

    def write(self, layer: int, at: int, x: Tensor) -> None:
        """Keep a layer's normed inputs, [n, width], as the block's tokens from `at` on."""
        self.x.write(layer, at, pack(x[None], self.x.bits, "channels"))

    def part(self, layer: int) -> Inputs:
        return Inputs(self.start, self.x.part(layer))

    def to(self, device: torch.device) -> Inputs:
        return Inputs(self.start, self.x.to(device))

    def pinned(self) -> Inputs:
        return Inputs(self.start, self.x.pinned())

    def rebuild(self, model: Model, layer: int) -> tuple[Tensor, Tensor]:
        x = self.x.numbers()[0].to(model.dtype)
        plain, values = model.rebuild(layer, x)
        cos, sin = model.angles(layer, self.start, self.start + len(x))
        return rotate(plain, cos, sin), values

    @staticmethod
    def bytes_for(config: ModelConfig, block: int, bits: int) -> int:
        """Bytes of one block of all layers."""
        return packed_bytes(config.layers * config.width * block, bits, group_of(config.width))


def seal(model: Model, start: int, keys: Tensor, values: Tensor, bits: int) -> KeysValues:
    """Store a block's rotated keys and values, [layers, kv_heads, tokens, head_dim] each, turned back first."""
    stop = start + keys.shape[2]
    plain = torch.empty(keys.shape, dtype=torch.float32, device=keys.device)
    for layer, of_layer in enumerate(keys):
        cos, sin = model.angles(layer, start, stop)
        plain[layer] = rotate(of_layer.float(), cos, -sin)
    return KeysValues(start, pack(plain, bits, "tokens"), pack(values, bits, "channels"))
