"""A stream before it is bytes: the events in order, each with its kind and the moment it is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from bunny_probe.phantom.ask import ApiError, Ask
from bunny_probe.phantom.reply import Reply, Usage

__all__ = ["Dialect", "Kind", "Step"]

Kind = Literal["open", "reasoning", "content", "finish", "usage", "done", "error", "raw"]


@dataclass(slots=True)
class Step:
    """One event. Changed in place by faults, so not frozen; it lives for one response."""

    kind: Kind
    payload: dict[str, Any] | None  # None: `raw` is sent as the event's data
    event: str | None = None  # the `event:` field
    token: int | None = None  # number of the last token that this event carries, over reasoning and content
    raw: str | None = None
    tokens: int = 1  # how many tokens a content or reasoning event carries
    due: float = 0.0  # seconds after the request arrived


class Dialect(Protocol):
    """One way of speaking over HTTP."""

    def parse(self, body: object) -> list[Ask]:
        """One ask for each prompt in the request. Raises ApiError."""
        ...

    def steps(self, ask: Ask, reply: Reply) -> list[Step]: ...

    def body(self, ask: Ask, reply: Reply) -> dict[str, Any]: ...

    def usage(self, usage: Usage, price_shown: bool) -> dict[str, Any]: ...

    def error(self, error: ApiError) -> Mapping[str, Any]: ...
