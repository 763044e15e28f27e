"""The longest prompt that an endpoint reads, by bisection over real calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bunny_probe.records import Attempt, Decoding, Message, Outcome

__all__ = ["ContextLimit", "find_context_limit"]

Ask = Callable[[list[Message], Decoding], Awaitable[Attempt]]

_SENTENCE = "The keeper wrote the weather down again. "
_LOOK = Decoding(max_tokens=1, top_logprobs=None)
_CLOSE = 0.02  # the bisection ends when refused and read are this close


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """`tokens`: prompt tokens read at most, within 2 %; None where none was found up to what was allowed."""

    tokens: int | None
    truncates: bool  # the server counted fewer tokens for a longer prompt: it drops some without a word
    told: str


async def find_context_limit(ask: Ask, most_tokens: int) -> ContextLimit:
    """Double the prompt until it is refused or `most_tokens` is reached, then bisect.

    Needs `usage`: tokens are as the server counts them, so no tokenizer is. A count that does not grow with the
    prompt is silent truncation.
    """
    low, counted = 16, await _count(ask, 16)
    if counted is None:
        return ContextLimit(None, False, "no usage is told: prompt tokens cannot be counted")
    each = counted / 16
    high = None
    while high is None:
        size = min(low * 2, int(most_tokens / each))
        if size <= low:
            return ContextLimit(None, False, f"{counted:,} tokens are read; more was not allowed")
        seen = await _count(ask, size)
        if seen is None:
            high = size
        elif seen < 0.75 * size * each:  # far fewer than sentences were added
            return ContextLimit(None, True, f"{size * each:,.0f} tokens were sent, {seen:,} counted")
        else:
            low, counted, each = size, seen, seen / size
    while high - low > max(1, low * _CLOSE):
        middle = (low + high) // 2
        seen = await _count(ask, middle)
        if seen is None:
            high = middle
        else:
            low, counted = middle, seen
    return ContextLimit(counted, False, f"{counted:,} tokens are read, {high * each:,.0f} refused")


async def _count(ask: Ask, sentences: int) -> int | None:
    """Prompt tokens that the server counts for so many sentences; None when it refuses or tells nothing."""
    attempt = await ask([Message("user", _SENTENCE * sentences)], _LOOK)
    if attempt.outcome in (Outcome.CONTEXT_REFUSED, Outcome.BAD_REQUEST):
        return None
    return attempt.usage.prompt_tokens
