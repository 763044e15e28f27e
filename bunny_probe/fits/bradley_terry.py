"""Who is preferred, from votes on pairs: Bradley and Terry 1952."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.proportions import critical
from bunny_probe.fits.result import Result, Status, records_table
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BradleyTerry", "BradleyTerryFit", "Standing"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Standing:
    name: str
    strength: float  # log-odds against an average one of those compared
    low: float
    high: float
    wins: float  # a tie is half a win
    n: int  # votes that it took part in

    @property
    def share(self) -> float:
        """How often it is preferred to an average one."""
        return float(1 / (1 + np.exp(-self.strength)))


@dataclass(frozen=True, slots=True)
class BradleyTerryFit(Result):
    status: Status
    reason: str
    standings: tuple[Standing, ...]  # strongest first
    votes: int
    ties: int
    level: float

    def table(self) -> pd.DataFrame:
        """A row per name."""
        return records_table(self.standings)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No standings: {self.reason}."
        first, *rest = self.standings
        clear = bool(rest) and first.low > rest[0].high
        text = (
            f"{first.name} is preferred to an average one in {first.share:.0%} of votes "
            f"[{_share(first.low):.0%}, {_share(first.high):.0%}]"
        )
        text += ", clear of the next" if clear else ", not clear of the next"
        text += f" ({self.votes:,} votes, {self.ties:,} of them equal; {self.level:.0%} intervals)"
        return f"{text}; {self.reason}." if self.reason else f"{text}."


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """P(a before b) = 1 / (1 + e^(s_b - s_a)), by Newton's method; ties count as half a win each way.

    Strengths add up to 0 and intervals are Wald's, from the information on that scale. Where somebody never
    loses to the others (or never wins), the maximum lies at infinity: then half a vote each way is added to
    every pair that was compared, and the result is `censored` and says so.
    """

    level: float = 0.95
    least: int = 5  # votes

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, votes: Iterable[tuple[str, str, float]]) -> BradleyTerryFit:
        """`votes`: (one, other, 1 where the first was preferred, 0 where the second, 0.5 where equal)."""
        cast = [(a, b, float(x)) for a, b, x in votes if a != b]
        names = sorted({name for a, b, _ in cast for name in (a, b)})
        ties = sum(x == 0.5 for _, _, x in cast)
        if len(cast) < self.least or len(names) < 2:
            reason = f"{len(cast)} votes are too few: at least {self.least} are needed"
            return BradleyTerryFit("refused", reason, (), len(cast), ties, self.level)
        place = {name: i for i, name in enumerate(names)}
        wins = np.zeros((len(names), len(names)))
        for a, b, x in cast:
            wins[place[a], place[b]] += x
            wins[place[b], place[a]] += 1 - x
        met = wins + wins.T
        if not _connected(met > 0):
            reason = "not everybody was compared with everybody, not even through others"
            return BradleyTerryFit("refused", reason, (), len(cast), ties, self.level)
        separated = not (_reaches(wins > 0) and _reaches(wins.T > 0))
        pulled = wins + 0.5 * (met > 0) if separated else wins
        strength, error = _newton(pulled)
        half = critical(self.level) * error
        standings = [
            Standing(n, float(s), float(s - h), float(s + h), float(wins[i].sum()), round(float(met[i].sum())))
            for i, (n, s, h) in enumerate(zip(names, strength, half, strict=True))
        ]
        reason = "somebody won or lost every comparison, so half a vote each way was added" if separated else ""
        return BradleyTerryFit(
            "censored" if separated else "ok", reason,
            tuple(sorted(standings, key=lambda s: (-s.strength, s.name))), len(cast), ties, self.level,
        )  # fmt: skip


def _newton(wins: Floats) -> tuple[Floats, Floats]:
    """(strengths that add up to 0, their standard errors)."""
    met, count = wins + wins.T, len(wins)
    strength = np.zeros(count)
    centre = np.full((count, count), 1 / count)
    information = np.eye(count)
    for _ in range(100):
        p = 1 / (1 + np.exp(np.clip(strength[None, :] - strength[:, None], -40, 40)))
        gradient = wins.sum(1) - (met * p).sum(1)
        weight = met * p * (1 - p)
        information = np.diag(weight.sum(1)) - weight
        step = np.linalg.solve(information + centre, gradient)
        strength = strength + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-10:
            break
    covariance = np.linalg.inv(information + centre) - centre  # on the sum-to-zero scale
    return strength - strength.mean(), np.sqrt(np.maximum(np.diag(covariance), 0))


def _reaches(beats: npt.NDArray[np.bool_]) -> bool:
    """Whether everybody is reached from the first one."""
    seen = np.zeros(len(beats), dtype=bool)
    seen[0] = True
    for _ in range(len(beats)):
        seen |= beats[seen].any(0)
    return bool(seen.all())


def _connected(met: npt.NDArray[np.bool_]) -> bool:
    return _reaches(met | met.T)


def _share(strength: float) -> float:
    return float(1 / (1 + np.exp(-strength)))
