"""How many answers an estimate needs, before paying for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.fits.proportions import critical, wilson
from bunny_probe.fits.result import Result, Status
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PlanForDifference", "PlanForShare", "SampleSize"]


@dataclass(frozen=True, slots=True)
class SampleSize(Result):
    status: Status
    reason: str
    question: str  # what is planned for, in words
    documents: int | None  # independent documents needed (a cell, or in each run)
    answers: int | None  # answers in all: documents × trials a document
    reached: float | None  # the half-width or the power that this number gives
    level: float

    def table(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([{"question": self.question, "documents": self.documents, "answers": self.answers}])

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No plan: {self.reason}."
        return f"{self.question}: {self.documents:,} documents, {self.answers:,} answers."


@dataclass(frozen=True, slots=True)
class PlanForShare:
    """Documents for which Wilson's interval of a share is at most `half_width` to each side on average."""

    half_width: float = 0.1
    share: float = 0.5  # expected; 0.5 is the worst case
    trials: int = 1  # a document: anchors asked of it, repeats
    alike: float = 0.0  # correlation of trials of one document; 1 for repeats at temperature 0
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self) -> SampleSize:
        question = f"a share near {self.share:g} to within ±{self.half_width:g} ({self.level:.0%})"
        if not (
            0 < self.half_width < 0.5 and 0 <= self.share <= 1 and self.trials >= 1 and 0 <= self.alike <= 1
        ):
            return SampleSize(
                "refused", "half_width lies in (0, 0.5), share and alike in [0, 1], trials from 1",
                question, None, None, None, self.level,
            )  # fmt: skip
        effect = 1 + (self.trials - 1) * self.alike  # Kish's design effect
        n = np.unique(np.geomspace(1, 1e7, 4000).astype(np.int64)).astype(float)
        n = np.unique(np.concatenate([np.arange(1, 2000, dtype=float), n]))
        low, high = wilson(self.share * n, n, self.level)
        enough = np.flatnonzero((high - low) / 2 <= self.half_width)
        effective = n[enough[0]]
        documents = int(np.ceil(effective * effect / self.trials))
        return SampleSize(
            "ok", "", question, documents, documents * self.trials,
            float((high - low)[enough[0]] / 2), self.level,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlanForDifference:
    """Paired documents with which a fall of `difference` in a share is found with the stated power.

    `together`: the correlation of the two runs' answers to one probe. The variance of a pair's difference is
    p1(1-p1) + p2(1-p2) - 2·together·√(p1(1-p1)p2(1-p2)); the test is two-sided at 1 - `level`, divided by
    `questions` (Bonferroni, which Holm never needs more than).
    """

    difference: float = 0.1
    share: float = 0.85  # of the first run
    together: float = 0.3
    power: float = 0.8
    questions: int = 1
    trials: int = 1
    alike: float = 0.0
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self) -> SampleSize:
        question = f"a fall of {self.difference:g} from {self.share:g} with power {self.power:.0%}"
        second = self.share - self.difference
        if not (0 < self.difference < 1 and 0 <= second <= self.share <= 1 and 0 < self.power < 1):
            return SampleSize(
                "refused", "share and share - difference lie in [0, 1], power in (0, 1)",
                question, None, None, None, self.level,
            )  # fmt: skip
        v1, v2 = self.share * (1 - self.share), second * (1 - second)
        variance = v1 + v2 - 2 * self.together * np.sqrt(v1 * v2)
        variance = max(float(variance), self.difference - self.difference**2)  # each lost hit is a changed pair
        z = critical(1 - (1 - self.level) / self.questions) + critical(2 * self.power - 1)
        effect = (1 + (self.trials - 1) * self.alike) / self.trials
        # 2 more pairs: the interval is pulled by two pseudo-pairs; exact tests on few changes need some more
        documents = int(np.ceil((z / self.difference) ** 2 * variance * effect * 1.06 + 4))
        return SampleSize("ok", "", question, documents, documents * self.trials, self.power, self.level)
