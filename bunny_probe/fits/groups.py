"""The mean score of each group of probes: tasks, variants, domains, whatever column names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.proportions import wilson
from bunny_probe.fits.result import Counts, Result, Status, records_table
from bunny_probe.fits.sample import cells_of, refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupRow", "Groups", "GroupsFit"]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group: Wilson's interval on the effective number of trials."""

    names: tuple[str, ...]  # the group's value in each column of `by`
    score: float | None  # mean score; None: nothing in it was scored
    low: float | None
    high: float | None
    n: int  # answers that were scored
    asked: int  # rows of the group, failures included
    clusters: int


@dataclass(frozen=True, slots=True)
class GroupsFit(Result):
    status: Status
    reason: str
    by: tuple[str, ...]
    rows: tuple[GroupRow, ...]  # in the order of their names
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per group, each name in a column of its own."""
        frame = records_table(self.rows)
        if len(frame):
            frame[list(self.by)] = frame.pop("names").tolist()
            frame = frame[[*self.by, "score", "low", "high", "n", "asked", "clusters"]]
        return frame

    def sentence(self) -> str:
        scored = [row for row in self.rows if row.score is not None]
        if self.status == "refused" or not scored:
            return f"No scores by {' and '.join(self.by)}: {self.reason or 'nothing was scored'}."
        best, worst = max(scored, key=_score), min(scored, key=_score)
        text = f"{len(scored)} groups, {self.counts.used:,} scored answers; lowest {_words(worst)}"
        if best.names != worst.names:
            text += f", highest {_words(best)}"
        return f"{text} ({self.level:.0%} intervals)."


@dataclass(frozen=True, slots=True)
class Groups:
    """Mean score by the values of the columns `by`. Failures are counted beside, never as a 0."""

    by: tuple[str, ...] = ("task",)
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> GroupsFit:
        """`frame`: columns score, answered, cluster and those of `by`."""
        try:
            absent = [name for name in self.by if name not in frame.columns]
            if absent:
                raise FitRefused(f"the frame has no column {absent[0]!r}")
            sample = take(frame)
        except FitRefused as error:
            return GroupsFit("refused", str(error), self.by, (), refused_counts(error), self.level)
        named = frame[list(self.by)].astype("string").fillna("")
        group = named.groupby(list(self.by), sort=True, observed=True)
        code: npt.NDArray[np.int64] = np.asarray(group.ngroup(), dtype=np.int64)
        keys = [key if isinstance(key, tuple) else (key,) for key in group.size().index]
        asked = np.bincount(code, minlength=len(keys))
        cells = cells_of(code[sample.rows], len(keys), sample.score, sample.cluster)
        low, high = wilson(*cells.effective(), self.level)
        rows = tuple(
            GroupRow(
                names=tuple(str(name) for name in keys[i]),
                score=float(cells.share[i]) if cells.n[i] else None,
                low=float(low[i]) if cells.n[i] else None,
                high=float(high[i]) if cells.n[i] else None,
                n=int(cells.n[i]),
                asked=int(asked[i]),
                clusters=int(cells.clusters[i]),
            )
            for i in range(len(keys))
        )
        return GroupsFit("ok", "", self.by, rows, sample.counts, self.level)


def _score(row: GroupRow) -> float:
    return row.score if row.score is not None else float("nan")


def _words(row: GroupRow) -> str:
    return f"{' / '.join(row.names)} with {row.score:.2f} [{row.low:.2f}, {row.high:.2f}], n = {row.n}"
