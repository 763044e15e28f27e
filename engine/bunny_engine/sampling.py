"""From logits to a token, and to log-probabilities. Pure but for the request's own random generator."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from bunny_engine.types import SamplingParams, TopTokens

__all__ = ["Sampler", "prompt_scores", "top_tokens"]


class Sampler:
    """One request's sampling: its parameters, its own generator, and what it has seen.

    Penalties: repetition (Keskar et al., 1909.05858) on tokens of prompt and answer, frequency and presence as
    OpenAI defines them on tokens of the answer. Log-probabilities are those of the unmodified distribution.
    """

    def __init__(self, params: SamplingParams, prompt_ids: Iterable[int]) -> None:
        self.params = params
        self._generator = torch.Generator()
        self._generator.manual_seed(secrets.randbits(63) if params.seed is None else params.seed)
        self._answer: Counter[int] = Counter()
        self._prompt = sorted(set(prompt_ids)) if params.repetition_penalty != 1.0 else []

    def pick(self, logits: Tensor) -> tuple[int, float | None, TopTokens]:
        """The next token of float32 logits [vocab], its log-probability and the alternatives, if asked for.

        Raises ArithmeticError when the logits are not finite.
        """
        if not bool(logits.isfinite().all()):
            raise ArithmeticError("the model's logits are not finite")
        token = self._draw(self._penalised(logits))
        self._answer[token] += 1
        if self.params.top_logprobs is None:
            return token, None, ()
        scores = torch.log_softmax(logits, dim=-1)
        return token, float(scores[token]), top_tokens(scores, self.params.top_logprobs)

    def _penalised(self, logits: Tensor) -> Tensor:
        params = self.params
        if params.repetition_penalty != 1.0:
            seen = torch.tensor(sorted({*self._prompt, *self._answer}), dtype=torch.long)
            value = logits[seen]
            factor = params.repetition_penalty
            logits = logits.clone()
            logits[seen] = torch.where(value > 0, value / factor, value * factor)
        if self._answer and (params.frequency_penalty or params.presence_penalty):
            used = torch.tensor(list(self._answer), dtype=torch.long)
            count = torch.tensor(list(self._answer.values()), dtype=torch.float32)
            logits = logits.clone()
            logits[used] -= params.frequency_penalty * count + params.presence_penalty
        return logits

    def _draw(self, logits: Tensor) -> int:
        params = self.params
        if params.temperature < 1e-5:  # below this the division overflows, and the answer is the greedy one
            return int((logits == logits.max()).nonzero()[0])  # the lowest id among equals
        weights = torch.softmax(logits.double() / params.temperature, dim=-1)
        order: Tensor | None = None
        if params.top_p < 1.0:
            weights, order = weights.sort(descending=True, stable=True)
            before = weights.cumsum(0) - weights
            kept = max(1, int((before < params.top_p).sum()))  # the smallest set that reaches top_p
            weights = weights[:kept]
        cumulated = weights.cumsum(0)
        # One uniform number a token, whatever the parameters: so a seed means the same draw everywhere.
        aim = torch.rand((), generator=self._generator, dtype=torch.float64) * cumulated[-1]
        index = min(int(torch.searchsorted(cumulated, aim, right=True)), len(cumulated) - 1)
        return index if order is None else int(order[index])


def top_tokens(scores: Tensor, count: int) -> TopTokens:
    """The `count` best of log-probabilities [vocab], best first; among equals the lower id first."""
    count = min(count, scores.numel())
    if count == 0:
        return ()
    least = torch.topk(scores, count).values[-1]
    ids = (scores >= least).nonzero().flatten().tolist()  # all that tie with the last one, too
    best = sorted(((token, float(scores[token])) for token in ids), key=lambda pair: (-pair[1], pair[0]))
    return tuple(best[:count])


def prompt_scores(logits: Tensor, targets: Tensor, count: int) -> list[tuple[float, TopTokens]]:
    """Log-probability of each target and the alternatives: logits [n, vocab] in float32, targets [n]."""
    scores = torch.log_softmax(logits, dim=-1)
    chosen = scores.gather(1, targets[:, None]).flatten().tolist()
    return [(chosen[row], top_tokens(scores[row], count)) for row in range(len(chosen))]
