"""Degenerate repetition: how much of the answer is said again?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer
from bunny_probe.scores.text import fold, words

__all__ = ["Repetition", "repeated_share"]


@dataclass(frozen=True, slots=True)
class Repetition(Scorer):
    """value = distinct n-grams / n-grams (distinct-n, Li et al. 2016), over the answer's words.

    1 is an answer without repetition, near 0 a loop. Answers shorter than `size` words are not scored:
    they hold no n-gram. `limit` keeps long answers comparable, since distinct-n falls with length.
    """

    name: ClassVar[str] = "repetition"
    size: int = 4
    limit: int = 256  # words read

    def judge(self, probe: Probe, text: str) -> Score:
        given = words(fold(text))[: self.limit]
        share = repeated_share(given, self.size)
        if share is None:
            return self.unscored(f"{len(given)} words hold no group of {self.size}")
        value = 1.0 - share
        label = "hit" if value == 1.0 else "partial" if value > 0 else "miss"
        return self.result(value, label, f"{share:.0%} of groups of {self.size} words repeat", words=len(given))


def repeated_share(given: list[str], size: int) -> float | None:
    """Share of n-grams that stood before; None when there is no n-gram."""
    groups = [tuple(given[i : i + size]) for i in range(len(given) - size + 1)]
    return 1.0 - len(set(groups)) / len(groups) if groups else None
