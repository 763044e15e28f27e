"""Where a model's attention goes as it reads on: by block and layer, over real text.

Measured on dense keys and values, so nothing is lost in what is counted: for each token the exact share of each
head's attention that falls on the first four tokens, on the newest three blocks, and on those between.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bunny_engine.memory import DenseMemory
from bunny_engine.memory_choice import Landmarks, choose
from bunny_engine.model import Model

__all__ = ["locality"]

_SINK = 4  # tokens
_NEAR = 3  # newest blocks
_NEEDED = 0.1  # of a head's attention: beyond it, blocks are called needed


class _Watched(DenseMemory):
    """A dense memory that keeps each decode step's attention by block."""

    def __init__(self, model: Model, capacity: int, block: int, most: tuple[int, ...]) -> None:
        super().__init__(model.config, capacity, model.dtype, model.device)
        self._block, self._most = block, most
        layers = model.config.layers
        self.sink, self.near, self.far = ([0.0] * layers for _ in range(3))
        self.needing_heads, self.needing_steps = [0.0] * layers, [0] * layers
        self.few = [0.0] * layers  # blocks between that hold nine tenths of what the blocks between draw
        self.covered = dict.fromkeys(most, 0.0)
        self.best = dict.fromkeys(most, 0.0)
        self.between = 0  # blocks
        self.steps = 0

    def one(self, layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        out = super().one(layer, q, k, v, x)
        keys = self._k[layer, :, : self.length + 1]
        rows = q.view(len(k), -1, q.shape[1])
        scores = torch.bmm(rows, keys.transpose(1, 2)).float() * q.shape[1] ** -0.5
        if (window := self._windows[layer]) is not None:
            scores[..., : max(0, self.length + 1 - window)] = -torch.inf
        mass = scores.softmax(-1).view(-1, self.length + 1)  # [heads, tokens]
        newest = self.length // self._block
        first_near = max(1, newest + 1 - _NEAR) * self._block
        self.sink[layer] += float(mass[:, :_SINK].sum(1).mean())
        self.near[layer] += float(mass[:, first_near:].sum(1).mean())
        far = mass[:, self._block : first_near]
        blocks = far.view(len(far), -1, self._block).sum(2)  # [heads, blocks between]
        whole = blocks.sum(1)
        self.far[layer] += float(whole.mean())
        self.needing_heads[layer] += float((whole > _NEEDED).float().mean())
        self.needing_steps[layer] += int((whole > _NEEDED).any())
        if blocks.shape[1]:
            self._watch_choice(layer, rows, scores, blocks, first_near)
        if layer == 0:
            self.steps += 1
            self.between = blocks.shape[1]
        return out

    def _watch_choice(self, layer: int, rows: Tensor, scores: Tensor, blocks: Tensor, first_near: int) -> None:
        """What the cheap score of `top-blocks` would cover here, and what the best choice would."""
        ordered = blocks.sum(0).sort(descending=True).values
        shares = ordered.cumsum(0) / ordered.sum()
        self.few[layer] += int((shares < 0.9).sum()) + 1
        keys = self._k[layer, :, self._block : first_near]
        marks = [
            Landmarks.of(keys[None, :, at : at + self._block]) for at in range(0, keys.shape[1], self._block)
        ]
        dense = torch.cat((scores[..., : self._block], scores[..., first_near:]), -1).logsumexp(-1)
        missing = blocks.sum(1).mean()
        for most in self._most:
            places = choose(rows, dense, marks, 0, most)
            self.covered[most] += float(1 - missing + blocks[:, places].sum(1).mean())
            self.best[most] += float(1 - missing + ordered[:most].sum() / len(blocks))


def locality(
    model: Model, ids: list[int], *, block: int = 512, steps: int = 32, most: tuple[int, ...] = (1, 2, 4, 8)
) -> dict[str, Any]:
    """Attention of the last `steps` tokens of `ids`, read one by one behind the rest."""
    memory = _Watched(model, len(ids), block, most)
    head, tail = ids[:-steps], ids[-steps:]
    for start in range(0, len(head), 256):
        model.chunk(torch.tensor(head[start : start + 256], device=model.device), memory)
    for token in tail:
        model.tokens([token], [memory])
    layers, n = model.config.layers, memory.steps
    rows = [
        {
            "layer": layer,
            "first_4_tokens": memory.sink[layer] / n,
            "newest_3_blocks": memory.near[layer] / n,
            "blocks_between": memory.far[layer] / n,
            "steps_needing_one": memory.needing_steps[layer] / n,
            "heads_needing_one": memory.needing_heads[layer] / n,
            "blocks_for_nine_tenths": memory.few[layer] / n,
        }
        for layer in range(layers)
    ]
    mean = {name: sum(row[name] for row in rows) / layers for name in rows[0] if name != "layer"}
    return {
        "length": len(ids),
        "steps": n,
        "block": block,
        "blocks_between": memory.between,
        "needed_from": _NEEDED,
        "layers": rows,
        "mean": mean,
        "top": [
            {
                "most": k,
                "covered": memory.covered[k] / n / layers,
                "best_possible": memory.best[k] / n / layers,
            }
            for k in most
            if k <= memory.between
        ],
    }
