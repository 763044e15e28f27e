"""What a plan will come to before anything is sent: calls, tokens, dollars, time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bunny_probe.endpoints.pricing import Price
from bunny_probe.records import Probe, Trial

__all__ = ["Estimate", "estimate"]

# Characters a token, for the prompts whose length the plan does not state. English is near 4.
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts are of one attempt a trial; retries come on top. None: not known without a price or a speed."""

    calls: int
    prompt_tokens: int
    estimated_prompts: int  # how many of the calls have no stated length: their tokens are a guess
    answer_tokens: int  # at most: the sum of the answer limits
    dollars: float | None  # at most: every answer at its limit
    price: Price | None
    seconds: float | None  # at the stated speed and limits
    longest_prompt: int


def estimate(
    trials: Sequence[Trial],
    *,
    price: Price | None = None,
    prefill_rate: float | None = None,
    decode_rate: float | None = None,
    concurrency: int = 1,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    reasoning_tokens: int = 0,
    rate: float | None = None,
) -> Estimate:
    """`prefill_rate`, `decode_rate`: tokens a second of one request; both are needed for a time, unless a rate
    limit alone decides it. The time is that of answers at their limit, so an upper one for that speed.
    `reasoning_tokens`: allowed on top of each answer. `rate`: requests a second of an open loop,
    whose time is the clock's."""
    lengths = [_length(trial.probe) for trial in trials]
    prompt = sum(lengths)
    answers = [trial.decoding.max_tokens + reasoning_tokens for trial in trials]
    answer = sum(answers)
    dollars = None
    if price is not None:
        dollars = sum(map(price.cost, lengths, answers))
    bounds = []
    if prefill_rate and decode_rate and not rate:
        bounds.append((prompt / prefill_rate + answer / decode_rate) / max(1, concurrency))
    if rate:
        bounds.append(len(trials) / rate)
    if requests_per_minute:
        bounds.append((len(trials) - 1) // requests_per_minute * 60.0 if trials else 0.0)
    if tokens_per_minute:
        bounds.append((prompt + answer) / tokens_per_minute * 60.0)
    return Estimate(
        calls=len(trials),
        prompt_tokens=prompt,
        estimated_prompts=sum(trial.probe.length_tokens is None for trial in trials),
        answer_tokens=answer,
        dollars=dollars,
        price=price,
        seconds=max(bounds) if bounds else None,
        longest_prompt=max(lengths, default=0),
    )


def _length(probe: Probe) -> int:
    if probe.length_tokens is not None:
        return probe.length_tokens
    recipe = probe.recipe
    texts = [recipe.system or "", recipe.head, recipe.tail, *(turn.content for turn in recipe.turns)]
    texts += [insertion.text for insertion in recipe.insertions]
    return -(-sum(len(text) for text in texts) // _CHARACTERS_A_TOKEN)
