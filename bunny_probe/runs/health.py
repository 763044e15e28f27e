"""Whether the endpoint as a whole can still be used, judged from each attempt as it comes."""

from __future__ import annotations

import time

from bunny_probe.endpoints import EndpointSpec
from bunny_probe.endpoints.preflight import error_for
from bunny_probe.errors import EndpointError, ProtocolError, Unauthorised
from bunny_probe.records import Attempt, Outcome
from bunny_probe.runs.retries import Retries

__all__ = ["Health"]

_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"})


class Health:
    """Says when to stop, and never on account of one probe where others are answered.

    Before anything was answered: at once on a refused key or an unknown model, after three attempts in a row
    that reached nobody, and after two that took all their time without a byte. Later: after three refusals in a
    row, when a trial used up all its attempts without a sign of life since its first, or when five trials in a
    row came to nothing but transient failures. Three requests in a row that are called bad, before any answer,
    mean that all of them are.
    """

    def __init__(self, spec: EndpointSpec, retries: Retries) -> None:
        self._spec = spec
        self._patience = min(3, retries.attempts)
        self._answered = False
        self._alive_at = float("-inf")  # when a response, of whatever kind, last came
        self._unreached = self._refused = self._exhausted = self._rejected = 0  # each: in a row

    def judge(self, attempt: Attempt, began: float, *, last: bool) -> EndpointError | None:
        """The reason to stop after `attempt`, or None. `began`: `time.monotonic` at the trial's first attempt;
        `last`: no other attempt of the trial will follow."""
        outcome = attempt.outcome
        if attempt.error_code in _NO_CREDIT:
            return Unauthorised(f"{self._spec.host} refuses for want of credit ({attempt.evidence}): top it up")
        if attempt.status is not None:
            self._alive_at, self._unreached = time.monotonic(), 0
        silent = outcome is Outcome.TIMEOUT and attempt.status is None
        if outcome is Outcome.TRANSPORT or silent:
            self._unreached += 1
            never = not self._answered and self._unreached >= (
                min(2, self._patience) if silent else self._patience
            )
            if never or (last and self._alive_at < began):
                return error_for(self._spec, attempt)
        self._refused = self._refused + 1 if outcome in (Outcome.UNAUTHORISED, Outcome.NOT_FOUND) else 0
        if self._refused and (not self._answered or self._refused >= 3):
            return error_for(self._spec, attempt)
        if attempt.status is not None and 300 <= attempt.status < 400:
            return ProtocolError(f"{self._spec.url} sends requests elsewhere ({attempt.evidence})")
        self._rejected = self._rejected + 1 if outcome is Outcome.BAD_REQUEST else 0
        if self._rejected >= 3 and not self._answered:
            return ProtocolError(f"{self._spec.host} refuses every request ({attempt.evidence})")
        if not outcome.transient:
            self._answered = self._answered or attempt.status == 200
            self._exhausted = 0
        elif last:
            self._exhausted += 1
            if self._exhausted >= 5:
                return error_for(self._spec, attempt) or EndpointError(
                    f"{self._spec.host} keeps failing: {self._exhausted} probes in a row ended in "
                    f"{outcome.value} ({attempt.evidence}). What came is kept; run again to go on"
                )
        return None
