"""Which sealed blocks are worth rebuilding for a query, judged from a few numbers a block.

Every 64 keys of a block leave a mean and a variance, channel by channel. Were those keys normally
distributed, the sum of exp(q·k) over them would be 64 · exp(q·mean + ½ q²·variance): an estimate of the
attention that the block draws, at 1/32 of the cost of reading its keys. It is a guess, not a bound, so what
was missed is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bunny_engine.config import ModelConfig

__all__ = ["Landmarks", "Tally", "choose"]

_SPAN = 64  # keys that share a landmark


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Of one block's rotated keys: [layers, kv_heads, tokens / 64, head_dim] each, float16."""

    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, keys: Tensor) -> Landmarks:
        """`keys`: [layers, kv_heads, tokens, head_dim]."""
        layers, heads, tokens, channels = keys.shape
        spans = keys.float().view(layers, heads, tokens // _SPAN, _SPAN, channels)
        variance, mean = torch.var_mean(spans, dim=3, correction=0)
        return cls(mean.half(), variance.half())

    @property
    def nbytes(self) -> int:
        return self.mean.nbytes + self.variance.nbytes

    @staticmethod
    def bytes_for(config: ModelConfig, block: int) -> int:
        """Bytes of one block of all layers."""
        return 2 * 2 * config.layers * config.kv_rows * (block // _SPAN)


@dataclass(slots=True)
class Tally:
    """What the sequences of an engine rebuilt and what they left out; one is shared by all of them."""

    rebuilt: int = 0  # (layer, block) pairs
    skipped: int = 0
    covered: float = 0.0  # attention mass that was seen, summed over `watched` rows of all heads
    watched: int = 0

    @property
    def share(self) -> float | None:
        """Mean share of the attention that was really covered, where it was measured."""
        return self.covered / self.watched if self.watched else None

    def figures(self) -> dict[str, float]:
        """By the name that /metrics gives them. The mass covered is a sum over the rows that were looked at."""
        return {
            "blocks_rematerialised_total": float(self.rebuilt),
            "blocks_skipped_total": float(self.skipped),
            "attention_mass_covered_sum": self.covered,
            "attention_mass_covered_count": float(self.watched),
        }


def choose(q: Tensor, seen: Tensor, landmarks: list[Landmarks], layer: int, most: int) -> list[int]:
    """The places of the `most` blocks that promise most attention to all rows together, in order.

    `q` [kv_heads, rows, head_dim], `seen` [kv_heads, rows]: the log-sum-exp over the keys that are read anyway.
    """
    if len(landmarks) <= most:
        return list(range(len(landmarks)))
    rows = q.float() * q.shape[-1] ** -0.5
    mean = torch.stack([block.mean[layer] for block in landmarks], dim=1).float()
    variance = torch.stack([block.variance[layer] for block in landmarks], dim=1).float()
    heads, blocks, spans, channels = mean.shape
    first = torch.bmm(rows, mean.view(heads, -1, channels).transpose(1, 2))
    second = torch.bmm(rows.square(), variance.view(heads, -1, channels).transpose(1, 2))
    drawn = (first + second / 2 + math.log(_SPAN)).view(heads, -1, blocks, spans).logsumexp(-1)
    whole = torch.logaddexp(drawn.logsumexp(-1), seen.float())
    promise = torch.exp(drawn - whole[..., None]).sum((0, 1))
    return sorted(promise.topk(most).indices.tolist())
