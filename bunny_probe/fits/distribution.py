"""Distributions before means: percentiles with intervals, and the joint tail of score and latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.proportions import critical, quantile_ranks, wilson
from bunny_probe.fits.result import Counts, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import cells_of, refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Distribution", "DistributionFit", "Percentile"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Percentile:
    quantity: str
    q: float  # 0.1 is P10
    value: float
    low: float | None  # None: too few answers for a bound on that side
    high: float | None
    n: int
    clusters: int


@dataclass(frozen=True, slots=True)
class DistributionFit(Result):
    status: Status
    reason: str
    percentiles: tuple[Percentile, ...]
    slow_score: Estimate | None  # mean score of the slowest tenth; None: no latency or no score
    fast_score: Estimate | None  # mean score of the others
    worst_latency: Percentile | None  # median latency of the worst-scored tenth, ties included
    best_latency: Percentile | None  # median latency of the others
    counts: Counts
    level: float
    tail: float = 0.1

    def table(self) -> pd.DataFrame:
        """A row per quantity and percentile."""
        return records_table(self.percentiles)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No distribution: {self.reason}."
        medians = [p for p in self.percentiles if p.q == 0.5]
        text = "; ".join(f"median {p.quantity} {p.value:.3g}{_span(p)}, n = {p.n:,}" for p in medians)
        if self.slow_score is not None and self.fast_score is not None:
            slowest = "tenth" if self.tail == 0.1 else f"{self.tail:.0%}"
            text += (
                f"; the slowest {slowest} scores {self.slow_score.text()} (n = {self.slow_score.n:,}), "
                f"the rest {self.fast_score.text()} (n = {self.fast_score.n:,})"
            )
        return f"{text[0].upper()}{text[1:]} ({self.level:.0%} intervals)."


def _span(p: Percentile) -> str:
    low = "unbounded" if p.low is None else f"{p.low:.3g}"
    high = "unbounded" if p.high is None else f"{p.high:.3g}"
    return f" [{low}, {high}]"


@dataclass(frozen=True, slots=True)
class Distribution:
    """Percentiles of each quantity, intervals from order statistics on the effective number of answers.

    The rank of a quantile is binomial whatever the distribution; documents that answer as one enlarge its
    variance by their design effect (Woodruff 1952).
    """

    quantities: tuple[str, ...] = ("score", "latency_s", "ttft_s", "completion_tokens")
    q: tuple[float, ...] = (0.10, 0.25, 0.50, 0.75, 0.90)
    tail: float = 0.1
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> DistributionFit:
        rows: list[Percentile] = []
        counts: Counts | None = None
        reasons = []
        for name in self.quantities:
            try:
                sample = take(_timed(frame, name), value=name)
            except FitRefused as error:
                reasons.append(str(error))
                counts = counts or refused_counts(error)
                continue
            counts = sample.counts if counts is None or counts.used == 0 else counts
            ordered, cluster = _sorted(sample.score, sample.cluster)
            rows += [percentile(name, q, ordered, cluster, self.level) for q in self.q]
        if not rows:
            reason = reasons[0] if reasons else "no quantity was named"
            return DistributionFit(
                "refused", reason, (), None, None, None, None, counts or Counts(), self.level, self.tail
            )
        slow, fast, worst, best = self._tails(frame)
        return DistributionFit(
            "ok",
            "; ".join(reasons),
            tuple(rows),
            slow,
            fast,
            worst,
            best,
            counts or Counts(),
            self.level,
            self.tail,
        )

    def _tails(
        self, frame: pd.DataFrame
    ) -> tuple[Estimate | None, Estimate | None, Percentile | None, Percentile | None]:
        try:
            sample = take(_timed(frame, "latency_s"), ("latency_s",))
        except FitRefused:
            return None, None, None, None
        latency = sample.columns["latency_s"]
        if latency.size < 20:
            return None, None, None, None
        score, cluster = sample.score, sample.cluster
        late, beside = _cut(latency, cluster, 1 - self.tail, self.level)
        poor, near = _cut(score, cluster, self.tail, self.level)
        slow, bad = latency >= late, score <= poor
        shares = [_mean(score, cluster, s, beside, self.level) for s in (slow, ~slow) if s.any()]
        times = [_median(latency, cluster, s, near, self.level) for s in (bad, ~bad) if s.any()]
        return (
            shares[0],
            shares[1] if len(shares) > 1 else None,
            times[0] if len(times) > 1 else None,  # all alike: there is no worst tenth
            times[1] if len(times) > 1 else None,
        )


def _timed(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Times count only where the client was not saturated."""
    if name.endswith("_s") and "timing_valid" in frame.columns:
        valid = frame["timing_valid"].to_numpy(dtype=bool, na_value=True)
        return frame if valid.all() else frame[valid]
    return frame


def _cut(value: Floats, cluster: Ints, q: float, level: float) -> tuple[float, Flags | None]:
    """The q-quantile, and the answers within its interval; None where answers tie at it: no estimate then."""
    cut = percentile("", q, *_sorted(value, cluster), level)
    if np.count_nonzero(value == cut.value) > 1:
        return cut.value, None
    low, high = (-np.inf if cut.low is None else cut.low), (np.inf if cut.high is None else cut.high)
    return cut.value, (value >= low) & (value <= high)


def _cut_effect(value: Floats, mean: float, cluster: Ints, part: Flags, beside: Flags | None) -> float:
    """By how much the variance of a part's mean grows because the cut that made the part is an estimate too.

    Another cut would have taken the answers `beside` it in or out, so each answer's influence on the mean is
    1(part)·(value - mean) + (mean - mean beside)·(1(part) - share of the part), as for a trimmed mean (Huber
    and Ronchetti 2009, 3.3). Its variance between documents stands over that of the first term alone.
    """
    if beside is None:
        return 1.0
    alone = part * (value - mean)
    whole = alone + (mean - float(value[beside].mean())) * (part - part.mean())
    without, whole = (np.bincount(cluster, weights=w) for w in (alone, whole))
    spread = float(without @ without)
    return max(float(whole @ whole) / spread, 1.0) if spread > 0 else 1.0


def _mean(score: Floats, cluster: Ints, part: Flags, beside: Flags | None, level: float) -> Estimate:
    """Mean score of a part of the answers."""
    inside = score[part]
    cells = cells_of(np.zeros(inside.size, dtype=np.int64), 1, inside, cluster[part])
    share = float(cells.share[0])
    effect = _cut_effect(score, share, cluster, part, beside)
    k, n = cells.effective()
    low, high = wilson(k / effect, n / effect, level, z=critical(level, cells.df))
    return Estimate(share, float(low[0]), float(high[0]), inside.size, int(cells.clusters[0]), level)


def _median(latency: Floats, cluster: Ints, part: Flags, beside: Flags | None, level: float) -> Percentile:
    """Median latency of a part of the answers; at the median, half of them lie below it."""
    below = (latency <= np.median(latency[part])).astype(float)
    effect = _cut_effect(below, float(below[part].mean()), cluster, part, beside)
    return percentile("latency_s", 0.5, *_sorted(latency[part], cluster[part]), level, effect=effect)


def _sorted(value: Floats, cluster: Ints) -> tuple[Floats, Ints]:
    order = np.argsort(value, kind="stable")
    return value[order], cluster[order]


def percentile(
    name: str, q: float, ordered: Floats, cluster: Ints, level: float, *, effect: float = 1.0
) -> Percentile:
    """The q-quantile of `ordered` (ascending; `cluster` beside) with its order-statistic interval.

    `effect`: by how much the variance of its rank is larger, beside what answers of one document share.
    """
    n = ordered.size
    place = q * (n - 1)
    left = int(place)
    point = float(ordered[left] + (place - left) * (ordered[min(left + 1, n - 1)] - ordered[left]))
    documents = int(np.count_nonzero(np.bincount(cluster)))
    if documents < n:
        below = (ordered <= point).astype(float)
        effect *= max(cells_of(np.zeros(n, dtype=np.int64), 1, below, cluster).effect, 1.0)
    effective = max(int(n / effect), 1)
    low, high = quantile_ranks(effective, q, level)
    scale = n / effective

    def at(rank: int | None, *, up: bool) -> float | None:
        if rank is None:
            return None
        place = int(np.ceil((rank + 1) * scale) - 1) if up else int(np.floor(rank * scale))
        return float(ordered[min(max(place, 0), n - 1)])

    return Percentile(name, q, point, at(low, up=False), at(high, up=True), n, documents)
