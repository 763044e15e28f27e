"""A scorer is itself under test: three swaps, and counterfactual edits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.edits import EDITS
from bunny_probe.fits.paired import paired_difference
from bunny_probe.fits.result import Estimate, Result, Status, records_table
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EditShift", "ScorerEdits", "ScorerEditsFit", "ScorerSwaps", "ScorerSwapsFit", "Swap"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EditShift:
    edit: str
    changed: int  # answers that the edit changes at all
    shift: float | None  # mean change of the score over those; None: too few
    low: float | None
    high: float | None
    largest: float | None  # largest change of a single answer, in absolute value
    fooled: bool  # the interval lies beyond the tolerance


@dataclass(frozen=True, slots=True)
class ScorerEditsFit(Result):
    status: Status
    reason: str
    shifts: tuple[EditShift, ...]
    n: int
    level: float

    def table(self) -> pd.DataFrame:
        """A row per edit."""
        return records_table(self.shifts)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No audit of the scorer: {self.reason}."
        fooled = [s for s in self.shifts if s.fooled]
        if not fooled:
            return (
                f"No edit moves the scorer beyond its tolerance ({self.n:,} answers, {len(self.shifts)} edits)."
            )
        worst = max(fooled, key=lambda s: abs(s.shift or 0))
        return (
            f"{len(fooled)} of {len(self.shifts)} edits move the scorer; most: {worst.edit} by "
            f"{worst.shift:+.2f} [{worst.low:+.2f}, {worst.high:+.2f}] over {worst.changed:,} answers "
            f"({self.level:.0%} interval)."
        )


@dataclass(frozen=True, slots=True)
class ScorerEdits:
    """Mean shift of a scorer when answers are edited in ways that do not touch their substance.

    Fooled means: the whole interval of the mean shift lies beyond ±`tolerance`.
    """

    tolerance: float = 0.05
    level: float = 0.95
    edits: Mapping[str, Callable[[str], str]] | None = None  # None: `edits.EDITS`

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, score: Callable[[int, str], float], answers: Sequence[str]) -> ScorerEditsFit:
        """`score(i, text)`: the scorer's number for answer i of the campaign with its text replaced."""
        if not answers:
            return ScorerEditsFit("refused", "there is no answer to edit", (), 0, self.level)
        before = np.array([score(i, text) for i, text in enumerate(answers)], dtype=float)
        out = []
        for name, edit in (self.edits or EDITS).items():
            edited = [edit(text) for text in answers]
            moved = np.array(
                [i for i, text in enumerate(edited) if text != answers[i] and np.isfinite(before[i])],
                dtype=np.int64,
            )
            after = np.array([score(int(i), edited[i]) for i in moved], dtype=float)
            delta = after - before[moved] if moved.size else np.empty(0)
            delta = delta[np.isfinite(delta)]
            if delta.size < 5:
                out.append(EditShift(name, int(moved.size), None, None, None, None, False))
                continue
            found = paired_difference(delta, np.arange(delta.size), level=self.level)
            fooled = found.low > self.tolerance or found.high < -self.tolerance
            out.append(
                EditShift(
                    name,
                    int(moved.size),
                    found.value,
                    found.low,
                    found.high,
                    float(np.abs(delta).max()),
                    fooled,
                )
            )
        return ScorerEditsFit("ok", "", tuple(out), len(answers), self.level)


@dataclass(frozen=True, slots=True)
class Swap:
    """One row of the three swaps: what varied, what was held, and how far apart the scores came."""

    swap: Literal["models", "scorers", "prompt"]
    held: str  # the scorer, the answer set (model), or the prompt
    levels: int  # models or scorers compared
    means: tuple[tuple[str, float], ...]
    spread: float  # largest difference of means
    scale: float  # standard deviation of the scores within the levels
    n: int


@dataclass(frozen=True, slots=True)
class ScorerSwapsFit(Result):
    status: Status
    reason: str
    swaps: tuple[Swap, ...]
    collapsed: tuple[str, ...]  # scorers whose scale collapsed: they cannot tell answers apart that others can
    agreement: Estimate | None  # mean rank correlation of scorers on the same answers
    n: int

    def table(self) -> pd.DataFrame:
        """A row per swap."""
        return records_table(self.swaps)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No swaps: {self.reason}."
        if self.collapsed:
            return (
                f"The scale of {', '.join(self.collapsed)} has collapsed: other scorers tell the same "
                f"{self.n:,} answers apart, it does not. Do not read its numbers as the model's."
            )
        low = [s for s in self.swaps if s.swap == "models"]
        spread = max((s.spread for s in low), default=0.0)
        return f"Every scorer keeps its scale over {self.n:,} scores; models differ by up to {spread:.2f}."


@dataclass(frozen=True, slots=True)
class ScorerSwaps:
    """Three swaps: one scorer over two models' answers; one answer set under several scorers; one prompt
    over several models.

    A scorer's scale has collapsed when, on answers that the others spread over at least `other`, its own
    scores spread over less than `own` (standard deviations). A collapse of the model shows in all scorers.
    """

    own: float = 0.05
    other: float = 0.15

    def __call__(self, frame: pd.DataFrame) -> ScorerSwapsFit:
        """`frame`: columns probe_id, model, scorer, score; a row per score of an answer by a scorer."""
        missing = [c for c in ("probe_id", "model", "scorer", "score") if c not in frame.columns]
        if missing:
            return ScorerSwapsFit("refused", f"the frame has no column {missing[0]!r}", (), (), None, 0)
        frame = frame[["probe_id", "model", "scorer", "score"]].dropna()
        if len(frame) < 10:
            return ScorerSwapsFit(
                "refused", f"{len(frame)} scores are too few to swap", (), (), None, len(frame)
            )
        swaps = [_swap("models", str(s), part, "model") for s, part in frame.groupby("scorer", observed=True)]
        swaps += [_swap("scorers", str(m), part, "scorer") for m, part in frame.groupby("model", observed=True)]
        several = frame.groupby("probe_id", observed=True)["model"].transform("nunique") > 1
        prompts = [_swap("prompt", str(p), part, "model") for p, part in frame[several].groupby("probe_id")]
        swaps += sorted(prompts, key=lambda s: -s.spread)[:20]
        swaps = [s for s in swaps if s.levels > 1]
        wide = frame.pivot_table(index=["probe_id", "model"], columns="scorer", values="score", aggfunc="mean")
        scale = wide.std()
        collapsed = tuple(
            str(name)
            for name in wide.columns
            if scale[name] < self.own and any(scale[o] >= self.other for o in wide.columns if o != name)
        )
        return ScorerSwapsFit("ok", "", tuple(swaps), collapsed, _rank_agreement(wide), len(frame))


def _swap(kind: Literal["models", "scorers", "prompt"], held: str, part: pd.DataFrame, over: str) -> Swap:
    groups = part.groupby(over, observed=True)["score"]
    means = groups.mean()
    within = part["score"] - groups.transform("mean")
    return Swap(
        kind, held, len(means), tuple((str(k), float(v)) for k, v in means.items()),
        float(means.max() - means.min()), float(np.sqrt((within**2).mean())), len(part),
    )  # fmt: skip


def _rank_agreement(wide: pd.DataFrame) -> Estimate | None:
    """Mean Spearman correlation over pairs of scorers, interval by Fisher's z at the pairs' mean."""
    wide = wide.dropna()
    usable = [c for c in wide.columns if wide[c].std() > 1e-9]
    if len(usable) < 2 or len(wide) < 10:
        return None
    matrix = wide[usable].rank().corr().to_numpy()
    value = float(matrix[np.triu_indices(len(usable), 1)].mean())
    z, error = np.arctanh(np.clip(value, -0.999999, 0.999999)), 1.06 / np.sqrt(len(wide) - 3)
    return Estimate(
        value, float(np.tanh(z - 1.96 * error)), float(np.tanh(z + 1.96 * error)), len(wide), len(wide), 0.95
    )
