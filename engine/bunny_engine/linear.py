"""Matrices as they are multiplied: one form for many rows (prefill), one for few (decode).

A product of fixed shape gives each row the same bits wherever it stands and whatever stands beside it; products
of different shapes do not (checked on MKL, oneDNN and FBGEMM). So decode always runs tiles of `tile` rows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["HalfLinear", "Linear", "has_fast_bfloat16", "has_half_gemm"]


class Linear:
    """y = x Wᵀ + b, for x of [n, columns]; `tile` is how many rows decode runs at a time."""

    tile = 1

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight
        self.bias = None if bias is None else bias.to(weight.dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def prepare(self) -> None:
        """Make what `few` needs: called once, before it; slow, and safe to call from several threads."""

    def few(self, x: Tensor) -> Tensor:
        """The same product for `tile` rows."""
        return F.linear(x, self.weight, self.bias)

    def rows_from(self, first: int, x: Tensor) -> Tensor:
        """The product with the weight's rows from `first` on: what rematerialising keys and values needs."""
        return F.linear(x, self.weight[first:], None if self.bias is None else self.bias[first:])


class HalfLinear(Linear):
    """A float32 matrix with a packed float16 copy for decode, which reads half the bytes (FBGEMM).

    The copy rounds each weight by at most 2⁻¹² of itself, eight times less than bfloat16 would.
    """

    tile = 4  # rows: reading the weights takes most of the time, so four take hardly longer than one
    _packed: Any = None

    def prepare(self) -> None:
        if self._packed is None:
            self._packed = torch.ops.quantized.linear_prepack_fp16(self.weight, self.bias)

    def few(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self._packed)
        return y


def has_fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 in hardware. Where it does not, a bf16 product is 8 times slower."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_half_gemm() -> bool:
    """Whether FBGEMM's float16 product runs on this CPU."""
    try:
        packed = torch.ops.quantized.linear_prepack_fp16(torch.eye(8), None)
        torch.ops.quantized.linear_dynamic_fp16(torch.zeros(2, 8), packed)
    except (RuntimeError, AttributeError):
        return False
    return True
