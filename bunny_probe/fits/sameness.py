"""Is this the same model? Permutation tests on answers, first-token log-probabilities and times."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["answer_features", "ecdf_distance", "first_token_features", "permutation_mmd"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def answer_features(texts: Sequence[str], *, width: int = 1024, gram: int = 3) -> Floats:
    """Answers as unit vectors of hashed character n-grams, (answers, width); empty answers are zero.

    The inner product of two rows is 1 for equal texts and falls with the n-grams they do not share.
    """
    out = np.zeros((len(texts), width))
    known: dict[str, int] = {}
    for row, text in enumerate(texts):
        clean = " ".join(text.split()).casefold()
        if clean in known:
            out[row] = out[known[clean]]
            continue
        known[clean] = row
        padded = f" {clean} "
        for i in range(max(len(padded) - gram + 1, 0)):
            out[row, zlib.crc32(padded[i : i + gram].encode("utf-8", "surrogatepass")) % width] += 1.0
    norm = np.linalg.norm(out, axis=1, keepdims=True)
    return np.asarray(np.divide(out, norm, out=out, where=norm > 0))


def first_token_features(
    tops: Sequence[str | None], *, width: int = 512
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """First-token distributions as square roots of probabilities, and which rows had any.

    `tops`: JSON lists of [token, log-probability], as the frame's `first_top`. The inner product of two rows
    is the Bhattacharyya coefficient over the seen tokens (up to hash collisions).
    """
    out = np.zeros((len(tops), width))
    given = np.zeros(len(tops), dtype=bool)
    for row, top in enumerate(tops):
        if not isinstance(top, str) or not top:
            continue
        try:
            pairs = json.loads(top)
            for token, log_p in pairs:
                place = zlib.crc32(str(token).encode("utf-8", "surrogatepass")) % width
                out[row, place] += float(np.exp(0.5 * min(float(log_p), 0.0)))
        except (ValueError, TypeError):
            continue
        given[row] = bool(pairs)
    return out, given


def permutation_mmd(
    features: Floats, second: npt.NDArray[np.bool_], stratum: Ints, *, rounds: int = 500, seed: int = 0
) -> tuple[float, float]:
    """(squared mean embedding distance, p) of two samples, exchanging labels only within each stratum.

    Gretton et al. 2012 with the kernel of `features`; the strata are the probes, so that what is compared
    is two runs on the same questions. `second`: which rows are of the second run.
    """
    order = np.lexsort((np.arange(second.size), stratum))
    features, second, stratum = features[order], second[order], stratum[order]
    used = np.flatnonzero(np.abs(features).sum(axis=0) > 0)
    features = features[:, used]
    _, start, size = np.unique(stratum, return_index=True, return_counts=True)
    code = np.repeat(np.arange(size.size), size)
    ones = np.add.reduceat(second.astype(float), start)
    both = (ones > 0) & (ones < size)
    if not both.any():
        return 0.0, 1.0
    keep = both[code]
    features, second, code = features[keep], second[keep], code[keep]
    _, code = np.unique(code, return_inverse=True)
    size = np.bincount(code)
    ones_of = np.bincount(code, weights=second)
    # weight of a row as second or as first: each probe counts once on each side
    up, down = 1.0 / ones_of[code], 1.0 / (size - ones_of)[code]
    start = np.concatenate([[0], np.cumsum(size)[:-1]])

    def distance(labels: npt.NDArray[np.bool_]) -> Floats:
        weight = np.where(labels, up, -down) / size.size
        mean = weight @ features
        return np.asarray((mean**2).sum(axis=-1))

    seen = float(distance(second))
    rng = np.random.default_rng(seed)
    hits = 0
    rank_limit = ones_of[code]
    block = max(1, min(rounds, int(2e6 / max(second.size, 1))))
    done = 0
    while done < rounds:
        now = min(block, rounds - done)
        draw = rng.random((now, second.size)) + code  # sorting shuffles within each probe
        place = np.argsort(draw, axis=1)
        ranks = np.empty_like(place)
        np.put_along_axis(ranks, place, np.arange(second.size)[None, :], axis=1)
        labels = (ranks - start[code]) < rank_limit
        hits += int((distance(labels) >= seen - 1e-12).sum())
        done += now
    return seen, (1 + hits) / (rounds + 1)


def ecdf_distance(first: Floats, second: Floats) -> tuple[float, float]:
    """(largest gap between the two ECDFs, p): Kolmogorov and Smirnov's statistic."""
    from scipy.stats import ks_2samp

    found = ks_2samp(first, second, method="asymp" if first.size * second.size > 10_000 else "exact")
    return float(found.statistic), float(found.pvalue)
