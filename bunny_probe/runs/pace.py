"""How long the rest will take, from measured speed: prompt tokens and answer tokens, not a count of probes.

A campaign whose long prompts come last would be called nearly done by its count when most of its time is
still to come.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from bunny_probe.records import Attempt, Trial

__all__ = ["Pace", "Progress"]

_Kind = tuple[str, str, int | None, int]  # family, task, prompt tokens, answer limit


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands."""

    done: int  # trials settled, those of earlier runs included
    total: int
    failures: int  # trials of this run whose observation is a failure
    tokens_done: int  # prompt tokens, as planned, of the trials done
    tokens_total: int
    eta_s: float | None  # None: too little is measured to say
    note: str = ""


class Pace:
    """Fits time to first content as a + b·n + c·n² (n: uncached prompt tokens; a, b, c ≥ 0) and time per
    answer token, and predicts the remaining trials by their own lengths."""

    def __init__(self, remaining: Iterable[Trial]) -> None:
        self._remaining: Counter[_Kind] = Counter(_kind(trial) for trial in remaining)
        self._powers = [0.0] * 5  # weighted sums of n^0 … n^4: the fit's normal equations
        self._right = [0.0] * 3
        self._square = 0.0
        self._fitted: tuple[float, float, float] | None = None  # None: to be fitted anew
        self._decode_s = self._decode_tokens = 0.0
        self._answers: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._prompts = [0.0, 0.0]
        self._service = 0.0
        self._service_attempts = 0

    def settled(self, trial: Trial) -> None:
        """A trial needs no more time, whatever came of it."""
        kind = _kind(trial)
        self._remaining[kind] -= 1
        if self._remaining[kind] <= 0:
            del self._remaining[kind]

    def measured(self, trial: Trial, attempt: Attempt) -> None:
        """Learn from an attempt, also from one that failed: its time was spent."""
        timing, usage = attempt.timing, attempt.usage
        if timing is None or timing.end is None:
            return
        self._service += timing.end / 1e9
        self._service_attempts += 1
        first = timing.first_reasoning if timing.first_content is None else timing.first_content
        if timing.first_reasoning is not None and timing.first_content is not None:
            first = min(timing.first_reasoning, timing.first_content)
        prompt = usage.prompt_tokens if usage.prompt_tokens is not None else trial.probe.length_tokens
        if first is None or prompt is None:
            return
        self._prompts[0] += prompt
        self._prompts[1] += 1
        self._learn_first(max(0, prompt - (usage.cached_tokens or 0)), first / 1e9)
        if usage.completion_tokens:
            answers = self._answers[trial.probe.family, trial.probe.task]
            answers[0] += usage.completion_tokens
            answers[1] += 1
            self._decode_s += max(0.0, (timing.end - first) / 1e9)
            self._decode_tokens += usage.completion_tokens

    def left(self, elapsed_s: float, under_way_s: float) -> float | None:
        """Seconds until all remaining trials are settled, or None while nothing has been measured.

        `elapsed_s`: wall time of the run so far. `under_way_s`: summed ages of the requests under way.
        """
        if not self._remaining:
            return 0.0
        if not self._service_attempts:
            return None
        work = sum(count * self._predict(kind) for kind, count in self._remaining.items())
        # What a second of service costs in wall time: concurrency, rendering and waits are all in it.
        return max(0.0, work - under_way_s) * elapsed_s / max(self._service + under_way_s, 1e-9)

    def _predict(self, kind: _Kind) -> float:
        family, task, prompt, limit = kind
        if not self._prompts[1]:
            return self._service / self._service_attempts
        if prompt is None:
            prompt = round(self._prompts[0] / self._prompts[1])
        gap = self._decode_s / self._decode_tokens if self._decode_tokens else 0.0
        return self._first(prompt) + gap * self._expected_answer(family, task, limit)

    def _expected_answer(self, family: str, task: str, limit: int) -> float:
        """Mean answer tokens of this task so far, else of all tasks, else the limit."""
        seen = [self._answers[family, task]] if (family, task) in self._answers else [*self._answers.values()]
        answers = sum(count for _, count in seen)
        return sum(tokens for tokens, _ in seen) / answers if answers else float(limit)

    def _learn_first(self, prompt: int, seconds: float) -> None:
        x = prompt / 1e3
        weight = 1 / max(seconds, 1e-3) ** 2  # relative errors count, or the longest prompt would decide alone
        for power in range(5):
            self._powers[power] += weight * x**power
        for power in range(3):
            self._right[power] += weight * seconds * x**power
        self._square += weight * seconds * seconds
        self._fitted = None

    def _first(self, prompt: int) -> float:
        """Predicted seconds to first content."""
        if self._fitted is None:
            self._fitted = self._fit()
        constant, linear, square = self._fitted
        thousands = prompt / 1e3
        return constant + linear * thousands + square * thousands**2

    def _fit(self) -> tuple[float, float, float]:
        """The best non-negative coefficients, those of a simpler curve where it is as good."""
        import numpy as np

        normal = np.array([[self._powers[row + column] for column in range(3)] for row in range(3)])
        right = np.array(self._right)
        best, best_loss = np.zeros(3), float("inf")
        for terms in ([1], [0, 1], [1, 2], [0, 2], [0, 1, 2], [0]):
            try:
                solved = np.linalg.solve(normal[np.ix_(terms, terms)], right[terms])
            except np.linalg.LinAlgError:
                continue
            loss = self._square - float(solved @ right[terms])
            if (solved >= 0).all() and loss < 0.9 * best_loss - 1e-9:
                best, best_loss = np.zeros(3), loss
                best[terms] = solved
        return float(best[0]), float(best[1]), float(best[2])


def _kind(trial: Trial) -> _Kind:
    probe = trial.probe
    return probe.family, probe.task, probe.length_tokens, trial.decoding.max_tokens
