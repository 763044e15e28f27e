"""The section of the cost worksheet that needs no case: what a context takes on one GPU."""

from __future__ import annotations

from bunny_probe import cost
from bunny_probe.reports.display import finding, table

__all__ = ["machine"]


def machine(
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    width: int,
    parameters: float,
    memory_gb: float,
    bandwidth_tb_s: float,
    tflops: float,
    bytes_per_element: float = 2.0,
) -> None:
    """What a context takes on one GPU: K/V memory, requests that fit, the least time to read it."""
    import pandas as pd

    weights = parameters * 2.0
    rows = []
    for tokens in (4_096, 16_384, 65_536, 131_072, 262_144, 1_048_576):
        size = cost.kv_cache_bytes(
            tokens, layers=layers, kv_heads=kv_heads, head_dim=head_dim, bytes_per_element=bytes_per_element
        )
        floor = cost.prefill_floor(
            tokens,
            parameters=parameters,
            layers=layers,
            width=width,
            flops=tflops * 1e12,
            bandwidth=bandwidth_tb_s * 1e12,
        )
        rows.append(
            {
                "prompt tokens": f"{tokens:,}",
                "K/V cache, GB": f"{size / 1e9:,.2f}",
                "requests that fit": cost.concurrent_requests(memory_gb * 1e9, weights, size),
                "prefill at least, s": f"{floor.seconds:,.3g}",
                "bound by": floor.bound,
            }
        )
    table(pd.DataFrame(rows), "One GPU, from the model's shape alone", text_columns=["bound by"])
    each = cost.kv_cache_bytes(
        1, layers=layers, kv_heads=kv_heads, head_dim=head_dim, bytes_per_element=bytes_per_element
    )
    finding(
        f"K/V memory is 2 × {layers} layers × {kv_heads} key-value heads × {head_dim} × "
        f"{bytes_per_element:g} B = {each / 1e3:,.1f} KB a token, linear in length. "
        f"Weights take {weights / 1e9:,.1f} GB at 16 bits. "
        "The prefill floor is arithmetic at full speed: no server reaches it.",
        "A vendor's time below the floor is wrong; far above it, ask where the time goes.",
    )
