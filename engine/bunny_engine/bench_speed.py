"""What a memory policy costs: bytes held, time of a token, time of a prompt's chunk, at a given length.

A memory is filled with random keys and values up to the length, as if they came from the prefix cache: what a
step costs does not depend on their values, and 64K tokens need not be computed to be paid for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bunny_engine.config import ModelConfig
from bunny_engine.memory import Memory, Span
from bunny_engine.memory_choice import Tally
from bunny_engine.model import Model
from bunny_engine.packing import pack
from bunny_engine.policies import Policy

__all__ = ["costs", "filled", "row_name", "synthetic"]

_CHUNK = 64  # tokens of the prompt's chunk that is timed; at most a block, and divides every block size


@dataclass(slots=True)
class _Run:
    policy: Policy
    memory: Memory
    tokens: list[float]  # seconds each
    chunks: list[float]


def costs(
    model: Model,
    policies: Sequence[Policy],
    length: int,
    *,
    steps: int,
    progress: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A row a policy, the first one being what the others are set against; none goes past `length` tokens.

    Times are medians over `steps` turns; the policies take turns, so that a busy machine slows all of them.
    """
    turns = max(2, steps // 4)  # of chunks; the first of each kind warms up
    before = (length - steps - 1) // _CHUNK * _CHUNK - turns * _CHUNK
    runs = []
    for policy in policies:
        progress(f"{length:,} tokens, {row_name(policy, model.config)}")
        runs.append(_Run(policy, filled(model, policy, before, length), [], []))
    ids = torch.zeros(_CHUNK, dtype=torch.long, device=model.device)
    for _ in range(turns):
        for run in runs:
            seconds = _timed(model, partial(model.chunk, ids, run.memory))
            run.chunks.append(seconds / _CHUNK)
    for _ in range(steps + 1):
        for run in runs:
            run.tokens.append(_timed(model, partial(model.tokens, [1], [run.memory])))
    rows: list[dict[str, Any]] = []
    for run in runs:
        token, prompt = statistics.median(run.tokens[1:]), statistics.median(run.chunks[1:])
        rows.append(
            {
                "name": row_name(run.policy, model.config),
                "policy": run.policy.name,
                "form": run.policy.stored_form(model.config)[0] if run.policy.seals else None,
                "bits": run.policy.bits if run.policy.seals else 8 * model.dtype.itemsize,
                "block": None if run.policy.name == "full" else run.policy.block,
                "length": length,
                "bytes": run.memory.nbytes,
                "stored_bytes": run.memory.stored_nbytes,
                "predicted_bytes": run.policy.bytes_for(model.config, length, model.dtype),
                "token_ms": 1e3 * token,
                "prompt_ms": 1e3 * prompt,
            }
        )
    for row in rows:
        row["bytes_of_full"] = row["bytes"] / rows[0]["bytes"]
        row["token_of_full"] = row["token_ms"] / rows[0]["token_ms"]
        row["prompt_of_full"] = row["prompt_ms"] / rows[0]["prompt_ms"]
    return rows


def filled(model: Model, policy: Policy, length: int, capacity: int) -> Memory:
    """A memory for `capacity` tokens that holds `length` random ones."""
    memory = policy.new(model, capacity, Tally())
    spans = _Spans(model, policy)
    while memory.length < length:
        memory.adopt(spans.next(memory.length, min(length - memory.length, spans.grid)))
    return memory


class _Spans:
    """Random spans of a policy's kind, drawn once and used again."""

    def __init__(self, model: Model, policy: Policy) -> None:
        c, self.grid, self._block = model.config, min(policy.block, 256), policy.block
        random = torch.Generator().manual_seed(0)
        kv = torch.randn(2, c.layers, c.kv_heads, self.grid, c.head_dim, generator=random)
        self._kv = kv.to(model.device, model.dtype)
        self._inputs = None
        if policy.seals and policy.stored_form(c)[0] == "x":
            x = torch.randn(c.layers, 1, self.grid, c.width, generator=random).to(model.device)
            self._inputs = pack(x, policy.bits, "channels")

    def next(self, start: int, count: int) -> Span:
        k, v = self._kv[:, :, :, :count]
        if self._inputs is None or start < self._block:
            return k, v
        return (k, v, *self._inputs.tokens(0, count).tensors)


def synthetic(
    like: ModelConfig,
    context: int,
    layers: int = 2,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Model:
    """A random model of `like`'s shape, with few layers, for contexts beyond what `like` was trained for."""
    values = {**like.to_json(), "architecture": "llama", "layers": layers, "context": context, "vocab": 256}
    config = ModelConfig(**values)
    random = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.ones(shape)
        if name.endswith("norm")
        else (torch.randn(shape, generator=random) * 0.02).to(dtype)
        for name, shape in config.shapes().items()
    }
    tensors["inv_freq"] = 1.0 / config.rope_base ** (
        torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    )
    return Model(config, {name: tensor.to(device or "cpu") for name, tensor in tensors.items()})


def row_name(policy: Policy, config: ModelConfig) -> str:
    """`bsr kv8`: a policy with its form and bits, short."""
    if not policy.seals:
        return policy.name
    most = f", {policy.most}" if policy.name == "top-blocks" else ""
    return f"{policy.name} {policy.stored_form(config)[0]}{policy.bits}{most}"


def _timed(model: Model, call: Callable[[], object]) -> float:
    _wait(model)
    begun = time.perf_counter()
    call()
    _wait(model)
    return time.perf_counter() - begun


def _wait(model: Model) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
