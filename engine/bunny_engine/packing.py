"""Numbers in few bits: asymmetric min-max quantisation in groups, and codes packed without waste.

Keys are grouped along tokens, channel by channel, for their outliers sit in fixed channels; values along
channels, token by token (KIVI, 2402.02750; before RoPE, as KVQuant, 2401.18079, found). A group of 64 shares a
scale and a least value in float16: half a bit a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor

__all__ = ["BITS", "Along", "Packed", "Parts", "group_of", "pack", "packed_bytes"]

BITS = (3, 4, 8, 16)
Along = Literal["tokens", "channels"]
_GROUP = 64
_PLANES = {8: (8,), 6: (4, 2), 4: (4,), 3: (2, 1)}  # how a code is split so that each part fills whole bytes


class Parts:
    """What numbers in few bits are made of, taken, moved and copied together."""

    __slots__ = ()
    planes: tuple[Tensor, ...]
    scale: Tensor
    low: Tensor

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.planes, self.scale, self.low)

    def part(self, layer: int) -> Self:
        """A view of one layer."""
        return self._over([tensor[layer] for tensor in self.tensors])

    def to(self, device: torch.device) -> Self:
        """On another device; from pinned memory the copy does not wait."""
        return self._over([tensor.to(device, non_blocking=True) for tensor in self.tensors])

    def pinned(self) -> Self:
        """A copy in page-locked host memory, which a device reads while it computes."""
        return self._over([tensor.cpu().pin_memory() for tensor in self.tensors])

    def _over(self, tensors: Sequence[Tensor]) -> Self:
        *planes, scale, low = tensors
        return replace(self, planes=tuple(planes), scale=scale, low=low)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Packed(Parts):
    """Numbers of [layers, heads, tokens, channels], or of one layer, in `bits` each."""

    planes: tuple[Tensor, ...]  # uint8, the channels of one byte lie a fraction of the row apart; or float16
    scale: Tensor  # float16, one a group; none at 16 bits
    low: Tensor
    bits: int
    along: Along

    def numbers(self) -> Tensor:
        """The numbers, float32, in the shape that was packed."""
        if self.bits == 16:
            return self.planes[0].float()
        codes: Tensor | None = None
        for plane, width in zip(self.planes, _PLANES[self.bits], strict=True):
            part = _spread(plane, width)
            codes = part if codes is None else codes.bitwise_left_shift_(width).bitwise_or_(part)
        assert codes is not None
        grouped = _grouped(codes.float(), self.along)
        grouped.mul_(self.scale.float()).add_(self.low.float())
        return grouped.view(codes.shape)

    def write(self, layer: int, at: int, other: Packed) -> None:
        """Put one layer's tokens, packed along channels, at token `at`: each token's groups are its own."""
        for mine, theirs in zip(self.tensors, other.tensors, strict=True):
            mine[layer, :, at : at + theirs.shape[1]] = theirs

    def beside(self, others: Sequence[Packed]) -> Packed:
        """One layer of these tokens and of the others' behind them, packed along channels."""
        rows = zip(self.tensors, *(other.tensors for other in others), strict=True)
        return self._over([torch.cat(tensors, dim=1) for tensors in rows])

    def tokens(self, start: int, stop: int) -> Packed:
        """A copy of the tokens from `start` up to `stop`, packed along channels."""
        return self._over([tensor[:, :, start:stop].clone() for tensor in self.tensors])


def pack(x: Tensor, bits: int, along: Along) -> Packed:
    """Quantise [..., tokens, channels]. Each number moves by at most half a step of its group.

    At 16 bits each is a float16 of its own, and what lies beyond its range is its largest.
    """
    if bits == 16:
        nothing = torch.empty(*x.shape[:-1], 0, dtype=torch.float16, device=x.device)
        return Packed((x.clamp(-65504, 65504).half(),), nothing, nothing, bits, along)
    grouped = _grouped(x.float(), along)
    axis = -2 if along == "tokens" else -1
    low = grouped.amin(axis, keepdim=True)
    scale = (grouped.amax(axis, keepdim=True) - low) / (2**bits - 1)
    low, scale = low.half(), scale.half()
    step = torch.where(scale > 0, scale, 1).float()  # a group of equal numbers has no step
    codes = ((grouped - low.float()) / step).round_().clamp_(0, 2**bits - 1).to(torch.uint8).view(x.shape)
    planes, left = [], bits
    for width in _PLANES[bits]:
        left -= width
        planes.append(_squeeze(codes.bitwise_right_shift(left).bitwise_and(2**width - 1), width))
    return Packed(tuple(planes), scale, low, bits, along)


def packed_bytes(numbers: int, bits: int, group: int) -> int:
    """Bytes of so many numbers: their codes, and a scale and a least value a group."""
    return numbers * bits // 8 + (0 if bits == 16 else numbers // group * 4)


def group_of(extent: int) -> int:
    """How many numbers along an axis of `extent` share a scale."""
    return _GROUP if extent % _GROUP == 0 else extent


def _grouped(x: Tensor, along: Along) -> Tensor:
    """A view with the axis that is grouped split in two: groups, and the numbers of one."""
    *head, tokens, channels = x.shape
    if along == "tokens":
        return x.view(*head, tokens // group_of(tokens), group_of(tokens), channels)
    return x.view(*head, tokens, channels // group_of(channels), group_of(channels))


def _squeeze(codes: Tensor, width: int) -> Tensor:
    """Codes of `width` bits into bytes: the row's parts, one above the other."""
    packed: Tensor | None = None
    for place, part in enumerate(codes.chunk(8 // width, dim=-1)):
        shifted = part.bitwise_left_shift(place * width)
        packed = shifted if packed is None else packed.bitwise_or_(shifted)
    assert packed is not None
    return packed.contiguous()


def _spread(packed: Tensor, width: int) -> Tensor:
    """The inverse of `_squeeze`."""
    if width == 8:
        return packed
    parts = [
        packed.bitwise_right_shift(place * width).bitwise_and_(2**width - 1) for place in range(8 // width)
    ]
    return torch.cat(parts, dim=-1)
