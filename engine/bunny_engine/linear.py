"""Matrices as they are multiplied: which kernel, whatever form they are kept in.

A row's result must not depend on the rows beside it. Products of different shapes give it other last bits
(checked on MKL, oneDNN and FBGEMM), so a form says how many rows decode may run at a time without that: `tile`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bunny_engine.errors import NOT_FINITE, DamagedWeights
from bunny_engine.stored import Stored

__all__ = [
    "HalfLinear",
    "Int4HalfLinear",
    "Int4Linear",
    "Int4Product",
    "Int8Linear",
    "Linear",
    "checked",
    "has_fast_bfloat16",
    "has_half_gemm",
]


class Linear:
    """y = x Wᵀ + b in `dtype`, for x of [n, columns]. Codes are turned back into numbers once, at the start."""

    tile = 1
    says = "multiplied as they are"

    def __init__(self, stored: Stored, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.stored, self.dtype = stored, dtype
        self.bias = None if bias is None else bias.to(dtype)
        self._make()

    def _make(self) -> None:
        self._weight = self.stored.dense(self.dtype)

    def prepare(self) -> None:
        """Make what products need: called before the first one; slow, and safe to call from several threads."""

    @classmethod
    def rows(cls, n: int) -> int:
        """How many rows, at least `n`, are best multiplied in place of `n`."""
        return n

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self.bias)

    def rows_from(self, first: int, x: Tensor) -> Tensor:
        """The product with the weight's rows from `first` on: what rematerialising keys and values needs."""
        return F.linear(x, self._weight[first:], None if self.bias is None else self.bias[first:])


class HalfLinear(Linear):
    """float32 rows by a packed float16 matrix (FBGEMM): half the bytes to read, sums in float32.

    float16 moves a weight by at most 2⁻¹² of itself, an eighth of what bfloat16 would. All rows of a prompt and
    of a batch may be multiplied at once: see `_even`.
    """

    tile = 64
    says = "multiplied as float16, summed in float32"

    def _make(self) -> None:
        self._packed: Any = None
        self._tails: dict[int, Any] = {}

    def prepare(self) -> None:
        if self._packed is None:
            # packing turns what is no number into a large one, so that no product shows it
            self._packed = torch.ops.quantized.linear_prepack_fp16(checked(self.stored.dense()), self.bias)

    @classmethod
    def rows(cls, n: int) -> int:
        return _even(n)

    def __call__(self, x: Tensor) -> Tensor:
        self.prepare()
        return _half_product(x, self._packed)

    def rows_from(self, first: int, x: Tensor) -> Tensor:
        if first not in self._tails:
            bias = None if self.bias is None else self.bias[first:]
            self._tails[first] = torch.ops.quantized.linear_prepack_fp16(self.stored.dense()[first:], bias)
        return _half_product(x, self._tails[first])


class Int8Linear(Linear):
    """bfloat16 rows by an int8 matrix with a scale a row: decode reads half the bytes of bfloat16."""

    says = "multiplied as it is at decode, as bfloat16 at prefill"

    def _make(self) -> None:
        self._codes, self._scale = self.stored.parts["codes"], self.stored.parts["scale"].to(self.dtype)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            return F.linear(x, self.stored.dense(self.dtype), self.bias)
        y: Tensor = torch.ops.aten._weight_int8pack_mm(x, self._codes, self._scale)
        return y if self.bias is None else y + self.bias

    def rows_from(self, first: int, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias[first:]
        return F.linear(x, self.stored.dense(self.dtype)[first:], bias)


class Int4Linear(Int8Linear):
    """bfloat16 rows by a matrix of four bits: decode reads a third of the bytes of bfloat16."""

    says = "multiplied by bfloat16 rows at decode, as bfloat16 at prefill"

    def _make(self) -> None:
        self._product = Int4Product(self.stored, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x) if len(x) == 1 else F.linear(x, self.stored.dense(self.dtype), self.bias)


class Int4HalfLinear(HalfLinear):
    """float32 rows: a few of them by four bits, rounded to bfloat16; many by a packed float16 copy.

    Where memory is slow, decode is as fast as the weights are read: a row takes two thirds of the time.
    """

    tile = 8
    says = "multiplied by bfloat16 rows at decode, as float16 at prefill"

    def prepare(self) -> None:
        if self._packed is None:
            self._product = Int4Product(self.stored, self.bias)
        super().prepare()

    @classmethod
    def rows(cls, n: int) -> int:
        return n if n <= cls.tile else _even(n)

    def __call__(self, x: Tensor) -> Tensor:
        self.prepare()
        return self._product(x) if len(x) <= self.tile else super().__call__(x)


class Int4Product:
    """PyTorch's kernel for four bits in groups of 32; the codes lie in its own order."""

    def __init__(self, stored: Stored, bias: Tensor | None) -> None:
        codes, scale, least = stored.codes4()
        self._codes = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        # the kernel reads (code − 8) · scale + zero, groups first
        zeros = least + 8 * scale
        self._scale = torch.stack((scale, zeros), dim=-1).transpose(0, 1).contiguous().bfloat16()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x.bfloat16(), self._codes, 32, self._scale)
        return y.to(x.dtype) if self._bias is None else y.to(x.dtype) + self._bias

    @staticmethod
    def fits(stored: Stored) -> bool:
        """Whether the kernel takes such a matrix, and is fast on this CPU."""
        rows, columns = stored.shape
        vectors = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        return stored.form == "int4" and rows % 16 == 0 and columns % 32 == 0 and vectors


def checked(weight: Tensor) -> Tensor:
    """The matrix, if its numbers are finite. Raises DamagedWeights."""
    if not bool(weight.sum(dtype=torch.float32).isfinite()):
        raise DamagedWeights(NOT_FINITE)
    return weight


def _half_product(x: Tensor, packed: Any) -> Tensor:
    n = len(x)
    rows = _even(n)
    if rows == n:
        whole: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, packed)
        return whole
    filled: Tensor = torch.ops.quantized.linear_dynamic_fp16(F.pad(x, (0, 0, 0, rows - n)), packed)
    return filled[:n]


@lru_cache(maxsize=4096)
def _even(n: int) -> int:
    """The least number of rows from `n` on whose product gives each row its usual bits.

    FBGEMM cuts rows into tiles, and the kernels of its smallest tiles add in another order: a row of a product
    of 1, 2 or 7 rows may differ in its last bits from the same row of 4 or 256. Which do is found by trial.
    """
    rows, (x, packed, usual) = n, _trial()
    while rows < n + 64:
        part = x[:rows] if rows <= len(x) else x.repeat(-(-rows // len(x)), 1)[:rows]
        found = torch.ops.quantized.linear_dynamic_fp16(part, packed)
        if torch.equal(found, usual.repeat(-(-rows // len(x)), 1)[:rows]):
            return rows
        rows += 1
    return n  # a library that keeps no order at all: nothing to gain


@lru_cache(maxsize=1)
def _trial() -> tuple[Tensor, Any, Tensor]:
    """Rows, a matrix, and the bits that each row has as the first of many."""
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(48, 640, generator=generator), torch.randn(32, 640, generator=generator)
    packed = torch.ops.quantized.linear_prepack_fp16(weight, None)
    first = [torch.ops.quantized.linear_dynamic_fp16(x.roll(-row, 0), packed)[0] for row in range(len(x))]
    return x, packed, torch.stack(first)


def has_fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 in hardware. Where it does not, a bf16 product is 8 times slower."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@lru_cache(maxsize=1)
def has_half_gemm() -> bool:
    """Whether FBGEMM's float16 product runs on this CPU."""
    try:
        packed = torch.ops.quantized.linear_prepack_fp16(torch.eye(8), None)
        torch.ops.quantized.linear_dynamic_fp16(torch.zeros(2, 8), packed)
    except (RuntimeError, AttributeError):
        return False
    return True
