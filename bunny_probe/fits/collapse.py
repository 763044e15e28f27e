"""Where the model's confidence collapses: first tokens that are near-uniform over several choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.fits.decay import LengthCell
from bunny_probe.fits.result import Counts, Crossing, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import numbers
from bunny_probe.fits.settings import check_settings
from bunny_probe.fits.window import Window

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Collapse", "CollapseFit"]


@dataclass(frozen=True, slots=True)
class CollapseFit(Result):
    status: Status
    reason: str
    choices: float  # as unsure as among this many equally likely tokens counts as collapsed
    onset: Crossing | None  # length at which the share of confident answers falls below `fraction` of its base
    confident: Estimate  # share of answers that are not collapsed, at the shortest length
    cells: tuple[LengthCell, ...]  # share of collapsed answers by length
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per length: the share of collapsed answers."""
        return records_table(self.cells)

    def sentence(self) -> str:
        if self.status == "refused" or self.onset is None:
            return f"No onset of a confidence collapse: {self.reason}."
        what = f"first token at least as unsure as among {self.choices:g} equal choices"
        n = f"{self.counts.used:,} answers from {self.counts.clusters:,} documents, {self.level:.0%} interval"
        if self.onset.censored:
            return f"Confidence does not collapse within the probed range ({what}): {self.onset.text()}; {n}."
        return f"Confidence collapses ({what}) from {self.onset.text()}; {n}."


@dataclass(frozen=True, slots=True)
class Collapse:
    """Share of answers whose first token's entropy is, by its lower bound, at least ln(`choices`) nats.

    With top-k log-probabilities the lower bound cannot exceed ln(k + 1): choose fewer choices than that.
    The onset is the effective window of the share that is still confident, with that fit's interval.
    """

    choices: float = 4.0
    fraction: float = 0.85
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> CollapseFit:
        """`frame`: columns first_entropy_low, answered, cluster, length_tokens."""
        if "first_entropy_low" not in frame.columns:
            return self._refused("the frame has no column 'first_entropy_low'", Counts(rows=len(frame)))
        low = numbers(frame, "first_entropy_low")
        if not np.isfinite(low).any():
            reason = f"log-probabilities unavailable in all {len(frame):,} rows: the endpoint gave none"
            return self._refused(reason, Counts(rows=len(frame), unscored=len(frame)))
        confident = np.where(np.isfinite(low), (low < np.log(self.choices)).astype(float), np.nan)
        window = Window(fraction=self.fraction, level=self.level)(frame.assign(score=confident, chance=0.0))
        if window.status == "refused":
            return self._refused(window.reason, window.counts)
        return CollapseFit(
            status=window.status,
            reason=window.reason,
            choices=self.choices,
            onset=window.window,
            confident=window.base,
            cells=tuple(
                LengthCell(c.x, 1 - c.score, 1 - c.high, 1 - c.low, c.n, c.clusters) for c in window.cells
            ),
            counts=window.counts,
            level=self.level,
        )

    def _refused(self, reason: str, counts: Counts) -> CollapseFit:
        return CollapseFit(
            "refused", reason, self.choices, None, Estimate(level=self.level), (), counts, self.level
        )
