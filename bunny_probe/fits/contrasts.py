"""Two forms of one question, side by side: orders of clauses, twins, an intact text and a damaged one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.errors import FitRefused
from bunny_probe.fits.compare import adjusted
from bunny_probe.fits.paired import paired_difference
from bunny_probe.fits.result import Counts, Result, Status, records_table
from bunny_probe.fits.sample import Sample, refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ContrastRow", "Contrasts", "ContrastsFit"]


@dataclass(frozen=True, slots=True)
class ContrastRow:
    """Second form minus first, over the pairs in which both were answered and scored."""

    name: str
    first: float | None  # mean score of the first form; None: no pair
    second: float | None
    difference: float | None
    low: float | None  # None: fewer than five pairs
    high: float | None
    p: float | None
    p_adjusted: float | None  # over all contrasts asked
    n: int  # pairs
    clusters: int  # documents among them
    unpaired: int  # rows of either form that were asked and have no scored partner


@dataclass(frozen=True, slots=True)
class ContrastsFit(Result):
    status: Status
    reason: str
    rows: tuple[ContrastRow, ...]
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per contrast."""
        return records_table(self.rows)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No contrast: {self.reason}."
        known = [row for row in self.rows if row.low is not None]
        worst = max(known, key=lambda row: abs(row.difference or 0))
        sure = [row for row in known if row.p_adjusted is not None and row.p_adjusted < 1 - self.level]
        count = f"{len(sure)} of {len(known)} contrasts differ" if len(known) > 1 else ""
        most = (
            f"{worst.name}: {worst.difference:+.2f} [{worst.low:+.2f}, {worst.high:+.2f}], n = {worst.n:,} "
            f"pairs from {worst.clusters:,} documents ({self.level:.0%} interval"
            + (", p corrected over all)" if len(known) > 1 else f", p = {worst.p:.2g})")
        )
        return f"{count} beyond chance; the largest is {most}." if count else f"{most[:1].upper()}{most[1:]}."


@dataclass(frozen=True, slots=True)
class Contrasts:
    """Mean paired difference of each pair of forms, documents as the unit, p-values corrected by Holm.

    `pairs`: (name, value of `column` in the first form, in the second). Rows are partners when they agree in
    all of `match`; repeats of a form are averaged first. Fewer than `least` pairs give no interval.
    """

    pairs: tuple[tuple[str, str, str], ...]
    column: str = "variant"
    match: tuple[str, ...] = ("cluster",)
    level: float = 0.95
    least: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> ContrastsFit:
        """`frame`: columns score, answered, cluster, `column` and those of `match`."""
        try:
            absent = [name for name in (self.column, *self.match) if name not in frame.columns]
            if absent:
                raise FitRefused(f"the frame has no column {absent[0]!r}")
            sample = take(frame)
        except FitRefused as error:
            return ContrastsFit("refused", str(error), (), refused_counts(error), self.level)
        rows = [self._row(frame, sample, *pair) for pair in self.pairs]
        if not any(row.low is not None for row in rows):
            most = max((row.n for row in rows), default=0)
            reason = f"{most} pairs were answered in both forms: at least {self.least} are needed"
            return ContrastsFit("refused", reason, tuple(rows), sample.counts, self.level)
        return ContrastsFit("ok", "", _corrected(rows), sample.counts, self.level)

    def _row(self, frame: pd.DataFrame, sample: Sample, name: str, first: str, second: str) -> ContrastRow:
        import pandas as pd

        form = sample.column(self.column).fillna("").astype(str).to_numpy(dtype=object)
        asked = int(frame[self.column].fillna("").astype(str).isin((first, second)).sum())
        keys = pd.DataFrame({c: sample.column(c).astype(str).to_numpy() for c in self.match})
        keys = keys.assign(form=form, score=sample.score, document=sample.cluster)
        keys = keys[np.isin(form, (first, second))]
        means = keys.groupby([*self.match, "form"], observed=True, dropna=False)["score"].mean().unstack("form")
        both = means.dropna() if {first, second} <= set(means.columns) else means.iloc[:0]
        if both.empty:
            return ContrastRow(name, None, None, None, None, None, None, None, 0, 0, asked)
        document = keys.groupby(list(self.match), observed=True, dropna=False)["document"].first()
        code = document.reindex(both.index).to_numpy(dtype=np.int64)
        a, b = both[first].to_numpy(dtype=float), both[second].to_numpy(dtype=float)
        used = keys.set_index(list(self.match)).index.isin(both.index).sum()
        d = paired_difference(b - a, code, level=self.level, seed=self.seed)
        enough = a.size >= self.least
        return ContrastRow(
            name, float(a.mean()), float(b.mean()), d.value, d.low if enough else None,
            d.high if enough else None, d.p if enough else None, None, int(a.size), d.clusters,
            asked - int(used),
        )  # fmt: skip


def _corrected(rows: list[ContrastRow]) -> tuple[ContrastRow, ...]:
    from dataclasses import replace

    known = [i for i, row in enumerate(rows) if row.p is not None]
    holm = adjusted([rows[i].p or 0.0 for i in known])
    fixed = dict(zip(known, holm, strict=True))
    return tuple(replace(row, p_adjusted=fixed.get(i)) for i, row in enumerate(rows))
