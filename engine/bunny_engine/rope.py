"""Rotary position embedding (Su et al., 2104.09864): frequencies, angles and the rotation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bunny_engine.errors import DamagedWeights, UnsupportedModel

__all__ = ["Rope", "frequencies", "rotate", "turn", "whole"]


def frequencies(head_dim: int, base: float, scaling: Mapping[str, Any] | None = None) -> Tensor:
    """Radians a position turns each of the head's pairs by: float32, [head_dim / 2].

    `scaling` is the `rope_scaling` of a Hugging Face config: none, `linear`, or `llama3` (wavelengths beyond
    the original context are stretched, those between are blended; Llama 3.1, section 3.4 of 2407.21783).
    Raises UnsupportedModel for another kind, DamagedWeights for values out of range.
    """
    # In float32 throughout, as the models were trained: a last bit more is a phase off by 1e-5 at position 200.
    frequency = 1.0 / base ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    kind = "default" if not scaling else scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default" or scaling is None:
        return frequency
    if kind not in ("linear", "llama3"):
        raise UnsupportedModel(f"RoPE scaling {kind!r} is not implemented; linear and llama3 are")
    factor = _positive(scaling, "factor")
    if kind == "linear":
        return frequency / factor
    low, high = _positive(scaling, "low_freq_factor"), _positive(scaling, "high_freq_factor")
    original = _positive(scaling, "original_max_position_embeddings")
    if high <= low:
        raise DamagedWeights(f"rope_scaling: high_freq_factor {high} is not above low_freq_factor {low}")
    turns = original * frequency / (2 * math.pi)  # over the original context
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - keep) * frequency / factor + keep * frequency


def _positive(scaling: Mapping[str, Any], key: str) -> float:
    value = scaling.get(key)
    if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise DamagedWeights(f"rope_scaling: {key} = {value!r}")
    return float(value)


class Rope:
    """Cosines and sines of every position; in float32, for in bf16 they are noise past position 256."""

    def __init__(self, inv_freq: Tensor, length: int) -> None:
        self._inv_freq = inv_freq.float()
        self._cos = self._sin = torch.empty(0, inv_freq.numel(), device=inv_freq.device)
        self._limit = length
        self._grow(min(length, 2048))

    def _grow(self, length: int) -> None:
        length = min(self._limit, max(length, 2 * len(self._cos)))
        position = torch.arange(length, dtype=torch.float32, device=self._inv_freq.device)
        angle = torch.outer(position, self._inv_freq)
        self._cos, self._sin = angle.cos(), angle.sin()

    def span(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of positions `start` up to `stop`: float32, [stop - start, head_dim / 2]."""
        if stop > len(self._cos):
            self._grow(stop)
        return self._cos[start:stop], self._sin[start:stop]

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of each position: float32, [n, head_dim / 2]."""
        if (top := int(positions.max()) + 1) > len(self._cos):
            self._grow(top)
        return self._cos[positions], self._sin[positions]


def whole(cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of whole heads, as `turn` takes them: [..., head_dim / 2] to [..., head_dim]."""
    return torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`rotate` in fewer operations, for angles that many layers share and `whole` has prepared."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (i, i + head_dim / 2) of `x`, [..., n, head_dim], in float32; the result has x's type."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    turned = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    torch.mul(first, cos, out=turned[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=turned[..., half:]).addcmul_(first, sin)
    return turned.to(x.dtype)
