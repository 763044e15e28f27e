"""K/V memory and the prefill floor, against known shapes."""

from __future__ import annotations

import pytest

from bunny_probe.cost import concurrent_requests, kv_cache_bytes, prefill_floor
from bunny_probe.errors import UsageError


def test_kv_memory_of_known_models() -> None:
    """SmolLM2-135M: 30 layers of 3 heads of 64; a 40-layer model of width 5,120 without grouping."""
    assert kv_cache_bytes(1, layers=30, kv_heads=3, head_dim=64) == 2 * 30 * 3 * 64 * 2
    assert kv_cache_bytes(32_768, layers=40, kv_heads=40, head_dim=128) == pytest.approx(26.84e9, rel=1e-3)


def test_the_floor_is_the_slower_of_arithmetic_and_traffic() -> None:
    """A long prompt is bound by arithmetic, one token by reading the weights."""
    shape = {"parameters": 8e9, "layers": 32, "width": 4096, "flops": 989e12, "bandwidth": 4.8e12}
    one, many = prefill_floor(1, **shape), prefill_floor(100_000, **shape)  # type: ignore[arg-type]
    assert (one.bound, many.bound) == ("memory", "compute")
    assert one.seconds == pytest.approx(16e9 / 4.8e12)
    assert many.seconds == pytest.approx((2 * 8e9 * 1e5 + 2 * 32 * 1e10 * 4096) / 989e12)
    moved = prefill_floor(1, **shape | {"bandwidth": 2e12}, moved_bytes=2 * 10.24e9)  # type: ignore[arg-type]
    assert moved.seconds == pytest.approx(0.01024)


def test_requests_that_fit_are_whole_and_never_negative() -> None:
    """(80 - 16) GB over 10 GB a request is 6; weights that do not fit leave none."""
    assert concurrent_requests(80e9, 16e9, 10e9) == 6
    assert concurrent_requests(8e9, 16e9, 1e9) == 0


@pytest.mark.parametrize("tokens", [0, -1, float("nan"), float("inf")])
def test_impossible_shapes_are_refused(tokens: float) -> None:
    """Zero, negative and infinite sizes are errors, not results."""
    with pytest.raises(UsageError, match="tokens must be a finite number above 0"):
        kv_cache_bytes(tokens, layers=1, kv_heads=1, head_dim=1)
