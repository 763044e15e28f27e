"""The Llama family's forward pass: RMSNorm, RoPE, grouped-query attention, SwiGLU.

`chunk` runs a piece of one prompt, `tokens` one token of each of several sequences; both are `_forward` with
another way to attend and to multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bunny_engine.config import ModelConfig
from bunny_engine.linear import Linear
from bunny_engine.memory import DenseMemory, Memory
from bunny_engine.rope import Rope, rotate

__all__ = ["Model"]

Attend = Callable[[int, Tensor, Tensor, Tensor, Tensor], Tensor]  # layer, q, k, v, the layer's normed input
Multiply = Callable[[Linear, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class _Layer:
    attn_norm: Tensor
    mlp_norm: Tensor
    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None


class Model:
    """`tensors` are named as `ModelConfig.shapes` says; `linear` makes the form that matrices multiply in."""

    def __init__(
        self,
        config: ModelConfig,
        tensors: dict[str, Tensor],
        linear: Callable[[Tensor, Tensor | None], Linear] = Linear,
        context: int | None = None,
    ) -> None:
        self.config = config
        self.embed = tensors["embed"]
        self.dtype, self.device = self.embed.dtype, self.embed.device
        self._norm = tensors["norm"]
        self._head = linear(tensors.get("head", self.embed), None)
        self.rope = Rope(tensors["inv_freq"], max(context or config.context, 2))  # two: what `prepare` runs
        self.tile = self._head.tile
        self._layers = []
        for index in range(config.layers):
            mine = f"layers.{index}."
            self._layers.append(
                _Layer(
                    attn_norm=tensors[mine + "attn_norm"],
                    mlp_norm=tensors[mine + "mlp_norm"],
                    qkv=linear(tensors[mine + "qkv"], tensors.get(mine + "qkv_bias")),
                    out=linear(tensors[mine + "out"], None),
                    gate_up=linear(tensors[mine + "gate_up"], None),
                    down=linear(tensors[mine + "down"], None),
                    q_norm=tensors.get(mine + "q_norm"),
                    k_norm=tensors.get(mine + "k_norm"),
                )
            )

    def prepare(self) -> None:
        """Make the matrices' decode forms and touch all weights, so that the first request finds them warm."""
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(pool.map(lambda matrix: matrix.prepare(), self._matrices()))
        memory = DenseMemory(self.config, 2, self.dtype, self.device)
        self.chunk(torch.zeros(1, dtype=torch.long, device=self.device), memory)
        self.tokens([0], [memory])

    def _matrices(self) -> Iterator[Linear]:
        yield self._head
        for layer in self._layers:
            yield from (layer.qkv, layer.out, layer.gate_up, layer.down)

    def chunk(self, ids: Tensor, memory: Memory) -> Tensor:
        """Run the next n tokens of one sequence. Returns normed hidden states, [n, width]."""
        n, start = len(ids), memory.length
        hidden = self._forward(ids, self.rope.span(start, start + n), memory.chunk, Linear.__call__)
        memory.advance(n)
        return hidden

    def tokens(self, ids: Sequence[int], memories: Sequence[Memory]) -> Tensor:
        """Run one token of each sequence, at most `tile` of them. Returns float32 logits, [sequences, vocab].

        Always `tile` rows are multiplied: so a sequence's numbers do not depend on how many run beside it.
        """
        live, spare = len(ids), self.tile - len(ids)
        positions = torch.tensor([memory.length for memory in memories] + [0] * spare, device=self.device)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
            out = q.new_zeros(len(q), q.shape[1] * q.shape[2])
            for row, memory in enumerate(memories):
                out[row] = memory.one(layer, q[row], k[row], v[row], x[row])
            return out

        rows = torch.tensor([*ids, *[0] * spare], device=self.device)
        hidden = self._forward(rows, self.rope.at(positions), attend, type(self._head).few)
        for memory in memories:
            memory.advance(1)
        return self._head.few(hidden)[:live].float()

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits of normed hidden states: [n, width] to [n, vocab]."""
        return self._head(hidden).float()

    def angles(self, layer: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines that this layer turns positions `start` up to `stop` by; see `Rope.span`."""
        return self.rope.span(start, stop)

    def rebuild(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys before RoPE, and values, of a layer's normed inputs: [n, width] to [kv_heads, n, head_dim]."""
        c, mine = self.config, self._layers[layer]
        heads = mine.qkv.rows_from(c.q_rows, x).view(len(x), 2, c.kv_heads, c.head_dim)
        k, v = heads[:, 0], heads[:, 1]
        if mine.k_norm is not None:
            k = self._rms(k, mine.k_norm)
        return k.transpose(0, 1), v.transpose(0, 1)

    def _forward(
        self, ids: Tensor, angles: tuple[Tensor, Tensor], attend: Attend, multiply: Multiply
    ) -> Tensor:
        c = self.config
        cos, sin = angles[0][:, None], angles[1][:, None]
        x = F.embedding(ids, self.embed)
        for index, layer in enumerate(self._layers):
            normed = self._rms(x, layer.attn_norm)
            qkv = multiply(layer.qkv, normed)
            heads = qkv.view(len(ids), -1, c.head_dim)
            qk, v = heads[:, : -c.kv_heads], heads[:, -c.kv_heads :]
            if layer.q_norm is not None and layer.k_norm is not None:
                q, k = qk[:, : c.heads], qk[:, c.heads :]
                qk = torch.cat((self._rms(q, layer.q_norm), self._rms(k, layer.k_norm)), dim=1)
            qk = rotate(qk, cos, sin)
            attended = attend(index, qk[:, : c.heads], qk[:, c.heads :], v, normed)
            x = x + multiply(layer.out, attended)
            gate, up = multiply(layer.gate_up, self._rms(x, layer.mlp_norm)).chunk(2, dim=-1)
            x = x + multiply(layer.down, F.silu(gate).mul_(up))
        return self._rms(x, self._norm)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x.float(), weight.shape, weight, self.config.norm_eps).to(x.dtype)
