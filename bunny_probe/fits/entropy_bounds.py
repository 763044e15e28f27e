"""Token entropy from the top-k log-probabilities, as bounds: the rest of the vocabulary is unseen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LARGEST_VOCABULARY", "token_entropy_bounds"]

Floats = npt.NDArray[np.float64]

# Larger than the vocabularies in use (Gemma 3: 262,208), so that an upper bound without knowledge of the
# model's own stays an upper bound.
LARGEST_VOCABULARY = 262_208


def _padded(top: Any) -> Floats:
    try:
        array = np.asarray(top, dtype=float)
    except (ValueError, TypeError):  # ragged, or None among the numbers
        rows = [[np.nan if v is None else float(v) for v in row] for row in top]
        width = max((len(row) for row in rows), default=0)
        array = np.full((len(rows), width), -np.inf)
        for i, row in enumerate(rows):
            array[i, : len(row)] = row
    if array.ndim == 1 and array.size == 0:
        return array.reshape(0, 0)
    if array.ndim != 2:
        raise ValueError("top must hold one row of log-probabilities a token")
    return array


def token_entropy_bounds(
    top: Sequence[Sequence[float]] | npt.ArrayLike, vocab_size: int | None = None
) -> tuple[Floats, Floats]:
    """Lower and upper bound, in nats, of each token's entropy.

    `top`: tokens × alternatives, natural log-probabilities in any order, rows may differ in length;
    -inf and NaN entries count as not seen. The mass that was not seen sits in one further token (lower
    bound) or evenly in all the others of a vocabulary of `vocab_size` (upper bound; None: a size above
    those in use). A token without a single finite entry gives NaN twice.

    The lower bound does not use that an unseen token is at most as likely as the least likely seen one:
    servers append the sampled token to the list when it is not among the best, and then that is untrue.
    """
    array = _padded(top)
    if array.shape[1] == 0:
        nothing = np.full(array.shape[0], np.nan)
        return nothing, nothing.copy()
    seen = np.isfinite(array)
    log_p = np.where(seen, np.minimum(array, 0.0), 0.0)
    p = np.where(seen, np.exp(log_p), 0.0)
    mass = p.sum(axis=1)
    over = np.maximum(mass, 1.0)  # rounding, or a server that repeats a token, may push the sum above 1
    entropy = -(p * log_p).sum(axis=1) / over + np.log(over)
    rest = np.maximum(1.0 - mass, 0.0)
    rest[rest < 1e-9] = 0.0
    others = np.maximum((vocab_size or LARGEST_VOCABULARY) - seen.sum(axis=1), 1)
    spread = np.where(rest > 0, rest * -np.log(np.maximum(rest, 1e-300)), 0.0)
    low = entropy + spread
    high = low + rest * np.log(others)
    known = seen.any(axis=1)
    return np.where(known, np.maximum(low, 0.0), np.nan), np.where(known, np.maximum(high, 0.0), np.nan)
