"""How likely the model finds the right answer, read from log-probabilities: no sampling, no parsing.

value = exp(mean log-probability a token) of the likeliest accepted answer: the geometric mean probability.
With `expectation.distractors` the value is instead the accepted answers' share of the probability of all
candidates (a softmax over whole answers, each divided by its length as in lm-eval's acc_norm): multiple
choice by likelihood, where chance is 1 / candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Message, Probe, Score
from bunny_probe.scores.base import clip
from bunny_probe.scores.remote import LogLikelihood, RemoteScorer

__all__ = ["Likelihood"]


@dataclass(frozen=True, slots=True)
class Likelihood(RemoteScorer[LogLikelihood]):
    """Calls once for each accepted answer and distractor. The observation's own text is not read."""

    name: ClassVar[str] = "likelihood"

    async def judge(self, probe: Probe, text: str, prompt: Sequence[Message], call: LogLikelihood) -> Score:
        accepted, wrong = probe.expectation.answers, probe.expectation.distractors
        if not accepted:
            return self.unscored("the expectation holds no reference")
        means = []
        for candidate in (*accepted, *wrong):
            logprobs = await call(prompt, candidate)
            if not logprobs or any(not value <= 1e-6 for value in logprobs):
                return self.unscored(f"log-probabilities unavailable for {clip(candidate)!r}")
            means.append(math.fsum(logprobs) / len(logprobs))
        best = max(range(len(means)), key=means.__getitem__)
        likeliest = (*accepted, *wrong)[best]
        if not wrong:
            value = min(1.0, math.exp(max(means)))
            return self.result(
                value, "partial", f"{value:.3g} a token for {clip(likeliest)!r}", mean=max(means)
            )
        weights = [math.exp(mean - max(means)) for mean in means]
        value = math.fsum(weights[: len(accepted)]) / math.fsum(weights)
        label = "hit" if best < len(accepted) else "wrong_anchor"
        return self.result(
            value, label, f"finds {clip(likeliest)!r} the likeliest of {len(means)}", means=means
        )
