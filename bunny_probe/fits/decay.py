"""How the score falls with length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.curves import CURVES
from bunny_probe.fits.ensemble import Ensemble, ModelRow, fit_curves
from bunny_probe.fits.proportions import critical, wilson
from bunny_probe.fits.result import Counts, Crossing, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import Cells, Sample, cells_of, refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CurvePoint", "Decay", "DecayFit", "LengthCell"]

Floats = npt.NDArray[np.float64]

# Distances below this are one distance: the question and the template stand between the fact and the end.
NEAREST = 32.0


@dataclass(frozen=True, slots=True)
class LengthCell:
    """The raw trials at one position, with Wilson's interval on the effective number of trials."""

    x: float  # tokens
    score: float
    low: float
    high: float
    n: int
    clusters: int


@dataclass(frozen=True, slots=True)
class CurvePoint:
    x: float  # tokens
    value: float
    low: float
    high: float
    inside: bool  # within the probed range


@dataclass(frozen=True, slots=True)
class DecayFit(Result):
    status: Status
    reason: str
    axis: str  # what x is: length_tokens, from_end, position
    model: str | None  # the chosen curve
    models: tuple[ModelRow, ...]  # every curve tried, best first
    base: Estimate  # the fitted score at the smallest x
    last: Estimate  # the fitted score at the largest x
    half_length: Crossing | None  # where it is half of the base
    knee: Crossing | None  # of the piecewise linear curve, given that it is the right one; None: not supported
    cells: tuple[LengthCell, ...]
    curve: tuple[CurvePoint, ...]
    design_effect: float
    hits: bool  # scores were hits and misses, not shares
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """The curves tried, best first."""
        return records_table(self.models)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No decay curve: {self.reason}."
        first, final = self.cells[0].x, self.cells[-1].x
        unit = {"length_tokens": "prompt tokens", "from_end": "tokens from the end"}.get(self.axis, "tokens")
        words = CURVES[self.model or "constant"].words
        course = (
            f"the score stays at {self.base.text()} from {first:,.0f} to {final:,.0f} {unit}"
            if self.model == "constant"
            else f"the score goes from {self.base.text()} at {first:,.0f} to {self.last.text()} at "
            f"{final:,.0f} {unit}, following {words}"
        )
        half = ""
        if self.half_length is not None and self.model != "constant":
            halves = "does not halve" if self.half_length.censored else "halves"
            half = f"; it {halves}: {self.half_length.text()}"
        note = f" {self.reason[0].upper()}{self.reason[1:]}." if self.reason else ""
        return (
            f"Over {self.counts.used:,} answers from {self.counts.clusters:,} documents, {course}{half} "
            f"({self.level:.0%} intervals).{note}"
        )


@dataclass(frozen=True, slots=True)
class Decay:
    """Score against a position in tokens: binomial maximum likelihood on the raw trials, curve by AICc.

    Graded scores use the same (quasi-)likelihood with their own dispersion: the mean is what is wanted,
    and a loss that mistrusts outlying scores would move it. Trials of one document count by their
    design effect. Intervals are envelopes of profile likelihoods over all curves (see `ensemble`).
    """

    axis: Literal["length_tokens", "from_end", "position"] = "length_tokens"
    level: float = 0.95
    models: tuple[str, ...] | None = None  # None: all five
    points: int = 60  # of the curve, for plots
    beyond: float = 2.0  # how far the curve is drawn past the probed range, as a factor

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> DecayFit:
        """`frame`: columns score, answered, cluster, length_tokens (and depth for the other axes)."""
        try:
            sample, x = positions(frame, self.axis)
            ensemble, cells, xs = ensemble_of(x, sample, level=self.level, models=self.models)
        except FitRefused as error:
            return self._refused(str(error), refused_counts(error))
        return self._result(ensemble, cells, xs, sample)

    def _refused(self, reason: str, counts: Counts) -> DecayFit:
        nothing = Estimate(level=self.level)
        return DecayFit(
            "refused",
            reason,
            self.axis,
            None,
            (),
            nothing,
            nothing,
            None,
            None,
            (),
            (),
            1.0,
            True,
            counts,
            self.level,
        )

    def _result(self, ensemble: Ensemble, cells: Cells, xs: Floats, sample: Sample) -> DecayFit:
        axis = ensemble.axis
        knots = np.unique(
            np.concatenate(
                [np.geomspace(axis.low, axis.high, 13), [axis.high * self.beyond**0.5, axis.high * self.beyond]]
            )
        )
        low, high = ensemble.values(knots)
        half_low, half_high = ensemble.crossings(0.5)
        chosen = ensemble.chosen
        drawn = np.unique(np.concatenate([np.geomspace(axis.low, knots[-1], self.points), knots]))
        value = chosen.curve.evaluate(chosen.theta, axis.z(drawn), axis.t(drawn))[0]
        below, above = (np.interp(np.log(drawn), np.log(knots), side) for side in (low, high))
        curve = tuple(
            CurvePoint(
                float(x), float(v), float(min(lo, v)), float(max(hi, v)), bool(x <= axis.high * (1 + 1e-9))
            )
            for x, v, lo, hi in zip(drawn, value, below, above, strict=True)
        )
        halved = ensemble.crossings_of(chosen.curve, chosen.theta, 0.5)
        n, m = sample.counts.used, sample.counts.clusters
        end = int(np.searchsorted(drawn, axis.high))
        half = ensemble.crossing(float(halved), float(half_low), float(half_high))
        rows = ensemble.rows()
        notes = warnings_of(ensemble, rows[0], cells)
        return DecayFit(
            status="censored" if half.censored else "ok",
            reason=notes,
            axis=self.axis,
            model=rows[0].model,
            models=rows,
            base=Estimate(curve[0].value, curve[0].low, curve[0].high, n, m, self.level),
            last=Estimate(curve[end].value, curve[end].low, curve[end].high, n, m, self.level),
            half_length=half,
            knee=_knee(ensemble),
            cells=length_cells(xs, cells, self.level),
            curve=curve,
            design_effect=cells.effect,
            hits=cells.hits,
            counts=sample.counts,
            level=self.level,
        )


def positions(frame: pd.DataFrame, axis: str) -> tuple[Sample, Floats]:
    """The sample and each row's position in tokens: of the prompt's end, or of the asked anchor."""
    if axis == "length_tokens":
        sample = take(frame, ("length_tokens",))
        return sample, sample.columns["length_tokens"]
    sample = take(frame, ("length_tokens", "depth"))
    length, depth = sample.columns["length_tokens"], sample.columns["depth"]
    share = 1 - depth if axis == "from_end" else depth
    return sample, np.maximum(np.round(length * share), NEAREST)


def ensemble_of(
    x: Floats, sample: Sample, *, level: float, models: tuple[str, ...] | None = None, most: int = 64
) -> tuple[Ensemble, Cells, Floats]:
    """Gathers trials by position (at most `most` groups, by rank) and fits the curves.

    Raises FitRefused when the positions cannot carry a course.
    """
    if np.any(x <= 0):
        raise FitRefused("a position of 0 tokens or less has no place on a logarithmic axis")
    xs, code = np.unique(x, return_inverse=True)
    if xs.size > most:
        edges = np.quantile(x, np.linspace(0, 1, most + 1)[1:-1])
        _, code = np.unique(np.searchsorted(edges, x, side="right"), return_inverse=True)
        size = np.bincount(code)
        xs = np.exp(np.bincount(code, weights=np.log(x)) / size)
    code = code.astype(np.int64)
    cells = cells_of(code, xs.size, sample.score, sample.cluster)
    if xs.size < 2:
        raise FitRefused(
            f"all {sample.counts.used} answers are at {xs[0]:,.0f} tokens: a course needs at least two lengths"
        )
    if sample.counts.clusters < xs.size + 1:
        raise FitRefused(
            f"{sample.counts.clusters} documents over {xs.size} lengths: at least {xs.size + 1} are needed"
        )
    k, n = cells.effective()
    ensemble = fit_curves(xs, k, n, level=level, df=cells.df, size=float(cells.clusters.sum()), models=models)
    return ensemble, cells, xs


def length_cells(xs: Floats, cells: Cells, level: float) -> tuple[LengthCell, ...]:
    k, n = cells.effective()
    low, high = wilson(k, n, level, z=critical(level, cells.df))
    return tuple(
        LengthCell(
            float(xs[i]),
            float(cells.share[i]),
            float(low[i]),
            float(high[i]),
            int(cells.n[i]),
            int(cells.clusters[i]),
        )
        for i in range(xs.size)
    )


def warnings_of(ensemble: Ensemble, best: ModelRow, cells: Cells) -> str:
    """What a reader must know before trusting the curve; empty when nothing."""
    notes = []
    if best.misfit_p is not None and best.misfit_p < 0.01:
        notes.append(
            f"no curve fits well (p = {best.misfit_p:.2g} for the best): read the cells; the intervals "
            "are as wide as the curve is wrong"
        )
    elif bool(ensemble.cells_lead):
        notes.append(
            f"the cells tell more than any curve (AICc lower by {float(ensemble.lead):.1f}): the score may "
            "rise or fall in steps, as no curve does; intervals take in what the cells allow"
        )
    if np.nansum(cells.total) == 0:
        notes.append("not a single hit")
    elif np.all(cells.total == cells.n):
        notes.append("not a single miss")
    return "; ".join(notes)


def _knee(ensemble: Ensemble) -> Crossing | None:
    """The knee, when the piecewise linear curve is within 7 AICc of the best and beats the constant."""
    by_name = {row.model: row for row in ensemble.rows()}
    row, level = by_name.get("piecewise"), by_name.get("constant")
    if row is None or row.delta > 7 or (level is not None and level.aicc <= row.aicc):
        return None
    low, high = ensemble.knee()
    knee = float(ensemble.only("piecewise").chosen.theta[1] + np.log(ensemble.axis.low))
    return ensemble.crossing(knee, float(low), float(high))
