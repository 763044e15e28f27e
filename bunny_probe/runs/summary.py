"""What one session of asking came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bunny_probe.records import Outcome
from bunny_probe.runs.reader import UNSETTLED

__all__ = ["RunSummary"]


@dataclass(slots=True)
class RunSummary:
    """What one call of `run_trials` did."""

    total: int  # trials that were handed in
    already: int = 0  # settled by earlier runs
    asked: int = 0  # settled by this one
    outcomes: Counter[Outcome] = field(default_factory=Counter)  # of those
    unasked: int = 0  # prompt could not be built
    attempts: int = 0
    prompt_tokens: int = 0  # by the server's usage
    completion_tokens: int = 0
    cost: float | None = None  # in USD, when the provider or the price says
    elapsed_s: float = 0.0
    worst_lag_s: float = 0.0  # the client's own worst lateness
    invalid_timings: int = 0  # attempts whose times the client itself spoiled
    spent_on_reasoning: int = 0  # answers that never came: reasoning spent all that they were allowed

    @property
    def answered(self) -> int:
        return self.outcomes[Outcome.ANSWERED]

    @property
    def open(self) -> int:
        """Trials that another run would ask."""
        return self.total - self.already - self.asked + sum(self.outcomes[item] for item in UNSETTLED)
