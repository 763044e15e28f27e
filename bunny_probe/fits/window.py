"""The effective window: up to where a stated fraction of the short-context score holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.decay import LengthCell, ensemble_of, length_cells, positions, warnings_of
from bunny_probe.fits.ensemble import Ensemble, ModelRow
from bunny_probe.fits.proportions import critical, wilson
from bunny_probe.fits.result import Counts, Crossing, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import Cells, Sample, refused_counts
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Window", "WindowFit"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WindowFit(Result):
    status: Status
    reason: str
    axis: str
    fraction: float  # of the base
    window: Crossing | None
    base: Estimate  # fitted score at the smallest x
    level_wanted: float | None  # fraction × base: the score at the window's end
    model: str | None
    models: tuple[ModelRow, ...]
    alone: tuple[float | None, ...]  # the window that each of `models` alone would give; None: beyond
    cells: tuple[LengthCell, ...]
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """The curves tried, best first, with the window that each alone would give."""
        table = records_table(self.models)
        return table.assign(window=np.array(self.alone, dtype=float)) if len(table) else table

    def sentence(self) -> str:
        what = "The last tokens that count" if self.axis == "from_end" else "The effective window"
        if self.status == "refused" or self.window is None:
            return f"{what}: no estimate, {self.reason}."
        fall = f"{self.fraction:.0%} of the base score {self.base.text()}"
        n = f"{self.counts.used:,} answers from {self.counts.clusters:,} documents, {self.level:.0%} interval"
        place = "tokens before the end" if self.axis == "from_end" else "prompt tokens"
        body = f"{what}: {self.window.text()} ({fall} at {self.window.probed_from:,.0f} {place}; {n})."
        return f"{body} {self.reason[0].upper()}{self.reason[1:]}." if self.reason else body


@dataclass(frozen=True, slots=True)
class Window:
    """Length at which the fitted score falls below `fraction` of its base at the shortest probed length.

    `axis="from_end"` asks how far back from the end an anchor still counts, from position data. Never an
    extrapolation: what lies past the probed range is censored. Intervals as in `Decay`.
    """

    fraction: float = 0.85
    axis: Literal["length_tokens", "from_end"] = "length_tokens"
    level: float = 0.95
    models: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> WindowFit:
        if not 0 < self.fraction < 1:
            return self._refused("the fraction must lie between 0 and 1", Counts())
        try:
            sample, x = positions(frame, self.axis)
            ensemble, cells, xs = ensemble_of(x, sample, level=self.level, models=self.models)
            self._worth(cells, sample)
        except FitRefused as error:
            return self._refused(str(error), refused_counts(error))
        return self._result(ensemble, cells, xs, sample)

    def _worth(self, cells: Cells, sample: Sample) -> None:
        """Raises FitRefused when there is no short-context score to fall from."""
        chance = 0.0
        if sample.has("chance"):
            given = sample.column("chance").to_numpy(dtype=float, na_value=np.nan)
            chance = float(np.nanmean(given)) if np.isfinite(given).any() else 0.0
        k, n = cells.effective()
        low, high = wilson(k[0], n[0], self.level, z=critical(self.level, cells.df))
        if float(low) <= chance:
            score = f"{cells.share[0]:.2f} [{float(low):.2f}, {float(high):.2f}]"
            raise FitRefused(
                f"at the shortest length the score is {score}, not above chance ({chance:.2f}): "
                "there is no base to fall from"
            )

    def _refused(self, reason: str, counts: Counts) -> WindowFit:
        nothing = Estimate(level=self.level)
        return WindowFit(
            "refused",
            reason,
            self.axis,
            self.fraction,
            None,
            nothing,
            None,
            None,
            (),
            (),
            (),
            counts,
            self.level,
        )

    def _result(self, ensemble: Ensemble, cells: Cells, xs: Floats, sample: Sample) -> WindowFit:
        best = ensemble.chosen
        start = np.array([ensemble.axis.low])
        base = best.curve.evaluate(best.theta, ensemble.axis.z(start), ensemble.axis.t(start))[0][0]
        base_low, base_high = ensemble.values(start)
        low, high = ensemble.crossings(self.fraction)
        own = ensemble.crossings_of(best.curve, best.theta, self.fraction)
        window = ensemble.crossing(float(own), float(low), float(high))
        rows = ensemble.rows()
        end = np.log(ensemble.axis.high) + 1e-9
        each = {
            m.curve.name: float(ensemble.crossings_of(m.curve, m.theta, self.fraction)) for m in ensemble.maxima
        }
        alone = {name: float(np.exp(at)) if at <= end else None for name, at in each.items()}
        return WindowFit(
            status="censored" if window.censored else "ok",
            reason=warnings_of(ensemble, rows[0], cells),
            axis=self.axis,
            fraction=self.fraction,
            window=window,
            base=Estimate(
                float(base),
                float(base_low[0]),
                float(base_high[0]),
                sample.counts.used,
                sample.counts.clusters,
                self.level,
            ),
            level_wanted=float(self.fraction * base),
            model=rows[0].model,
            models=rows,
            alone=tuple(alone[row.model] for row in rows),
            cells=length_cells(xs, cells, self.level),
            counts=sample.counts,
            level=self.level,
        )
