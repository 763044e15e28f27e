"""Several models on the same probes: speed, quality, stability, one total, and what the weights decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.result import Estimate, Result, Status
from bunny_probe.fits.sample import numbers
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Ranked", "Ranking", "RankingFit"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_Arrays = tuple[Ints, Floats, Floats, Floats, Ints]  # document, score, answered, seconds, size of the prompt


@dataclass(frozen=True, slots=True)
class Ranked:
    name: str
    total: Estimate  # weighted, in [0, 1]
    speed: Estimate  # the fastest one's median latency over its own: 1 is the fastest
    quality: Estimate  # mean score, mixed with the human share where there is one
    stability: Estimate  # share of requests answered within twice its median time for prompts of that size
    seconds: Estimate  # median latency
    human: float | None  # how often it was preferred; None: no votes
    first: float  # share of the resampled campaigns in which it comes first
    first_by_weights: float  # share of all weightings (a grid of tenths) under which it comes first


@dataclass(frozen=True, slots=True)
class RankingFit(Result):
    status: Status
    reason: str
    weights: tuple[float, float, float]  # speed, quality, stability
    rows: tuple[Ranked, ...]  # best total first
    probes: int  # that every model was asked
    level: float

    def table(self) -> pd.DataFrame:
        """A row per model."""
        import pandas as pd

        names = ("total", "speed", "quality", "stability", "seconds")
        return pd.DataFrame(
            [
                {
                    "model": r.name, **{n: getattr(r, n).text() for n in names}, "n": r.quality.n,
                    "first": r.first, "first_by_weights": r.first_by_weights,
                }
                for r in self.rows
            ]
        )  # fmt: skip

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No ranking: {self.reason}."
        best = self.rows[0]
        return (
            f"{best.name} comes first with {best.total.text()} under these weights, on {self.probes:,} "
            f"probes that every model was asked ({self.level:.0%} interval); it is first in "
            f"{best.first:.0%} of resampled campaigns and under {best.first_by_weights:.0%} of all "
            "weightings."
        )


@dataclass(frozen=True, slots=True)
class Ranking:
    """Weighted total with a bootstrap over documents, the same documents for every model in each draw.

    `human`: name → share of votes in [0, 1]; it makes up `human_part` of the quality where every model has
    one. Percentile intervals (Efron 1979) of 500 draws.
    """

    weights: tuple[float, float, float] = (0.4, 0.4, 0.2)
    human: Mapping[str, float] = field(default_factory=dict)
    human_part: float = 0.3
    level: float = 0.95
    draws: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frames: Mapping[str, pd.DataFrame]) -> RankingFit:
        """`frames`: name → observations: probe_id, cluster, length_tokens, score, answered, latency_s."""
        total = sum(self.weights)
        if len(frames) < 2:
            return self._refused("a ranking needs two models or more")
        if min(self.weights) < 0 or total <= 0:
            return self._refused("weights are 0 or more, and not all 0")
        for name, frame in frames.items():
            absent = [c for c in ("probe_id", "cluster", "score", "answered", "latency_s") if c not in frame]
            if absent:
                return self._refused(f"the frame of {name} has no column {absent[0]!r}")
        common = set.intersection(*(set(frame["probe_id"].dropna()) for frame in frames.values()))
        parts = {name: frame[frame["probe_id"].isin(common)] for name, frame in frames.items()}
        documents = sorted({str(c) for part in parts.values() for c in part["cluster"]})
        if len(documents) < 5:
            return self._refused(f"{len(documents)} documents were asked of every model: at least 5 are needed")
        data = {name: _arrays(part, documents) for name, part in parts.items()}
        for name, (_, score, _, seconds, _) in data.items():
            if not np.isfinite(score).any() or not np.isfinite(seconds).any():
                return self._refused(f"{name} has no scored or no timed answer")
        human = dict(self.human) if set(frames) <= set(self.human) else {}
        weights = np.array(self.weights) / total
        names = list(frames)
        ones = np.ones(len(documents), dtype=np.int64)
        point = self._measure(data, names, ones, human)
        draw = np.random.default_rng(self.seed)
        drawn = np.stack(
            [
                self._measure(data, names, np.bincount(draw.integers(0, len(documents), len(documents)),
                                                       minlength=len(documents)), human)
                for _ in range(self.draws)
            ]
        )  # fmt: skip
        return self._result(point, drawn, names, weights, human, data, len(documents), len(common))

    def _measure(
        self,
        data: Mapping[str, _Arrays],
        names: list[str],
        times: Ints,
        human: Mapping[str, float],
    ) -> Floats:
        """Models × (speed, quality, stability, seconds) with each document counted so many `times`."""
        out = np.full((len(names), 4), np.nan)
        for i, name in enumerate(names):
            document, score, answered, seconds, size = data[name]
            rows = np.repeat(np.arange(document.size), times[document])
            s, t = score[rows], seconds[rows]
            median = float(np.nanmedian(t)) if np.isfinite(t).any() else np.nan
            quality = float(np.nanmean(s)) if np.isfinite(s).any() else np.nan
            if human:
                quality = (1 - self.human_part) * quality + self.human_part * human[name]
            told = (answered[rows] == 0) | np.isfinite(t)  # an answer without a usable time says nothing here
            late = np.nan_to_num(t, nan=np.inf) > 2 * _usual(t, size[rows])
            steady = 1 - float(np.mean(late[told])) if told.any() else np.nan
            out[i] = (np.nan, quality, steady, median)
        out[:, 0] = np.nanmin(out[:, 3]) / out[:, 3]
        return out

    def _result(
        self, point: Floats, drawn: Floats, names: list[str], weights: Floats, human: Mapping[str, float],
        data: Mapping[str, _Arrays], documents: int, probes: int,
    ) -> RankingFit:  # fmt: skip
        totals, spread = point[:, :3] @ weights, drawn[:, :, :3] @ weights
        usable = np.isfinite(spread).all(1)
        spread, drawn = spread[usable], drawn[usable]
        first = np.bincount(spread.argmax(1), minlength=len(names)) / len(spread)
        grid = [(a / 10, b / 10, (10 - a - b) / 10) for a in range(11) for b in range(11 - a)]
        winners = [int((point[:, :3] @ np.array(w)).argmax()) for w in grid]
        by_weights = np.bincount(winners, minlength=len(names)) / len(grid)
        tail = (1 - self.level) / 2

        def estimate(value: float, draws: Floats, n: int) -> Estimate:
            low, high = np.quantile(draws, [tail, 1 - tail])
            # the draws of few documents may all lie on one side of the estimate
            low, high = min(float(low), float(value)), max(float(high), float(value))
            return Estimate(float(value), low, high, n, documents, self.level)

        rows = []
        for i, name in enumerate(names):
            n = int(np.isfinite(data[name][1]).sum())
            speed, quality, stability, seconds = (
                estimate(point[i, j], drawn[:, i, j], n if j == 1 else data[name][0].size) for j in range(4)
            )
            rows.append(
                Ranked(
                    name, estimate(totals[i], spread[:, i], n), speed, quality, stability, seconds,
                    human.get(name), float(first[i]), float(by_weights[i]),
                )
            )  # fmt: skip
        rows.sort(key=lambda r: -(r.total.value or 0))
        return RankingFit("ok", "", self.weights, tuple(rows), probes, self.level)

    def _refused(self, reason: str) -> RankingFit:
        return RankingFit("refused", reason, self.weights, (), 0, self.level)


def _usual(seconds: Floats, size: Ints) -> Floats:
    """The median time of the rows of each one's size; NaN where none of them has a time."""
    usual = np.full(seconds.size, np.nan)
    for one in np.unique(size):
        of_size = size == one
        if np.isfinite(seconds[of_size]).any():
            usual[of_size] = np.nanmedian(seconds[of_size])
    return usual


def _arrays(frame: pd.DataFrame, documents: list[str]) -> _Arrays:
    place = {name: i for i, name in enumerate(documents)}
    answered = frame["answered"].fillna(False).to_numpy(dtype=bool)
    seconds, score = numbers(frame, "latency_s"), numbers(frame, "score")
    timed = answered & np.isfinite(seconds) & (seconds > 0)
    if "timing_valid" in frame.columns:
        timed &= frame["timing_valid"].fillna(True).to_numpy(dtype=bool)
    scored = answered & (score >= 0) & (score <= 1)
    code = np.array([place[str(c)] for c in frame["cluster"]], dtype=np.int64)
    length = numbers(frame, "length_tokens") if "length_tokens" in frame.columns else np.zeros(len(frame))
    size = np.unique(np.nan_to_num(length, nan=-1.0, posinf=-1.0, neginf=-1.0), return_inverse=True)[1]
    return (
        code, np.where(scored, score, np.nan), answered.astype(float), np.where(timed, seconds, np.nan),
        size.astype(np.int64),
    )  # fmt: skip
