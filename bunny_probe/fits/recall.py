"""Where in the context a fact is found: recall by depth and length, and wrong anchors as their own surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.proportions import critical, mover_difference, wilson
from bunny_probe.fits.result import Counts, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import Sample, cells_of, refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recall", "RecallCell", "RecallFit", "depth_length_codes"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecallCell:
    """A cell of the surface: the share with Wilson's interval on the effective number of trials."""

    depth: float  # 0 start, 1 end
    length: float  # prompt tokens
    recall: float
    low: float
    high: float
    wrong: float | None  # share of answers that gave another anchor's value; None: labels not given
    wrong_low: float | None
    wrong_high: float | None
    n: int
    clusters: int


@dataclass(frozen=True, slots=True)
class RecallFit(Result):
    status: Status
    reason: str
    cells: tuple[RecallCell, ...]
    depths: tuple[float, ...]  # rows of the surface, ascending
    lengths: tuple[float, ...]  # columns, ascending
    overall: Estimate
    wrong: Estimate | None  # wrong-anchor share over all cells
    primacy: Estimate | None  # recall at the start minus recall in the middle
    recency: Estimate | None  # recall at the end minus recall in the middle
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per cell."""
        return records_table(self.cells)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No recall surface: {self.reason}."
        weakest = min(self.cells, key=lambda cell: (cell.recall, cell.high))
        parts = [
            f"Recall is {self.overall.text()} over {self.counts.used:,} answers from "
            f"{self.counts.clusters:,} documents ({self.level:.0%} interval)",
            f"weakest at depth {weakest.depth:.2f} and {weakest.length:,.0f} tokens with {weakest.recall:.2f} "
            f"[{weakest.low:.2f}, {weakest.high:.2f}], n = {weakest.n}",
        ]
        for name, contrast in (("start", self.primacy), ("end", self.recency)):
            if contrast is not None and contrast.value is not None:
                parts.append(f"the {name} minus the middle is {contrast.text()}")
        if self.wrong is not None and self.wrong.value is not None:
            parts.append(f"another anchor's value was given in {self.wrong.text()} of answers")
        return "; ".join(parts) + "."


@dataclass(frozen=True, slots=True)
class Recall:
    """Wilson cells over depth × length, wrong anchors apart, primacy and recency contrasts.

    Contrasts compare the outer `edge` of depths with those within `middle`, over the lengths where both
    were probed, each length weighing the same on both sides; intervals by Newcombe's method on effective
    counts, with the correlation that shared documents bring.
    """

    level: float = 0.95
    edge: float = 0.2
    middle: tuple[float, float] = (0.3, 0.7)
    depth_bins: int = 10  # used only when there are more than 12 distinct depths
    length_bins: int = 12  # used only when there are more than 16 distinct lengths

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> RecallFit:
        """`frame`: columns score, answered, cluster, length_tokens, depth, and label for wrong anchors."""
        try:
            sample = take(frame, ("length_tokens", "depth"))
        except FitRefused as error:
            return RecallFit(
                "refused", str(error), (), (), (), Estimate(level=self.level), None, None, None,
                refused_counts(error), self.level,
            )  # fmt: skip
        depths, d_code, lengths, l_code = depth_length_codes(sample, self.depth_bins, self.length_bins)
        code, count = d_code * lengths.size + l_code, depths.size * lengths.size
        wrong = _wrong(sample)
        cells = self._cells(sample, code, count, depths, lengths, wrong)
        everything = np.zeros(sample.score.size, dtype=np.int64)
        depth = sample.columns["depth"]
        inner = (depth >= self.middle[0]) & (depth <= self.middle[1])
        return RecallFit(
            status="ok",
            reason="",
            cells=cells,
            depths=tuple(float(d) for d in depths),
            lengths=tuple(float(v) for v in lengths),
            overall=_share(sample.score, everything, sample, self.level),
            wrong=None if wrong is None else _share(wrong, everything, sample, self.level),
            primacy=contrast(sample, l_code, depth <= self.edge, inner, self.level),
            recency=contrast(sample, l_code, depth >= 1 - self.edge, inner, self.level),
            counts=sample.counts,
            level=self.level,
        )

    def _cells(
        self, sample: Sample, code: Ints, count: int, depths: Floats, lengths: Floats, wrong: Floats | None
    ) -> tuple[RecallCell, ...]:
        cells = cells_of(code, count, sample.score, sample.cluster)
        k, n = cells.effective()
        low, high = wilson(k, n, self.level, z=critical(self.level, cells.df))
        w_share = w_low = w_high = np.full(count, np.nan)
        if wrong is not None:
            w = cells_of(code, count, wrong, sample.cluster)
            w_share = w.share
            w_low, w_high = wilson(*w.effective(), self.level, z=critical(self.level, w.df))
        return tuple(
            RecallCell(
                depth=float(depths[i // lengths.size]),
                length=float(lengths[i % lengths.size]),
                recall=float(cells.share[i]),
                low=float(low[i]),
                high=float(high[i]),
                wrong=None if wrong is None else float(w_share[i]),
                wrong_low=None if wrong is None else float(w_low[i]),
                wrong_high=None if wrong is None else float(w_high[i]),
                n=int(cells.n[i]),
                clusters=int(cells.clusters[i]),
            )
            for i in np.flatnonzero(cells.n > 0)
        )


def _wrong(sample: Sample) -> Floats | None:
    if not sample.has("label"):
        return None
    label = sample.column("label")
    if not label.notna().any():
        return None
    hit = (label == "wrong_anchor").to_numpy(dtype=bool, na_value=False)
    return np.asarray(hit, dtype=float)


def _share(value: Floats, code: Ints, sample: Sample, level: float) -> Estimate:
    cells = cells_of(code, 1, value, sample.cluster)
    low, high = wilson(*cells.effective(), level, z=critical(level, cells.df))
    return Estimate(
        float(cells.share[0]), float(low[0]), float(high[0]), sample.counts.used, sample.counts.clusters, level
    )


def depth_length_codes(
    sample: Sample, depth_bins: int = 10, length_bins: int = 12
) -> tuple[Floats, Ints, Floats, Ints]:
    """(depths, code of each row, lengths, code of each row); binned where there are too many to show."""
    depth = np.clip(sample.columns["depth"], 0.0, 1.0)
    depths, d_code = np.unique(np.round(depth, 6), return_inverse=True)
    if depths.size > 12:
        d_code = np.minimum((depth * depth_bins).astype(np.int64), depth_bins - 1)
        present, d_code = np.unique(d_code, return_inverse=True)
        depths = (present + 0.5) / depth_bins
    length = sample.columns["length_tokens"]
    lengths, l_code = np.unique(length, return_inverse=True)
    if lengths.size > 16:
        edges = np.quantile(length, np.linspace(0, 1, length_bins + 1)[1:-1])
        _, l_code = np.unique(np.searchsorted(edges, length, side="right"), return_inverse=True)
        lengths = np.bincount(l_code, weights=length) / np.bincount(l_code)
    return depths, d_code.astype(np.int64), lengths, l_code.astype(np.int64)


def contrast(
    sample: Sample, strata: Ints, one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_], level: float
) -> Estimate | None:
    """Share in `one` minus share in `other`, each stratum weighing alike on both sides; None without both."""
    count = int(strata.max()) + 1
    n_one = np.bincount(strata[one], minlength=count).astype(float)
    n_other = np.bincount(strata[other], minlength=count).astype(float)
    both = (n_one > 0) & (n_other > 0)
    if not both.any():
        return None
    wanted = np.where(both, n_one + n_other, 0.0)
    sides = []
    for chosen, n in ((one, n_one), (other, n_other)):
        w = np.where(chosen, (wanted / np.maximum(n, 1))[strata], 0.0)
        sides.append(_weighted(w, sample))
    (p1, n1, v1, e1), (p2, n2, v2, e2) = sides
    shared = float(np.sum(e1 * e2))
    correlation = shared / np.sqrt(v1 * v2) if v1 > 0 and v2 > 0 else 0.0
    used = int((one | other)[both[strata]].sum())
    clusters = int(np.unique(sample.cluster[(one | other) & both[strata]]).size)
    z = critical(level)
    l1, u1 = wilson(p1 * n1, n1, level, z=z)
    l2, u2 = wilson(p2 * n2, n2, level, z=z)
    low, high = mover_difference(
        (p1, float(l1), float(u1)), (p2, float(l2), float(u2)), float(np.clip(correlation, -0.95, 0.95))
    )
    return Estimate(p1 - p2, float(low), float(high), used, clusters, level)


def _weighted(w: Floats, sample: Sample) -> tuple[float, float, float, Floats]:
    """(share, effective trials, variance, each document's part of the error) of a weighted share."""
    total = float(w.sum())
    p = float(w @ sample.score) / total
    kish = total**2 / float(w @ w)
    size = int(sample.cluster.max()) + 1
    part = np.bincount(sample.cluster, weights=w * (sample.score - p), minlength=size) / total
    documents = int((np.bincount(sample.cluster, weights=w, minlength=size) > 0).sum())
    variance = float(part @ part) * documents / max(documents - 1, 1)
    spread = p * (1 - p)
    single = documents == int((w > 0).sum())
    hits = bool(np.all((sample.score == 0) | (sample.score == 1)))
    if spread <= 0 or variance <= 0 or documents < 2:
        return p, float(min(kish, documents)), 0.0, part
    effective = kish if single and hits else spread / variance
    return p, float(min(effective, kish)) if hits else float(effective), variance, part
