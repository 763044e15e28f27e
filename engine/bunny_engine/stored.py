"""A matrix as it is kept: numbers, or codes of few bits with the scales they need.

int8: one scale a row, codes from −127 to 127, as the 8-bit kernels of PyTorch read them. int6 and int4: min-max
in groups of 32 columns, the scale and the least value in float16, codes packed without waste: 7 and 5 bits a
weight. A group of 32 is also that of GGUF's Q4_0 and Q4_1: such a matrix comes back within a float16 rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bunny_engine.packing import Packed, pack

__all__ = ["Stored"]

_GROUP = 32  # columns that share a scale
_BITS = {"int6": 6, "int4": 4}
_PARTS = {
    "int8": ("codes", "scale"),
    "int6": ("high", "low_bits", "scale", "least"),
    "int4": ("codes", "scale", "least"),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """[rows, columns]. `form`: dense, int8, int6 or int4; `parts`: the tensors it is made of, by name."""

    form: str
    parts: dict[str, Tensor]
    shape: tuple[int, int]

    @classmethod
    def dense_of(cls, matrix: Tensor) -> Stored:
        return cls("dense", {"": matrix}, (matrix.shape[0], matrix.shape[1]))

    @classmethod
    def quantised(cls, matrix: Tensor, form: str) -> Stored:
        """A float32 matrix in `form`. int8 moves a number by at most 1/254 of its row's largest, int6 and int4
        by at most half a step of its group.
        """
        shape = (matrix.shape[0], matrix.shape[1])
        if form == "int8":
            scale = matrix.abs().amax(1) / 127
            codes = (matrix / scale.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).round_().to(torch.int8)
            return cls(form, {"codes": codes, "scale": scale}, shape)
        grouped = F.pad(matrix, (0, -shape[1] % _GROUP)).view(shape[0], -1, _GROUP)
        return cls(
            form, dict(zip(_PARTS[form], pack(grouped, _BITS[form], "channels").tensors, strict=True)), shape
        )

    @classmethod
    def layout(cls, form: str, shape: tuple[int, int]) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and type of each part of a matrix in one of the forms of few bits."""
        rows, groups = shape[0], -(-shape[1] // _GROUP)
        if form == "int8":
            return {"codes": (shape, torch.int8), "scale": ((rows,), torch.float32)}
        widths = {"int6": {"high": 16, "low_bits": 8}, "int4": {"codes": 16}}[form]
        planes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            name: ((rows, groups, width), torch.uint8) for name, width in widths.items()
        }
        return planes | dict.fromkeys(("scale", "least"), ((rows, groups, 1, 1), torch.float16))

    @classmethod
    def bits_of(cls, form: str, shape: tuple[int, int]) -> float:
        """Bits a weight, scales and all."""
        dense = {"float32": 32.0, "float16": 16.0, "bfloat16": 16.0}
        if form in dense:
            return dense[form]
        layout = cls.layout(form, shape).values()
        return sum(8 * math.prod(part) * dtype.itemsize for part, dtype in layout) / math.prod(shape)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())

    def to(self, device: torch.device) -> Stored:
        return Stored(self.form, {name: part.to(device) for name, part in self.parts.items()}, self.shape)

    def dense(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The numbers: [rows, columns] in `dtype`; without a copy where they are kept so."""
        if self.form == "dense":
            return self.parts[""].to(dtype)
        return self._numbers(self.parts, dtype)

    def rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        """Some rows, as an embedding needs them: [n] to [n, columns]."""
        if self.form == "dense":
            return F.embedding(ids, self.parts[""]).to(dtype)
        return self._numbers({name: part[ids] for name, part in self.parts.items()}, dtype)

    def codes4(self) -> tuple[Tensor, Tensor, Tensor]:
        """An int4 matrix's codes, int32 [rows, columns], and its scale and least value, [rows, groups]."""
        *planes, scale, least = (self.parts[name] for name in _PARTS["int4"])
        one, none = torch.ones_like(scale), torch.zeros_like(least)
        codes = Packed(tuple(planes), one, none, 4, "channels").numbers().flatten(1)
        return codes[:, : self.shape[1]].int(), scale.flatten(1).float(), least.flatten(1).float()

    def _numbers(self, parts: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
        if self.form == "int8":
            return (parts["codes"].float() * parts["scale"][:, None]).to(dtype)
        *planes, scale, least = (parts[name] for name in _PARTS[self.form])
        numbers = Packed(tuple(planes), scale, least, _BITS[self.form], "channels").numbers()
        return numbers.flatten(1)[:, : self.shape[1]].to(dtype)
