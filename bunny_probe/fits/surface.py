"""A smooth surface of recall over depth and length, with bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.proportions import critical
from bunny_probe.fits.recall import depth_length_codes
from bunny_probe.fits.result import Counts, Result, Status, records_table
from bunny_probe.fits.sample import refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RecallSurface", "RecallSurfaceFit", "SurfacePoint"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SurfacePoint:
    depth: float
    length: float  # prompt tokens
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RecallSurfaceFit(Result):
    status: Status
    reason: str
    points: tuple[SurfacePoint, ...]
    parameters: int
    misfit_p: float | None  # chance of a worse fit if the surface were true; None: no cell to spare
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per point of the surface."""
        return records_table(self.points)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No smooth recall surface: {self.reason}."
        low, high = min(self.points, key=lambda p: p.value), max(self.points, key=lambda p: p.value)
        return (
            f"The smooth surface runs from {low.value:.2f} [{low.low:.2f}, {low.high:.2f}] at depth "
            f"{low.depth:.2f} and {low.length:,.0f} tokens to {high.value:.2f} "
            f"[{high.low:.2f}, {high.high:.2f}] at depth {high.depth:.2f} and {high.length:,.0f} tokens "
            f"({self.counts.used:,} answers, {self.level:.0%} bands)."
            + (f" {self.reason}." if self.reason else "")
        )


@dataclass(frozen=True, slots=True)
class RecallSurface:
    """Logistic regression on cubic B-splines in depth, each coefficient linear in log-length.

    The covariance is the sandwich over documents (Liang and Zeger 1986) with Student's t, so that facts
    asked of one document may depend on each other. Half a pseudo-trial a coefficient keeps separated data
    finite (Clogg et al. 1991).
    """

    level: float = 0.95
    splines: int = 5  # basis functions in depth; more where these are shown to be too few
    depths: tuple[float, ...] | None = None  # where to evaluate; None: at the probed depths and lengths

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> RecallSurfaceFit:
        """`frame`: columns score, answered, cluster, length_tokens, depth."""
        try:
            sample = take(frame, ("length_tokens", "depth"))
            depths, d_code, lengths, l_code = depth_length_codes(sample)
            if lengths[0] < 1:
                raise FitRefused(f"a prompt of {lengths[0]:g} tokens is none: lengths begin at 1")
            if depths.size < 3:
                raise FitRefused(f"{depths.size} depths show no course over depth: at least 3 are needed")
            size = min(self.splines, depths.size) * min(lengths.size, 2)
            if sample.counts.clusters < size + 2:
                raise FitRefused(f"{sample.counts.clusters} documents cannot carry {size} coefficients")
            if sample.score.min() == sample.score.max():
                raise FitRefused(f"all {sample.counts.used} scores are {sample.score[0]:g}: read the cells")
        except FitRefused as error:
            return RecallSurfaceFit("refused", str(error), (), 0, None, refused_counts(error), self.level)
        code = d_code * lengths.size + l_code
        count = depths.size * lengths.size
        n = np.asarray(np.bincount(code, minlength=count), dtype=np.float64)
        k = np.asarray(np.bincount(code, weights=sample.score, minlength=count), dtype=np.float64)
        cell_depth, cell_length = np.repeat(depths, lengths.size), np.tile(lengths, depths.size)
        splines = min(self.splines, depths.size)
        while True:
            basis = _Basis(splines, lengths)
            design = basis(cell_depth, cell_length)
            beta, information = _logistic(design, k, n)
            p = 1 / (1 + np.exp(-design @ beta))
            misfit = _misfit(k, n, p, design.shape[1])
            # more splines where the surface is shown to be too stiff and there are documents for them
            enough = sample.counts.clusters >= 10 * (splines + 1) * min(lengths.size, 2)
            if misfit is None or misfit > 0.1 or splines >= depths.size - 1 or not enough:
                break
            splines += 1
        size = design.shape[1]
        covariance = _sandwich(design, information, sample.score - p[code], code, sample.cluster)
        at_depths = np.array(self.depths) if self.depths else depths
        grid_d, grid_l = np.repeat(at_depths, lengths.size), np.tile(lengths, at_depths.size)
        drawn = basis(grid_d, grid_l)
        eta = drawn @ beta
        variance = np.einsum("ij,jk,ik->i", drawn, covariance, drawn)
        if np.all((sample.score == 0) | (sample.score == 1)):  # hits cannot vary less than as independent ones
            model = np.einsum("ij,jk,ik->i", drawn, np.linalg.inv(information), drawn)
            variance = np.maximum(variance, model)
        half = critical(self.level, sample.counts.clusters - size) * np.sqrt(variance)
        value, low, high = (1 / (1 + np.exp(-np.clip(v, -40, 40))) for v in (eta, eta - half, eta + half))
        return RecallSurfaceFit(
            status="ok",
            reason="",
            points=tuple(
                SurfacePoint(float(d), float(x), float(v), float(a), float(b))
                for d, x, v, a, b in zip(grid_d, grid_l, value, low, high, strict=True)
            ),
            parameters=size,
            misfit_p=misfit,
            counts=sample.counts,
            level=self.level,
        )


@dataclass(frozen=True, slots=True)
class _Basis:
    splines: int
    lengths: Floats

    def __call__(self, depth: Floats, length: Floats) -> Floats:
        from scipy.interpolate import BSpline

        degree = min(3, self.splines - 1)
        inner = np.linspace(0, 1, self.splines - degree + 1)
        knots = np.concatenate([np.zeros(degree), inner, np.ones(degree)])
        rows = BSpline.design_matrix(np.clip(depth, 0, 1), knots, degree).toarray()
        if self.lengths.size < 2:
            return np.asarray(rows)
        z = np.log2(length)
        z = 2 * (z - np.log2(self.lengths[0])) / np.log2(self.lengths[-1] / self.lengths[0]) - 1
        return np.concatenate([rows, rows * z[:, None]], axis=1)


def _logistic(design: Floats, k: Floats, n: Floats) -> tuple[Floats, Floats]:
    """(coefficients, information) by Fisher scoring with a weak pull to the overall share."""
    size = design.shape[1]
    probed = n > 0
    extra = np.where(probed, 0.5 * size / probed.sum(), 0.0)
    k = k + extra * float(np.clip(k.sum() / n.sum(), 0.02, 0.98))
    n = n + extra
    beta = np.zeros(size)
    eye = 1e-8 * np.eye(size)
    information = eye
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        information = (design.T * (n * p * (1 - p))) @ design + eye
        step = np.linalg.solve(information, design.T @ (k - n * p))
        beta = beta + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-8:
            break
    return beta, information


def _sandwich(design: Floats, information: Floats, residual: Floats, code: Ints, cluster: Ints) -> Floats:
    """Covariance between documents, corrected for their number."""
    documents = int(cluster.max()) + 1
    scores = np.stack(
        [np.bincount(cluster, weights=residual * column[code], minlength=documents) for column in design.T],
        axis=-1,
    )
    present = np.unique(cluster).size
    correction = present / (present - 1) * (residual.size - 1) / max(residual.size - design.shape[1], 1)
    bread = np.linalg.inv(information)
    return np.asarray(bread @ (scores.T @ scores) @ bread * correction)


def _misfit(k: Floats, n: Floats, p: Floats, size: int) -> float | None:
    from scipy.special import chdtrc

    probed = n > 0
    df = int(probed.sum()) - size
    if df <= 0:
        return None
    k, n, p = k[probed], n[probed], np.clip(p[probed], 1e-9, 1 - 1e-9)
    return float(chdtrc(df, float(np.sum((k - n * p) ** 2 / (n * p * (1 - p))))))
