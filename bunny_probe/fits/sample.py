"""From the frame to the arrays that fits work on: answered and scored rows only, failures counted beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.result import Counts

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Cells", "Sample", "cells_of", "numbers", "take"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sample:
    """The rows that count, as arrays of one length."""

    score: Floats
    cluster: Ints  # codes of the documents
    columns: Mapping[str, Floats]  # the numeric columns that were asked for
    counts: Counts
    rows: Ints  # their positions in the frame given
    whole: pd.DataFrame  # the frame given

    def has(self, name: str) -> bool:
        return name in self.whole.columns

    def column(self, name: str) -> pd.Series[Any]:
        """Another column at the same rows; only what is asked for is copied."""
        column = self.whole[name]
        return column if self.rows.size == len(column) else column.iloc[self.rows]


def numbers(frame: pd.DataFrame, name: str) -> Floats:
    """A numeric column as float64, missing as NaN. Raises FitRefused when the frame lacks it."""
    if name not in frame.columns:
        raise FitRefused(f"the frame has no column {name!r}")
    import pandas as pd

    column = frame[name]
    if not pd.api.types.is_numeric_dtype(column.dtype):
        column = pd.to_numeric(column, errors="coerce")
    return np.asarray(column.to_numpy(dtype=float, na_value=np.nan), dtype=float)


def _answered(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    if "answered" in frame.columns:
        return np.asarray(frame["answered"].to_numpy(dtype=bool, na_value=False), dtype=bool)
    if "outcome" in frame.columns:
        return np.asarray((frame["outcome"] == "answered").to_numpy(dtype=bool, na_value=False), dtype=bool)
    raise FitRefused("the frame says neither 'answered' nor 'outcome': failures could not be told from answers")


def clusters_of(frame: pd.DataFrame, rows: Ints) -> Ints:
    """Codes of the documents. A row without one is alone with its probe, or with itself."""
    import pandas as pd

    n = rows.size
    codes = np.full(n, -1, dtype=np.int64)
    for name in ("cluster", "probe_id"):
        if name not in frame.columns or not (codes < 0).any():
            continue
        column = frame[name]
        found, labels = pd.factorize(column if n == len(column) else column.iloc[rows])
        found = found.astype(np.int64)
        blank = np.flatnonzero(np.asarray(labels == "", dtype=bool))
        if blank.size:
            found[found == blank[0]] = -1
        use = (codes < 0) & (found >= 0)
        codes[use] = found[use] + (codes.max() + 1 if codes.size else 0)
    alone = codes < 0
    codes[alone] = np.arange(int(alone.sum())) + (codes.max() + 1 if codes.size else 0)
    return codes


def take(frame: pd.DataFrame, needs: tuple[str, ...] = (), *, value: str = "score") -> Sample:
    """Rows that are answered, carry `value`, and have every column of `needs` as a finite number.

    Raises FitRefused when a column is missing or nothing is left; fits turn it into a refused result.
    """
    answered = _answered(frame)
    score = numbers(frame, value)
    columns = {name: numbers(frame, name) for name in needs}
    usable = np.isfinite(score)
    if value == "score":
        usable &= (score >= 0) & (score <= 1)
    for column in columns.values():
        usable &= np.isfinite(column)
    keep = answered & usable
    failed: tuple[tuple[str, int], ...] = ()
    if not answered.all() and "outcome" in frame.columns:
        tally = frame["outcome"][~answered].fillna("unknown").value_counts()
        failed = tuple((str(name), int(count)) for name, count in tally.items())
    elif not answered.all():
        failed = (("failed", int((~answered).sum())),)
    index = np.flatnonzero(keep)
    cluster = clusters_of(frame, index)
    counts = Counts(
        rows=len(frame),
        used=index.size,
        clusters=int(np.count_nonzero(np.bincount(cluster))),
        failed=failed,
        unscored=int((answered & ~usable).sum()),
    )
    if index.size == 0:
        raise EmptySample(counts, value)
    return Sample(
        score=score[index],
        cluster=cluster,
        columns={name: column[index] for name, column in columns.items()},
        counts=counts,
        rows=index,
        whole=frame,
    )


class EmptySample(FitRefused):
    """No row is left to fit."""

    def __init__(self, counts: Counts, value: str) -> None:
        self.counts = counts
        why = f": {counts.left_out}" if counts.left_out else ""
        super().__init__(
            f"none of {counts.rows:,} rows is an answer with {value!r}{why}"
            if counts.rows
            else "nothing of this kind was asked"
        )


def refused_counts(error: FitRefused) -> Counts:
    return error.counts if isinstance(error, EmptySample) else Counts()


@dataclass(frozen=True, slots=True)
class Cells:
    """Raw trials gathered by cell (same length, or same length and depth)."""

    total: Floats  # sum of scores
    n: Floats  # trials
    clusters: Floats  # documents
    effect: float  # design effect: variance of a cell's mean over that of as many independent hits
    df: float  # degrees of freedom behind `effect`; inf when it is known and not estimated
    hits: bool  # every score is 0 or 1

    @property
    def share(self) -> Floats:
        return np.where(self.n > 0, self.total / np.maximum(self.n, 1e-12), np.nan)

    def effective(self) -> tuple[Floats, Floats]:
        """(hits, trials) of as many independent hits as carry the same information (Rao and Scott 1992)."""
        return self.total / self.effect, self.n / self.effect


def _dense(code: Ints) -> Ints:
    """Codes without gaps; by counting where they are few enough, by sorting otherwise."""
    top = int(code.max()) + 1 if code.size else 0
    if top > 20 * code.size + 1000:
        return np.asarray(np.unique(code, return_inverse=True)[1], dtype=np.int64)
    seen = np.zeros(top, dtype=bool)
    seen[code] = True
    return np.asarray((np.cumsum(seen) - 1)[code], dtype=np.int64)


def cells_of(cell: npt.NDArray[np.integer], count: int, score: Floats, cluster: Ints) -> Cells:
    """Gathers trials by `cell` (codes below `count`) and estimates one pooled design effect.

    The effect compares, over all cells, the variance of the means between documents with that of
    independent hits. It is 1 by definition for hits with one trial a document, at least 1 for hits (a
    repeat never adds more than itself), and may be below 1 for graded scores. Where every cell is all
    hits or all misses nothing shows how alike a document's trials are: each document then counts once.
    """
    cell = np.asarray(cell, dtype=np.int64)
    n = np.asarray(np.bincount(cell, minlength=count), dtype=np.float64)
    total = np.asarray(np.bincount(cell, weights=score, minlength=count), dtype=np.float64)
    group = _dense(cell * (int(cluster.max()) + 1 if cluster.size else 1) + cluster)
    size = np.asarray(np.bincount(group), dtype=np.float64)
    home = np.zeros(size.size, dtype=np.int64)
    home[group] = cell
    documents = np.asarray(np.bincount(home, minlength=count), dtype=np.float64)
    hits = bool(np.all((score == 0) | (score == 1)))
    if hits and size.size == score.size:
        return Cells(total, n, documents, 1.0, float("inf"), True)
    share = np.divide(total, n, out=np.zeros(count), where=n > 0)
    residual = np.bincount(group, weights=score) - size * share[home]
    several = documents > 1
    correction = np.where(several, documents / np.maximum(documents - 1, 1), 0.0)
    between = float(np.sum(residual**2 * correction[home]))
    within = float(np.sum((n * share * (1 - share))[several]))
    mixed = several & (share > 0) & (share < 1)
    df = float(np.sum((documents - 1)[mixed]))
    largest = float(np.sum(size**2) / np.sum(size))  # documents that answer as one
    if within <= 0 or df < 1:
        return Cells(total, n, documents, max(largest, 1.0), max(float(size.size - count), 1.0), hits)
    effect = between / within
    if hits:
        effect = min(max(effect, 1.0), max(largest, 1.0))
    return Cells(total, n, documents, max(effect, 1e-6), df, hits)
