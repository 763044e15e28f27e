"""The two forms that a block is stored in, and how keys and values come back from each.

Per token and layer, keys and values are 2 · kv_heads · head_dim numbers, the layer's normed input is `width`:
the input is the smaller one only where width < 2 · kv_heads · head_dim, and costs two products to come back
from. With grouped queries keys before RoPE and values are themselves the lossless latent of the projections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from bunny_engine.attention import Partial, partial
from bunny_engine.config import ModelConfig
from bunny_engine.memory_codes import Codes, encode, paired, unpaired
from bunny_engine.model import Model
from bunny_engine.packing import Packed, group_of, pack, packed_bytes
from bunny_engine.rope import rotate

__all__ = ["FEW", "Inputs", "KeysValues", "Stored", "seal", "seen"]

_MADE: WeakKeyDictionary[Model, dict[bool, Tensor]] = WeakKeyDictionary()  # angles, by: of layers with a window
FEW = 16  # rows up to which two plain products are faster than a fused attention on a CPU


class Stored(Protocol):
    """Sealed tokens, block by block, from the positions `starts` on: all layers, or one that `part` took."""

    @property
    def starts(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    def part(self, layer: int) -> Self: ...
    def to(self, device: torch.device) -> Self: ...
    def pinned(self) -> Self: ...

    def beside(self, others: Sequence[Self]) -> Self:
        """A part and those of other blocks behind it, as one."""
        ...

    def rebuild(self, model: Model, layer: int) -> tuple[Tensor, Tensor]:
        """Of a part: rotated keys and values in the model's type, [kv_heads, tokens, head_dim] each."""
        ...

    def seen_by(self, model: Model, layer: int, rows: Tensor) -> Partial:
        """Attention of rows, [kv_heads, n, head_dim], to a part's tokens alone."""
        ...


@dataclass(frozen=True, slots=True)
class KeysValues:
    """Keys before RoPE, the channels of a pair side by side, and values."""

    starts: tuple[int, ...]
    k: Codes
    v: Codes

    @property
    def nbytes(self) -> int:
        return self.k.nbytes + self.v.nbytes

    def part(self, layer: int) -> KeysValues:
        return KeysValues(self.starts, self.k.part(layer), self.v.part(layer))

    def to(self, device: torch.device) -> KeysValues:
        return KeysValues(self.starts, self.k.to(device), self.v.to(device))

    def pinned(self) -> KeysValues:
        return KeysValues(self.starts, self.k.pinned(), self.v.pinned())

    def beside(self, others: Sequence[KeysValues]) -> KeysValues:
        starts = sum((other.starts for other in others), self.starts)
        k, v = self.k.beside([other.k for other in others]), self.v.beside([other.v for other in others])
        return KeysValues(starts, k, v)

    def rebuild(self, model: Model, layer: int) -> tuple[Tensor, Tensor]:
        return unpaired(self._turned(model, layer)).to(model.dtype), self.v.numbers().to(model.dtype)

    def seen_by(self, model: Model, layer: int, rows: Tensor) -> Partial:
        keys = self._turned(model, layer)
        if rows.shape[1] > FEW or rows.device.type != "cpu":
            return partial(paired(rows), keys.to(rows.dtype), self.v.numbers().to(rows.dtype), causal=False)
        weights, mass = _weights(paired(rows), keys)
        return self.v.weighed(weights), mass

    def _turned(self, model: Model, layer: int) -> Tensor:
        """Rotated keys in pairs: a pair as a complex number, turned by a product with another."""
        keys = self.k.numbers()
        turns = _turns(model, layer, self.starts, keys.shape[1] // len(self.starts))
        torch.view_as_complex(keys.view(*keys.shape[:-1], -1, 2)).mul_(turns)
        return keys

    @staticmethod
    def bytes_for(config: ModelConfig, block: int, bits: int) -> int:
        """Bytes of one block of all layers."""
        numbers = config.layers * config.kv_rows * block
        keys = packed_bytes(numbers, bits, group_of(block))
        return keys + packed_bytes(numbers, bits, group_of(config.head_dim))


@dataclass(frozen=True, slots=True)
class Inputs:
    """Each layer's normed input, in groups along channels; filled token by token from its first one on."""

    starts: tuple[int, ...]
    x: Packed  # one head of `width` channels

    @classmethod
    def empty(cls, model: Model, start: int, block: int, bits: int) -> Inputs:
        shape = (model.config.layers, 1, block, model.config.width)
        return cls((start,), pack(torch.zeros(shape, device=model.device), bits, "channels"))

    @property
    def nbytes(self) -> int:
        return self.x.nbytes

    def write(self, layer: int, at: int, x: Tensor) -> None:
        """Keep a layer's normed inputs, [n, width], as the block's tokens from `at` on."""
        self.x.write(layer, at, pack(x[None], self.x.bits, "channels"))

    def part(self, layer: int) -> Inputs:
        return Inputs(self.starts, self.x.part(layer))

    def to(self, device: torch.device) -> Inputs:
        return Inputs(self.starts, self.x.to(device))

    def pinned(self) -> Inputs:
        return Inputs(self.starts, self.x.pinned())

    def beside(self, others: Sequence[Inputs]) -> Inputs:
        starts = sum((other.starts for other in others), self.starts)
        return Inputs(starts, self.x.beside([other.x for other in others]))

    def rebuild(self, model: Model, layer: int) -> tuple[Tensor, Tensor]:
        x = self.x.numbers()[0].to(model.dtype)
        plain, values = model.rebuild(layer, x)
        turns = _turns(model, layer, self.starts, len(x) // len(self.starts))
        return rotate(plain, turns.real, turns.imag), values

    def seen_by(self, model: Model, layer: int, rows: Tensor) -> Partial:
        return seen(rows, *self.rebuild(model, layer))

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
    return KeysValues((start,), encode(paired(plain), bits, "tokens"), encode(values, bits, "channels"))


def seen(rows: Tensor, keys: Tensor, values: Tensor) -> Partial:
    """Attention of rows [heads, n, dh] to keys and values [heads, m, dh]: `partial`, made fast for few rows."""
    if rows.shape[1] > FEW or rows.device.type != "cpu":
        return partial(rows, keys, values, causal=False)
    weights, mass = _weights(rows, keys)
    return torch.bmm(weights.to(values.dtype), values).float(), mass


def _weights(rows: Tensor, keys: Tensor) -> Partial:
    """Softmax over the keys alone, and its log-sum-exp: float32."""
    scores = torch.bmm(rows.to(keys.dtype) * rows.shape[-1] ** -0.5, keys.transpose(1, 2)).float()
    weights = scores.softmax(-1)
    return weights, scores.amax(-1) - weights.amax(-1).log()  # the largest weight is 1 over the sum


def _turns(model: Model, layer: int, starts: tuple[int, ...], block: int) -> Tensor:
    """What turns the pairs of all tokens of blocks that begin at `starts`: complex numbers, [n, head_dim / 2].

    They are made once for a model, not anew for each layer and step.
    """
    made, local = _MADE.setdefault(model, {}), model.config.window(layer) is not None
    stop = starts[-1] + block
    if local not in made or len(made[local]) < stop:
        made[local] = torch.complex(*model.angles(layer, 0, stop))
    table = made[local]
    if stop - starts[0] == len(starts) * block:
        return table[starts[0] : stop]
    return torch.cat([table[start : start + block] for start in starts])
