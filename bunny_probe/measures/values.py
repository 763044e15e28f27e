"""The value of each measure in one run, with interval, n and denominator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.errors import FitRefused
from bunny_probe.fits.distribution import percentile
from bunny_probe.fits.means import cluster_mean
from bunny_probe.fits.proportions import critical, wilson
from bunny_probe.fits.result import plain
from bunny_probe.fits.sample import Sample, cells_of, take
from bunny_probe.fits.window import Window
from bunny_probe.measures.catalogue import Direction, Measure, measures
from bunny_probe.measures.wording import amount

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Measured", "measure_all", "measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure's value. None: not known, and `reason` says why; a bound of None is open."""

    name: str
    title: str
    unit: str
    direction: Direction
    value: float | None
    low: float | None
    high: float | None
    level: float
    n: int  # what the denominator counts
    clusters: int  # independent documents among them
    asked: int  # rows of which n were usable
    denominator: str
    reason: str = ""  # why there is no value, or what it must not be read without
    probed_to: float | None = None  # of a window that was not left: the longest length asked

    def text(self) -> str:
        """The value for people; `beyond 131,072 tokens` for a window that was not left."""
        if self.value is None and self.probed_to is not None:
            return f"beyond {self.probed_to:,.0f} tokens"
        return amount(self.value, self.unit)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self)  # without NaN, for which JSON has no word
        return found


def measure_all(frame: pd.DataFrame, *, level: float = 0.95) -> dict[str, Measured]:
    """Name → value of every measure of the observations of one endpoint."""
    return {item.name: measured(item, frame, level=level) for item in measures(frame)}


def measured(measure: Measure, frame: pd.DataFrame, *, level: float = 0.95) -> Measured:
    """The value of one measure: Wilson for shares, order statistics for quantiles, Student between documents
    for means. Thin data give no value and a reason."""
    rows = measure.rows(frame)
    if measure.kind == "window":
        return _window(measure, rows, level)
    try:
        sample = take(rows, value="value")
    except FitRefused:
        why = "no such row was asked" if rows.empty else f"none of {len(rows):,} rows carries it"
        return _told(measure, (None, None, None), 0, 0, len(rows), level, why)
    interval = _interval(measure, sample, level)
    return _told(measure, interval, sample.counts.used, sample.counts.clusters, len(rows), level)


def _interval(
    measure: Measure, sample: Sample, level: float
) -> tuple[float | None, float | None, float | None]:
    value, cluster = sample.score, sample.cluster
    if measure.kind == "quantile":
        order = np.argsort(value, kind="stable")
        found = percentile(measure.name, measure.q, value[order], cluster[order], level)
        return found.value, found.low, found.high
    if measure.kind == "mean":
        mean, low, high, _ = cluster_mean(value, cluster, level)
        return mean, low, high
    cells = cells_of(np.zeros(value.size, dtype=np.int64), 1, value, cluster)
    low_, high_ = wilson(*cells.effective(), level, z=critical(level, cells.df))
    return float(cells.share[0]), float(low_[0]), float(high_[0])


def _window(measure: Measure, rows: pd.DataFrame, level: float) -> Measured:
    fit = Window(level=level)(rows)
    if fit.status == "refused" or fit.window is None:
        return _told(measure, (None, None, None), fit.counts.used, fit.counts.clusters, len(rows), level,
                     fit.reason)  # fmt: skip
    crossing = fit.window
    told = _told(
        measure, (crossing.value, crossing.low, crossing.high), fit.counts.used, fit.counts.clusters,
        len(rows), level, f"beyond {crossing.probed_to:,.0f} tokens, the longest asked" * crossing.censored,
    )  # fmt: skip
    from dataclasses import replace

    return replace(told, probed_to=crossing.probed_to)


def _told(
    measure: Measure, interval: tuple[float | None, float | None, float | None], n: int, clusters: int,
    asked: int, level: float, reason: str = "",
) -> Measured:  # fmt: skip
    value, low, high = interval
    return Measured(
        name=measure.name, title=measure.title, unit=measure.unit, direction=measure.direction, value=value,
        low=low, high=high, level=level, n=n, clusters=clusters, asked=asked, denominator=measure.denominator,
        reason=reason,
    )  # fmt: skip
