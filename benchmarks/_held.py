"""How often intervals held the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass
class Held:
    quantity: str
    n: int = 0
    inside: int = 0
    below: int = 0  # the truth lies below the interval
    above: int = 0
    none: int = 0  # no interval was given
    peer: int = 0  # how many of the peer's intervals held the truth
    width: float = 0.0

    def add(self, low: float | None, high: float | None, truth: float) -> None:
        self.n += 1
        if low is None and high is None:
            self.none += 1
            return
        slack = 1e-9 * max(abs(truth), 1.0) if np.isfinite(truth) else 0.0
        if low is not None and truth < low - slack:
            self.below += 1
        elif high is not None and truth > high + slack:
            self.above += 1
        else:
            self.inside += 1


def frame_of(length: np.ndarray, depth: np.ndarray, score: np.ndarray, cluster: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {"length_tokens": length, "depth": depth, "score": score, "cluster": cluster, "answered": True}
    )
