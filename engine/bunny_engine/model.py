"""The Llama family's forward pass: RMSNorm, RoPE, grouped-query attention, SwiGLU; and what Gemma 3 adds to it.

`chunk` runs a piece of one prompt, `tokens` one token of each of several sequences; both are `_forward` with
another way to attend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from bunny_engine.config import ModelConfig
from bunny_engine.errors import NOT_FINITE, DamagedWeights
from bunny_engine.linear import Linear, checked
from bunny_engine.memory import DenseMemory, Memory
from bunny_engine.rope import Rope, turn, whole
from bunny_engine.stored import Stored

__all__ = ["Model"]

Angles = tuple[Tensor, Tensor]  # cosines and sines, [n, head_dim / 2]
Attend = Callable[[int, Tensor, Tensor, Tensor, Tensor], Tensor]  # layer, q, k, v, the layer's normed input


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
    attn_post_norm: Tensor | None
    mlp_post_norm: Tensor | None


class BatchDecoder(Protocol):
    """One token for several sequences at once; None where their memories are not of its kind."""

    def tokens(self, ids: Sequence[int], memories: Sequence[Memory]) -> Tensor | None: ...


class Model:
    """`tensors` are named as `ModelConfig.shapes` says; `form` gives the kernel that a matrix is multiplied by.

    `dtype`: of what flows between the layers; the embedding's own where none is named.
    """

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, Tensor | Stored],
        form: Callable[[Stored], type[Linear]] = lambda stored: Linear,
        context: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.config = config
        vectors = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
        matrices = {
            name: tensor if isinstance(tensor, Stored) else Stored.dense_of(tensor)
            for name, tensor in tensors.items()
            if name in config.matrices()
        }
        self.embed = matrices["embed"]
        self.dtype = dtype or next(iter(self.embed.parts.values())).dtype
        self.device = vectors["norm"].device

        def linear(name: str, bias: str = "") -> Linear:
            stored = matrices[name]
            return form(stored)(stored, vectors.get(bias), self.dtype)

        self._norm = vectors["norm"]
        self._eps = torch.tensor(config.norm_eps, device=self.device)
        self._head = linear("embed" if config.tied else "head")
        length = max(context or config.context, 2)  # two: what `prepare` runs
        self.rope = Rope(vectors["inv_freq"], length)
        self.local_rope = Rope(vectors["inv_freq_local"], length) if config.local_window else self.rope
        self._activate = F.silu if config.activation == "silu" else partial(F.gelu, approximate="tanh")
        self._layers = []
        for index in range(config.layers):
            mine = f"layers.{index}."
            self._layers.append(
                _Layer(
                    attn_norm=vectors[mine + "attn_norm"],
                    mlp_norm=vectors[mine + "mlp_norm"],
                    qkv=linear(mine + "qkv", mine + "qkv_bias"),
                    out=linear(mine + "out"),
                    gate_up=linear(mine + "gate_up"),
                    down=linear(mine + "down"),
                    q_norm=vectors.get(mine + "q_norm"),
                    k_norm=vectors.get(mine + "k_norm"),
                    attn_post_norm=vectors.get(mine + "attn_post_norm"),
                    mlp_post_norm=vectors.get(mine + "mlp_post_norm"),
                )
            )
        self.decoder: BatchDecoder | None = None  # on a GPU: see `kernels.decode.attach`
        self.tile = min(matrix.tile for matrix in self._matrices())  # sequences that decode at a time
        self._kinds = {type(matrix) for matrix in self._matrices() if matrix is not self._head}

    def prepare(self) -> None:
        """Bring the matrices into their kernels' forms and touch all weights, for the first request's sake."""
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(pool.map(lambda matrix: matrix.prepare(), self._matrices()))
        checked(self.embed.dense(self.dtype))
        memory = DenseMemory(self.config, 2, self.dtype, self.device)
        self.chunk(torch.zeros(1, dtype=torch.long, device=self.device), memory)
        if not bool(self.tokens([0], [memory]).isfinite().all()):
            raise DamagedWeights(NOT_FINITE)

    def _matrices(self) -> Iterator[Linear]:
        yield self._head
        for layer in self._layers:
            yield from (layer.qkv, layer.out, layer.gate_up, layer.down)

    def chunk(self, ids: Tensor, memory: Memory, *, every: bool = True) -> Tensor:
        """Run the next n tokens of one sequence. Returns normed hidden states: [n, width], or of the last token
        alone, [1, width], where not `every` one is asked for: then the last layer ends with that row.
        """
        n, start = len(ids), memory.length
        hidden = self._forward(
            ids,
            self.rope.span(start, start + n),
            memory.chunk,
            self.local_rope.span(start, start + n),
            every=every,
        )
        memory.advance(n)
        return hidden

    def tokens(self, ids: Sequence[int], memories: Sequence[Memory]) -> Tensor:
        """Run one token of each sequence, at most `tile` of them. Returns float32 logits, [sequences, vocab].

        A sequence's numbers do not depend on how many run beside it: see `linear`.
        """
        if self.decoder is not None and (logits := self.decoder.tokens(ids, memories)) is not None:
            return logits
        n = len(ids)
        spare = (
            min(kind.rows(n) for kind in self._kinds) - n
        )  # rows that nobody reads, so that none are added later
        attended = torch.zeros(n + spare, self.config.q_rows, dtype=self.dtype, device=self.device)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
            for row, memory in enumerate(memories):
                attended[row] = memory.one(layer, q[row], k[row], v[row], x[row])
            return attended

        rows = torch.tensor([*ids, *[0] * spare], device=self.device)
        positions = torch.tensor([*(m.length for m in memories), *[0] * spare], device=self.device)
        hidden = self._forward(rows, self.rope.at(positions), attend, self.local_rope.at(positions))
        for memory in memories:
            memory.advance(1)
        return self._head(hidden[:n]).float()

    def step(self, ids: Tensor, angles: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """Float32 logits of one token a row, with attention by the caller: for decode on a GPU."""
        return self._head(self._forward(ids, angles, attend)).float()

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits of normed hidden states: [n, width] to [n, vocab]."""
        return self._head(hidden).float()

    def angles(self, layer: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines that this layer turns positions `start` up to `stop` by; see `Rope.span`."""
        return (self.rope if self.config.window(layer) is None else self.local_rope).span(start, stop)

    def embedded(self, ids: Tensor) -> Tensor:
        """What the first layer is given: [n] to [n, width]."""
        x = self.embed.rows(ids, self.dtype)
        # rounded to the type, as it was in training
        scale = self.config.embed_scale
        return x if scale == 1.0 else x * torch.tensor(scale, dtype=x.dtype)

    def rebuild(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys before RoPE, and values, of a layer's normed inputs: [n, width] to [kv_heads, n, head_dim]."""
        c, mine = self.config, self._layers[layer]
        heads = mine.qkv.rows_from(c.q_rows, x).view(len(x), 2, c.kv_heads, c.head_dim)
        k, v = heads[:, 0], heads[:, 1]
        if mine.k_norm is not None:
            k = self._rms(k, mine.k_norm)
        return k.transpose(0, 1), v.transpose(0, 1)

    def _forward(
        self,
        ids: Tensor,
        angles: Angles,
        attend: Attend,
        local_angles: Angles | None = None,
        *,
        every: bool = True,
    ) -> Tensor:
        c = self.config
        wide = whole(angles[0][:, None], angles[1][:, None])
        local = wide
        if c.local_window is not None and local_angles is not None:
            local = whole(local_angles[0][:, None], local_angles[1][:, None])
        x = self.embedded(ids)
        for index, layer in enumerate(self._layers):
            cos, sin = wide if c.window(index) is None else local
            normed = self._rms(x, layer.attn_norm)
            qkv = layer.qkv(normed)
            heads = qkv.view(len(ids), -1, c.head_dim)
            qk, v = heads[:, : -c.kv_heads], heads[:, -c.kv_heads :]
            if layer.q_norm is not None and layer.k_norm is not None:
                q, k = qk[:, : c.heads], qk[:, c.heads :]
                qk = torch.cat((self._rms(q, layer.q_norm), self._rms(k, layer.k_norm)), dim=1)
            qk = turn(qk, cos, sin)
            attended = attend(index, qk[:, : c.heads], qk[:, c.heads :], v, normed)
            if not every and index == c.layers - 1:
                attended, x = attended[-1:], x[-1:]
            x = self._after(layer.out(attended), layer.attn_post_norm).add_(x)
            gate, up = layer.gate_up(self._rms(x, layer.mlp_norm)).chunk(2, dim=-1)
            x = self._after(layer.down(self._activate(gate).mul_(up)), layer.mlp_post_norm).add_(x)
        return self._rms(x, self._norm)

    def _after(self, x: Tensor, norm: Tensor | None) -> Tensor:
        return x if norm is None else self._rms(x, norm)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        """x · weight / √(mean(x²) + ε), in float32. PyTorch's own takes eight operations on a CPU."""
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scale = torch.addcmul(self._eps, size, size, value=1 / x.shape[-1]).rsqrt_()
        return torch.mul(x, scale).mul_(weight).to(x.dtype)
