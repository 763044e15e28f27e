"""Tells how a run stands: whenever something is settled, and every second while nothing is.

By what is settled, an endpoint that takes requests and says nothing looks like one that is slow. So the note
also tells how many requests wait and for how long the oldest has, and what wait the server itself asks for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from bunny_probe.records import Attempt, Trial
from bunny_probe.runs.limits import Limits
from bunny_probe.runs.pace import Pace, Progress
from bunny_probe.runs.summary import RunSummary

__all__ = ["Reporter"]

_SECONDS_BETWEEN_REPORTS = 0.2
_SECONDS_BETWEEN_TICKS = 1.0
_WORTH_TELLING_S = 5.0  # a wait that is shorter is none


class Reporter:
    """`tell` gets a `Progress`; None: nobody wants to know."""

    def __init__(
        self,
        tell: Callable[[Progress], None] | None,
        summary: RunSummary,
        trials: Sequence[Trial],
        pending: Sequence[Trial],
        limits: Limits,
    ) -> None:
        self._tell, self._summary, self._limits = tell, summary, limits
        self._tokens_total = sum(trial.probe.length_tokens or 0 for trial in trials)
        self._tokens_done = self._tokens_total - sum(trial.probe.length_tokens or 0 for trial in pending)
        self._pace = Pace(pending)
        self._start = time.perf_counter()
        self._told_at = float("-inf")
        self.under_way: dict[int, float] = {}  # whatever names a request → when it was sent, by perf_counter

    def attempted(self, trial: Trial, attempt: Attempt) -> None:
        if self._tell is not None:
            self._pace.measured(trial, attempt)

    def settled(self, trial: Trial, *, asked: bool = True) -> None:
        """A trial needs no more time. `asked`: its prompt was sent."""
        if asked:
            self._tokens_done += trial.probe.length_tokens or 0
        self._pace.settled(trial)
        self.report()

    async def keep_reporting(self) -> None:
        """Until cancelled."""
        while self._tell is not None:
            await asyncio.sleep(_SECONDS_BETWEEN_TICKS)
            self.report(always=True)

    def report(self, *, always: bool = False) -> None:
        summary, now = self._summary, time.perf_counter()
        if self._tell is None or (not always and now - self._told_at < _SECONDS_BETWEEN_REPORTS):
            return
        self._told_at = now
        ages = [now - sent for sent in self.under_way.values()]
        self._tell(
            Progress(
                done=summary.already + summary.asked,
                total=summary.total,
                failures=summary.asked - summary.answered,
                tokens_done=self._tokens_done,
                tokens_total=self._tokens_total,
                eta_s=self._pace.left(now - self._start, sum(ages)),
                note=", ".join(part for part in (self._failed(), self._waiting(ages)) if part),
            )
        )

    def _failed(self) -> str:
        failures = self._summary.asked - self._summary.answered
        if not failures:
            return ""
        thought = self._summary.spent_on_reasoning
        why = f", {thought} of them spent on reasoning: allow it more tokens" if thought else ""
        return f"{failures} without an answer{why}"

    def _waiting(self, ages: Sequence[float]) -> str:
        if not ages and self._limits.paused_s > _WORTH_TELLING_S:
            return f"the server asks to wait {self._limits.paused_s:.0f} s"
        if not ages or max(ages) < _WORTH_TELLING_S:
            return ""
        return f"{len(ages)} waiting, the oldest for {max(ages):.0f} s"
