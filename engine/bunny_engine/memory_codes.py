"""What a sealed block's keys and values are stored as: codes of few bits, laid out to be read fast.

Min-max quantisation in groups of 64, a scale and a least value in float16 each: keys along tokens, channel by
channel, for their outliers sit in fixed channels; values along channels, token by token (KIVI, 2402.02750).

Not every channel of a key deserves the same bits. Queries look at the pairs of channels that RoPE turns slowly:
they carry the large numbers, and half a step there moves a score more than everything in the fast pairs. So 4
bits, and 3, are an average of 6, 4 and 2, the more the slower. `paired` puts a pair's two channels side by
side, the fastest pair first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bunny_engine.packing import Along, Parts, group_of

__all__ = ["Codes", "encode", "paired", "unpaired"]

Bands = tuple[tuple[int, int], ...]  # bits, and how many channels have them, in the order of the channels
_SPLITS = {8: (8,), 6: (4, 2), 4: (4,), 3: (2, 1), 2: (2,)}  # a code's parts, each of which fills whole bytes


def paired(x: Tensor) -> Tensor:
    """Channels (i, i + half) of [..., channels], which RoPE turns together, side by side."""
    return x.reshape(*x.shape[:-1], 2, -1).transpose(-1, -2).flatten(-2)


def unpaired(x: Tensor) -> Tensor:
    """The inverse of `paired`."""
    return x.reshape(*x.shape[:-1], -1, 2).transpose(-1, -2).flatten(-2)


def bands_of(bits: int, channels: int, along: Along) -> Bands:
    """How the bits are shared out: evenly, but for keys in few bits, whose slow pairs get more."""
    if along == "tokens" and bits == 4 and channels % 16 == 0:
        return ((2, channels // 4), (4, channels // 2), (6, channels // 4))
    if along == "tokens" and bits == 3 and channels % 32 == 0:
        return ((2, channels * 5 // 8), (4, channels // 4), (6, channels // 8))
    return ((bits, channels),)


@dataclass(frozen=True, slots=True)
class Codes(Parts):
    """Numbers of [layers, heads, tokens, channels], or of one layer, in `bits` each on average."""

    planes: tuple[Tensor, ...]  # uint8, neighbours share a byte: the widest parts first; or float16
    scale: Tensor  # float16, one a group; none at 16 bits
    low: Tensor
    bits: int
    along: Along
    channels: int

    def beside(self, others: Sequence[Codes]) -> Codes:
        """One layer of these tokens and of the others' behind them, in one piece."""
        rows = zip(self.tensors, *(other.tensors for other in others), strict=True)
        return self._over([torch.cat(tensors, dim=1) for tensors in rows])

    def plain(self) -> Tensor:
        """The codes as float32; at 16 bits the numbers."""
        if self.bits == 16:
            return self.planes[0].float()
        bands = bands_of(self.bits, self.channels, self.along)
        widths = _widths(bands)
        rows = {width: _spread(plane, width) for width, plane in zip(widths, self.planes, strict=True)}
        taken, found = dict.fromkeys(widths, 0), []
        for bits, channels in bands:
            code: Tensor | None = None
            for width in _SPLITS[bits]:
                part = rows[width][..., taken[width] : taken[width] + channels]
                taken[width] += channels
                code = part if code is None else code.bitwise_left_shift(width).bitwise_or_(part)
            assert code is not None
            found.append(code)
        return (found[0] if len(found) == 1 else torch.cat(found, dim=-1)).float()

    def numbers(self) -> Tensor:
        """The numbers, float32, in the shape that was encoded."""
        codes = self.plain()
        if self.bits < 16:
            grouped = _grouped(codes, self.along)
            torch.addcmul(self.low.float(), grouped, self.scale.float(), out=grouped)
        return codes

    def weighed(self, weights: Tensor) -> Tensor:
        """Sums along tokens of one layer's numbers, grouped along channels: weights [heads, rows, tokens] give
        [heads, rows, channels]. Scales are multiplied into the few weights and not into the many codes.
        """
        codes = self.plain()
        if self.bits == 16:
            return torch.bmm(weights, codes)
        scale, low = (tensor.float()[..., 0].permute(2, 0, 1)[:, :, None] for tensor in (self.scale, self.low))
        size = group_of(self.channels)  # scale and low: [groups, heads, 1, tokens]
        sums = [
            torch.bmm(weights * scale[group], codes[..., group * size : (group + 1) * size])
            + (weights * low[group]).sum(-1, keepdim=True)
            for group in range(len(scale))
        ]
        return sums[0] if len(sums) == 1 else torch.cat(sums, dim=-1)


def encode(x: Tensor, bits: int, along: Along) -> Codes:
    """Quantise [..., tokens, channels]; keys (`along` tokens) in the order of `paired`. Each number moves by at
    most half a step of its group.

    At 16 bits each is a float16 of its own, and what lies beyond its range is its largest.
    """
    channels = x.shape[-1]
    if bits == 16:
        nothing = torch.empty(*x.shape[:-1], 0, dtype=torch.float16, device=x.device)
        return Codes((x.clamp(-65504, 65504).half(),), nothing, nothing, bits, along, channels)
    bands = bands_of(bits, channels, along)
    grouped, axis = _grouped(x.float(), along), -2 if along == "tokens" else -1
    most = torch.tensor([2.0**width - 1 for width, count in bands for _ in range(count)], device=x.device)
    most = most if along == "tokens" else most[0]
    low = grouped.amin(axis, keepdim=True)
    scale = (grouped.amax(axis, keepdim=True) - low) / most
    low, scale = low.half(), scale.half()
    step = torch.where(scale > 0, scale, 1).float()  # a group of equal numbers has no step
    codes = ((grouped - low.float()) / step).round_().clamp_min_(0)
    codes = torch.minimum(codes, most).to(torch.uint8).view(x.shape)
    parts: dict[int, list[Tensor]] = {width: [] for width in _widths(bands)}
    at = 0
    for left, count in bands:
        band, at = codes[..., at : at + count], at + count
        for width in _SPLITS[left]:
            left -= width
            parts[width].append(band.bitwise_right_shift(left).bitwise_and_(2**width - 1))
    planes = tuple(_squeeze(torch.cat(rows, dim=-1), width) for width, rows in parts.items())
    return Codes(planes, scale, low, bits, along, channels)


def _widths(bands: Bands) -> list[int]:
    """Of the parts that codes are split into, the widest first: a plane each."""
    return sorted({width for bits, _ in bands for width in _SPLITS[bits]}, reverse=True)


def _grouped(x: Tensor, along: Along) -> Tensor:
    """A view with the axis that is grouped split in two: groups, and the numbers of one."""
    *head, tokens, channels = x.shape
    if along == "tokens":
        return x.view(*head, tokens // group_of(tokens), group_of(tokens), channels)
    return x.view(*head, tokens, channels // group_of(channels), group_of(channels))


def _squeeze(codes: Tensor, width: int) -> Tensor:
    """Codes of `width` bits into bytes: neighbours share one, the first in its lowest bits."""
    beside = codes.view(*codes.shape[:-1], -1, 8 // width)
    packed = beside[..., 0].clone()
    for place in range(1, 8 // width):
        packed.bitwise_or_(beside[..., place].bitwise_left_shift(width * place))
    return packed


def _spread(packed: Tensor, width: int) -> Tensor:
    """The inverse of `_squeeze`: bits move apart within a word that is as wide as the byte's codes will be."""
    if width == 8:
        return packed
    word = packed.to({4: torch.int16, 2: torch.int32, 1: torch.int64}[width])
    if width == 1:
        word = word.mul_(1 + (1 << 28)).bitwise_and_(0x0000000F0000000F)
        word = word.mul_(1 + (1 << 14)).bitwise_and_(0x0003000300030003)
        word = word.mul_(1 + (1 << 7)).bitwise_and_(0x0101010101010101)
    elif width == 2:
        word = word.mul_(1 + (1 << 12)).bitwise_and_(0x000F000F)
        word = word.mul_(1 + (1 << 6)).bitwise_and_(0x03030303)
    else:
        word = word.bitwise_left_shift(4).bitwise_or_(word).bitwise_and_(0x0F0F)
    return word.view(torch.uint8)
