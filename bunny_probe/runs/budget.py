"""A hard limit on what a run may cost: the worst case is reserved before sending and settled after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bunny_probe.endpoints.pricing import Price
from bunny_probe.errors import UsageError
from bunny_probe.records import Attempt, Message, Outcome, Rendered

__all__ = ["Budget", "Reservation"]

# Control tokens that a chat template puts around each message, at most.
_TEMPLATE_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that one exchange can cost."""

    prompt_tokens: int
    completion_tokens: int
    dollars: float


class Budget:
    """Limits in dollars, tokens (prompt and answer together) and calls; None: no limit.

    Until the server's own counts have confirmed the counter that planned the prompts, a prompt's worst case
    is its number of UTF-8 bytes, which no byte-level tokenizer exceeds; afterwards it is the planned count
    times the worst ratio seen. What cannot be known (a cut stream, a server without usage) is settled at the
    worst case.
    """

    def __init__(
        self,
        *,
        dollars: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        price: Price | None = None,
    ) -> None:
        if dollars is not None and price is None:
            raise UsageError("a budget in dollars needs a price: name one, or limit tokens or calls instead")
        for name, value in (("dollars", dollars), ("tokens", tokens), ("calls", calls)):
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"the budget in {name} must be a number of at least 0, got {value}")
        self.dollars, self.tokens, self.calls, self.price = dollars, tokens, calls, price
        self.spent_dollars, self.spent_tokens, self.spent_calls = 0.0, 0, 0
        self._reserved: list[Reservation] = []
        self._worst: tuple[int, int] | None = None  # (the server's count, ours) with the highest ratio seen

    @property
    def open(self) -> int:
        """Reservations not yet settled."""
        return len(self._reserved)

    def reserve(self, rendered: Rendered, max_tokens: int) -> Reservation | None:
        """Set the worst case of one exchange aside, or None when it does not fit into what is left."""
        prompt = self._worst_prompt(rendered)
        dollars = self.price.cost(prompt, max_tokens) if self.price else 0.0
        held = self._reserved
        if self.calls is not None and self.spent_calls + len(held) + 1 > self.calls:
            return None
        if self.tokens is not None:
            under_way = sum(item.prompt_tokens + item.completion_tokens for item in held)
            if self.spent_tokens + under_way + prompt + max_tokens > self.tokens:
                return None
        if (
            self.dollars is not None
            and self.spent_dollars + sum(r.dollars for r in held) + dollars > self.dollars
        ):
            return None
        reservation = Reservation(prompt, max_tokens, dollars)
        held.append(reservation)
        return reservation

    def settle(self, reservation: Reservation, attempt: Attempt | None, rendered: Rendered) -> None:
        """Replace a reservation by what was spent. `attempt` is None when the exchange was cancelled."""
        self._reserved.remove(reservation)
        self.spent_calls += 1
        if attempt is not None and _costs_nothing(attempt):
            return
        prompt, completion, dollars = (
            reservation.prompt_tokens,
            reservation.completion_tokens,
            reservation.dollars,
        )
        if attempt is not None and (usage := attempt.usage).prompt_tokens is not None:
            prompt = usage.prompt_tokens
            self._learn(prompt, rendered.intended_tokens)
            if usage.source == "usage" and usage.completion_tokens is not None:
                completion = usage.completion_tokens
            dollars = self.price.cost(prompt, completion) if self.price else 0.0
        if attempt is not None and attempt.usage.cost is not None:
            dollars = attempt.usage.cost
        self.spent_tokens += prompt + completion
        self.spent_dollars += dollars

    def told(self) -> str:
        """What was spent of what, in one line."""
        parts = []
        if self.calls is not None:
            parts.append(f"{self.spent_calls} of {self.calls} calls")
        if self.tokens is not None:
            parts.append(f"{self.spent_tokens:,} of {self.tokens:,} tokens")
        if self.dollars is not None:
            parts.append(f"${self.spent_dollars:.4f} of ${self.dollars:.4f}")
        return ", ".join(parts) or "no limit"

    def _learn(self, counted: int, planned: int | None) -> None:
        if planned and (self._worst is None or counted * self._worst[1] > self._worst[0] * planned):
            self._worst = counted, planned

    def _worst_prompt(self, rendered: Rendered) -> int:
        if rendered.intended_tokens is not None and self._worst is not None:
            counted, planned = self._worst
            return -(-rendered.intended_tokens * counted // planned)  # rounded up
        return max(_most_tokens(rendered.messages), rendered.intended_tokens or 0)


def _most_tokens(messages: Sequence[Message]) -> int:
    return sum(len(m.content.encode("utf-8", "replace")) + _TEMPLATE_TOKENS for m in messages)


def _costs_nothing(attempt: Attempt) -> bool:
    """Whether nothing was generated: the request was refused, or never arrived."""
    if attempt.outcome is Outcome.TRANSPORT:
        timing = attempt.timing
        return timing is not None and timing.connected is None and not timing.connection_reused
    return attempt.status is not None and 400 <= attempt.status < 500
