"""The difference of a measure between two runs: paired on the same probes where both hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.means import cluster_mean
from bunny_probe.fits.paired import paired_difference, sign_flip_p, unpaired_difference
from bunny_probe.fits.result import plain
from bunny_probe.fits.sample import Sample, take
from bunny_probe.measures.catalogue import Measure
from bunny_probe.measures.values import Measured, measured

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Difference", "differ"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROUNDS = 2000
_FEWEST_PAIRS = 5
_FEWEST_TIMES = 20  # below, a P95 is the largest of a handful


@dataclass(frozen=True, slots=True)
class Difference:
    """After minus before, on the measure's own scale; None where the data cannot say."""

    measure: str
    before: Measured
    after: Measured
    value: float | None
    low: float | None
    high: float | None
    p: float | None  # two-sided, of no difference; None: no test fits
    level: float
    n: int  # probes compared, or answers of both runs where none is shared
    clusters: int  # independent documents among them
    paired: bool
    test: str
    reason: str = ""  # why there is no difference

    @property
    def worsening(self) -> tuple[float | None, float | None, float | None]:
        """(value, low, high) turned so that more is worse. For a neutral measure: as it is."""
        if self.after.direction != "higher":
            return self.value, self.low, self.high
        return _negative(self.value), _negative(self.high), _negative(self.low)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self)  # without NaN, for which JSON has no word
        return found


def differ(
    measure: Measure, before: pd.DataFrame, after: pd.DataFrame, *, level: float = 0.95, seed: int = 0
) -> Difference:
    """How `measure` moved from one frame to the other.

    Shares and means: sign flips of the documents' differences. Quantiles: labels exchanged within each probe,
    interval by the bootstrap of documents. The window: whether the two intervals are apart.
    """
    old, new = measured(measure, before, level=level), measured(measure, after, level=level)
    if measure.kind == "window":
        return _windows(old, new, level)
    first, second = measure.rows(before), measure.rows(after)
    try:
        a, b = take(first, value="value"), take(second, value="value")
    except FitRefused:
        side, told = ("before", old) if old.value is None else ("after", new)
        return _none(old, new, level, f"the run {side} has no value: {told.reason}")
    pairs = _pairs(_by_probe(first, a), _by_probe(second, b))
    if measure.kind == "quantile":
        return _quantiles(measure, old, new, a, b, pairs, level, seed)
    if pairs.size < _FEWEST_PAIRS:
        return _apart(measure, old, new, a, b, level)
    delta = pairs.after - pairs.before
    if measure.kind == "share":
        found = paired_difference(delta, pairs.cluster, level=level, seed=seed)
        return Difference(
            measure.name, old, new, found.value, found.low, found.high, found.p, level, found.n,
            found.clusters, True, found.test,
        )  # fmt: skip
    mean, low, high, documents = cluster_mean(delta, pairs.cluster, level)
    total = np.bincount(np.unique(pairs.cluster, return_inverse=True)[1], weights=delta)
    return Difference(
        measure.name, old, new, mean, low, high, sign_flip_p(np.asarray(total, dtype=np.float64), seed=seed),
        level, pairs.size, documents, True, "paired sign flips",
    )  # fmt: skip


# ── pairs ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Pairs:
    """One row a probe and decoding that both runs answered; means over its repeats."""

    before: Floats
    after: Floats
    cluster: Ints

    @property
    def size(self) -> int:
        return int(self.before.size)


def _pairs(left: pd.DataFrame, right: pd.DataFrame) -> _Pairs:
    joined = left.add_suffix("_a").join(right.add_suffix("_b"), how="inner").sort_index()
    return _Pairs(
        joined["value_a"].to_numpy(dtype=float),
        joined["value_b"].to_numpy(dtype=float),
        joined["cluster_a"].to_numpy(dtype=np.int64),
    )


def _by_probe(frame: pd.DataFrame, sample: Sample) -> pd.DataFrame:
    import pandas as pd

    used = frame.iloc[sample.rows]
    rows = pd.DataFrame(
        {
            "probe": used["probe_id"].astype(str).to_numpy(),
            "decoding": used["decoding_id"].fillna("").astype(str).to_numpy(),
            "value": sample.score,
            "cluster": sample.cluster,
        }
    )
    return rows.groupby(["probe", "decoding"]).agg({"value": "mean", "cluster": "first"})


# ── no shared probes ────────────────────────────────────────────────────────────────────────────────


def _apart(measure: Measure, old: Measured, new: Measured, a: Sample, b: Sample, level: float) -> Difference:
    if min(a.counts.clusters, b.counts.clusters) < _FEWEST_PAIRS:
        return _none(
            old, new, level,
            f"fewer than {_FEWEST_PAIRS} probes in common, and fewer than {_FEWEST_PAIRS} documents on a side",
        )  # fmt: skip
    if measure.kind == "mean":
        return _none(old, new, level, "no probe in common, and a mean of other probes says nothing")
    found = unpaired_difference(a.score, b.score, a.cluster, b.cluster, level=level)
    return Difference(
        measure.name, old, new, found.value, found.low, found.high, found.p, level, found.n, found.clusters,
        False, found.test,
    )  # fmt: skip


# ── quantiles ───────────────────────────────────────────────────────────────────────────────────────


def _quantiles(
    measure: Measure, old: Measured, new: Measured, a: Sample, b: Sample, pairs: _Pairs, level: float, seed: int
) -> Difference:
    rng = np.random.default_rng(seed)
    paired = pairs.size >= max(_FEWEST_TIMES, min(a.score.size, b.score.size) // 2)
    first, second = (pairs.before, pairs.after) if paired else (a.score, b.score)
    if min(first.size, second.size) < _FEWEST_TIMES:
        return _none(
            old, new, level, f"fewer than {_FEWEST_TIMES} times on a side ({first.size} and {second.size})"
        )
    value = float(_quantiles_of(second, measure.q) - _quantiles_of(first, measure.q))
    if paired:
        drawn, p = _paired_draws(pairs, measure.q, value, rng)
        n, clusters = pairs.size, int(np.unique(pairs.cluster).size)
    else:
        drawn, p = _separate_draws(a, b, measure.q, value, rng)
        n, clusters = first.size + second.size, a.counts.clusters + b.counts.clusters
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Difference(
        measure.name, old, new, value, float(low), float(high), p, level, n, clusters, paired,
        "exchange within probes" if paired else "exchange between runs",
    )  # fmt: skip


def _paired_draws(pairs: _Pairs, q: float, seen: float, rng: np.random.Generator) -> tuple[Floats, float]:
    """Bootstrap of documents, and the p of exchanging the two runs' times within each probe."""
    _, code = np.unique(pairs.cluster, return_inverse=True)
    drawn, extreme = [], 0
    for rounds in _blocks(pairs.size):
        often = _resampled(int(code.max()) + 1, rounds, rng)[:, code]
        drawn.append(_weighted_quantile(pairs.after, often, q) - _weighted_quantile(pairs.before, often, q))
        swap = rng.random((rounds, pairs.size)) < 0.5
        x, y = np.where(swap, pairs.after, pairs.before), np.where(swap, pairs.before, pairs.after)
        extreme += int((np.abs(_quantiles_of(y, q) - _quantiles_of(x, q)) >= abs(seen) - 1e-12).sum())
    return np.concatenate(drawn), (1 + extreme) / (_ROUNDS + 1)


def _separate_draws(
    a: Sample, b: Sample, q: float, seen: float, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Bootstrap of each run's documents, and the p of exchanging answers between the runs."""
    both = np.concatenate([a.score, b.score])
    drawn, extreme = [], 0
    for rounds in _blocks(both.size):
        sides = []
        for sample in (a, b):
            _, code = np.unique(sample.cluster, return_inverse=True)
            often = _resampled(int(code.max()) + 1, rounds, rng)[:, code]
            sides.append(_weighted_quantile(sample.score, often, q))
        drawn.append(sides[1] - sides[0])
        mixed = rng.permuted(np.broadcast_to(both, (rounds, both.size)), axis=1)
        apart = _quantiles_of(mixed[:, a.score.size :], q) - _quantiles_of(mixed[:, : a.score.size], q)
        extreme += int((np.abs(apart) >= abs(seen) - 1e-12).sum())
    return np.concatenate(drawn), (1 + extreme) / (_ROUNDS + 1)


def _blocks(size: int) -> list[int]:
    """Rounds at a time, so that a block's matrices stay within some tens of megabytes."""
    block = max(1, min(_ROUNDS, 2_000_000 // max(size, 1)))
    return [min(block, _ROUNDS - done) for done in range(0, _ROUNDS, block)]


def _resampled(documents: int, rounds: int, rng: np.random.Generator) -> Ints:
    """(rounds, documents): how often each document was drawn."""
    drawn = rng.integers(0, documents, (rounds, documents)) + documents * np.arange(rounds)[:, None]
    return np.bincount(drawn.ravel(), minlength=rounds * documents).reshape(rounds, documents)


def _weighted_quantile(values: Floats, often: Ints, q: float) -> Floats:
    """(rounds,): the q-quantile where each value is there as often as its row says."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(often[:, order], axis=1)
    reached = mass >= np.maximum(q * mass[:, -1:], 1)
    return np.asarray(values[order][reached.argmax(axis=1)])


def _quantiles_of(values: Floats, q: float) -> Floats:
    """(rounds,): as `np.quantile` along rows, by partition."""
    place = q * (values.shape[-1] - 1)
    low = int(place)
    high = min(low + 1, values.shape[-1] - 1)
    part = np.partition(values, (low, high), axis=-1)
    return np.asarray(part[..., low] + (part[..., high] - part[..., low]) * (place - low))


# ── the window ──────────────────────────────────────────────────────────────────────────────────────


def _windows(old: Measured, new: Measured, level: float) -> Difference:
    if old.probed_to is None or new.probed_to is None:
        side, told = ("before", old) if old.probed_to is None else ("after", new)
        return _none(old, new, level, f"the run {side} has no window: {told.reason}")
    # What only one of the two was asked says nothing about a difference.
    asked = min(old.probed_to, new.probed_to)
    a_low, a, a_high = _span(old, asked)
    b_low, b, b_high = _span(new, asked)
    return Difference(
        "window", old, new, b - a, b_low - a_high, b_high - a_low, None, level, min(old.n, new.n),
        min(old.clusters, new.clusters), False, "whether the two intervals are apart",
    )  # fmt: skip


def _span(told: Measured, asked: float) -> tuple[float, float, float]:
    """(low, value, high) up to the length that both runs were asked, which stands for "beyond" as well."""
    low, value, high = (asked if x is None else min(x, asked) for x in (told.low, told.value, told.high))
    return low, value, high


def _none(old: Measured, new: Measured, level: float, reason: str) -> Difference:
    return Difference(new.name, old, new, None, None, None, None, level, 0, 0, False, "none", reason)


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
