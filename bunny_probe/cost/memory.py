"""What a context takes: memory for its keys and values, and the least time to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bunny_probe.errors import UsageError

__all__ = ["PrefillFloor", "concurrent_requests", "kv_cache_bytes", "prefill_floor"]


@dataclass(frozen=True, slots=True)
class PrefillFloor:
    """No machine of these figures reads the prompt faster."""

    seconds: float
    compute_s: float
    memory_s: float
    bound: Literal["compute", "memory"]

    def sentence(self) -> str:
        return (
            f"Reading the prompt takes at least {self.seconds:.3g} s, bound by {self.bound} "
            f"(compute {self.compute_s:.3g} s, memory traffic {self.memory_s:.3g} s)."
        )


def kv_cache_bytes(
    tokens: float,
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    bytes_per_element: float = 2.0,
    requests: float = 1.0,
) -> float:
    """Bytes of the K/V cache: 2 · tokens · layers · kv_heads · head_dim · bytes_per_element · requests.

    The 2 is for keys and values. `kv_heads` is the number of key-value heads: with grouped-query attention
    it is smaller than that of query heads. Linear in `tokens`. `bytes_per_element`: 2 for 16-bit, 0.5 for
    4-bit. Raises UsageError for anything not above 0.
    """
    values = {
        "tokens": tokens, "layers": layers, "kv_heads": kv_heads, "head_dim": head_dim,
        "bytes_per_element": bytes_per_element, "requests": requests,
    }  # fmt: skip
    _positive(values)
    return 2.0 * tokens * layers * kv_heads * head_dim * bytes_per_element * requests


def prefill_floor(
    tokens: float,
    *,
    parameters: float,
    layers: int,
    width: int,
    flops: float,
    bandwidth: float,
    bytes_per_parameter: float = 2.0,
    moved_bytes: float | None = None,
) -> PrefillFloor:
    """The least time to read a prompt: the slower of arithmetic at `flops` and traffic at `bandwidth`.

    Arithmetic: 2 · parameters · tokens for the matrices, and 2 · layers · tokens² · width for causal attention
    (scores and their sum over values, 4 · tokens² · width a layer, halved by the causal mask). Traffic: each
    weight once, or `moved_bytes` when given. `flops` in operations/s, `bandwidth` in bytes/s.
    Raises UsageError.
    """
    values = {
        "tokens": tokens, "parameters": parameters, "layers": layers, "width": width, "flops": flops,
        "bandwidth": bandwidth, "bytes_per_parameter": bytes_per_parameter,
        **({} if moved_bytes is None else {"moved_bytes": moved_bytes}),
    }  # fmt: skip
    _positive(values)
    compute = (2.0 * parameters * tokens + 2.0 * layers * tokens**2 * width) / flops
    memory = (parameters * bytes_per_parameter if moved_bytes is None else moved_bytes) / bandwidth
    return PrefillFloor(max(compute, memory), compute, memory, "compute" if compute >= memory else "memory")


def concurrent_requests(memory_bytes: float, weight_bytes: float, bytes_per_request: float) -> int:
    """Requests whose caches fit beside the weights; 0 when not even one does. Raises UsageError."""
    _positive(
        {"memory_bytes": memory_bytes, "weight_bytes": weight_bytes, "bytes_per_request": bytes_per_request}
    )
    return max(0, int((memory_bytes - weight_bytes) // bytes_per_request))


def _positive(values: dict[str, float]) -> None:
    for name, value in values.items():
        if not 0 < value < float("inf"):
            raise UsageError(f"{name} must be a finite number above 0, got {value}")
