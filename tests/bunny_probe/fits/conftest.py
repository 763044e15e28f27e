"""Simulated campaigns whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

Maker = Callable[..., pd.DataFrame]


@pytest.fixture
def campaign() -> Maker:
    """A frame of single hits: `score(length, depth)` is the chance of a hit, `documents` a length."""

    def make(
        score: Callable[[np.ndarray, np.ndarray], np.ndarray],
        *,
        lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384, 32768),
        depths: tuple[float, ...] = (0.5,),
        documents: int = 20,
        seed: int = 0,
        failed: float = 0.0,
    ) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        length, document, depth = (
            v.ravel()
            for v in np.meshgrid(np.array(lengths), np.arange(documents), np.array(depths), indexing="ij")
        )
        n = length.size
        answered = rng.random(n) >= failed
        hit = (rng.random(n) < score(length.astype(float), depth)).astype(float)
        entropy = 0.1 + 0.05 * np.log2(length / 1024) + rng.gamma(2.0, 0.05, n)
        frame = pd.DataFrame(
            {
                "probe_id": [f"p{i}" for i in range(n)],
                "endpoint": "simulated",
                "decoding_id": "d",
                "repeat": 0,
                "family": "position",
                "task": "single",
                "variant": np.where(np.arange(n) % 2 == 0, "plain", "negated"),
                "length_tokens": length,
                "depth": depth,
                "cluster": [f"{a}-{b}" for a, b in zip(length, document, strict=True)],
                "outcome": np.where(answered, "answered", "timeout"),
                "answered": answered,
                "score": np.where(answered, hit, np.nan),
                "label": np.where(hit == 1, "hit", np.where(rng.random(n) < 0.5, "wrong_anchor", "miss")),
                "chance": 0.0,
                "text": np.where(hit == 1, "K-17", "I do not know"),
                "temperature": 0.0,
                "ttft_s": 0.05 + length / 20000 * rng.lognormal(0, 0.1, n),
                "latency_s": 0.2 + length / 18000 * rng.lognormal(0, 0.2, n),
                "timing_valid": True,
                "completion_tokens": 12,
                "entropy_low": entropy,
                "entropy_high": entropy * 1.4 + 0.1,
                "first_entropy_low": entropy * 3,
                "first_entropy_high": entropy * 4,
            }
        )
        return frame.astype({"length_tokens": "Int64", "answered": "boolean", "repeat": "Int64"})

    return make
