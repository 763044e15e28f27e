"""What became of the requests: shares of outcomes, failures beside answers and never among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.fits.proportions import wilson
from bunny_probe.fits.result import Counts, Estimate, Result, Status, records_table
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["OutcomeRow", "Outcomes", "OutcomesFit"]


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    group: str  # of the column that was asked for; "all" without one
    outcome: str
    count: int
    n: int  # requests in the group
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OutcomesFit(Result):
    status: Status
    reason: str
    by: str | None
    rows: tuple[OutcomeRow, ...]
    answered: Estimate  # share of requests that were answered
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per group and outcome."""
        return records_table(self.rows)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No outcomes: {self.reason}."
        rest = f"; the rest: {self.counts.left_out}" if self.counts.failed else ""
        return (
            f"{self.counts.used:,} of {self.counts.rows:,} requests were answered: {self.answered.text(3)} "
            f"({self.level:.0%} interval){rest}."
        )


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Counts and Wilson shares of each outcome, over all rows or by a column such as `family`."""

    by: str | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> OutcomesFit:
        missing = [name for name in ("outcome", self.by) if name is not None and name not in frame.columns]
        if missing or len(frame) == 0:
            reason = f"the frame has no column {missing[0]!r}" if missing else "the frame has no row"
            return OutcomesFit(
                "refused", reason, self.by, (), Estimate(level=self.level), Counts(rows=len(frame)), self.level
            )
        outcome = frame["outcome"].fillna("unknown")
        if self.by is None:
            table: list[tuple[Any, int]] = [(("all", name), n) for name, n in outcome.value_counts().items()]
        else:
            group = frame[self.by].astype("string").fillna("none")
            table = list(outcome.groupby([group, outcome], sort=True).size().items())
        totals: dict[str, int] = {}
        for (name, _), count in table:
            totals[str(name)] = totals.get(str(name), 0) + int(count)
        hits = np.array([count for _, count in table], dtype=float)
        n = np.array([totals[str(name)] for (name, _), _ in table], dtype=float)
        low, high = wilson(hits, n, self.level)
        rows = tuple(
            OutcomeRow(
                str(g), str(o), int(hits[i]), int(n[i]), float(hits[i] / n[i]), float(low[i]), float(high[i])
            )
            for i, ((g, o), _) in enumerate(table)
        )
        answered = int((outcome == "answered").sum())
        a_low, a_high = wilson(answered, len(frame), self.level)
        failed = tuple(
            (str(name), int(count)) for name, count in outcome.value_counts().items() if name != "answered"
        )
        return OutcomesFit(
            status="ok",
            reason="",
            by=self.by,
            rows=rows,
            answered=Estimate(
                answered / len(frame), float(a_low), float(a_high), len(frame), len(frame), self.level
            ),
            counts=Counts(rows=len(frame), used=answered, clusters=answered, failed=failed),
            level=self.level,
        )
