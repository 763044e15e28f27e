"""What a dialect is, and what reading an answer in one gathers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from bunny_probe.records import Decoding, Message

__all__ = ["ApiError", "Dialect", "Reading", "Request", "as_count", "as_name"]


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error object, whichever of the many shapes it came in."""

    message: str
    code: str | None = None
    kind: str | None = None  # the `type` field
    param: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A body ready to be sent, and which of the asked fields are not in it."""

    body: dict[str, Any]
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class Reading:
    """What the events of one answer said, in order. Times are the arrivals that the events carried."""

    content: list[str] = field(default_factory=list)
    content_at: list[int] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    first_reasoning: int | None = None
    refusal: list[str] = field(default_factory=list)
    # one entry a token, where the server gives log-probabilities
    token: list[str] = field(default_factory=list)
    token_at: list[int] = field(default_factory=list)
    logprob: list[float] = field(default_factory=list)
    top: list[tuple[tuple[str, float], ...]] = field(default_factory=list)
    token_bytes: list[bytes | None] = field(default_factory=list)
    first_event: int | None = None
    events: int = 0
    finish: str | None = None  # the finish or stop reason as the server named it
    done: bool = False  # the dialect's own end-of-stream marker was seen
    error: ApiError | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None

    def add_content(self, at: int, text: str) -> None:
        if text:
            self.content.append(text + "")  # what is no text raises TypeError
            self.content_at.append(at)

    def add_reasoning(self, at: int, text: str) -> None:
        if text:
            if self.first_reasoning is None:
                self.first_reasoning = at
            self.reasoning.append(text + "")

    def add_token(
        self, at: int, text: str, logprob: float, raw: bytes | None, top: tuple[tuple[str, float], ...]
    ) -> None:
        """One token of the answer; all columns or none, so that they stay of one length."""
        self.token.append(text + "")  # what is no text raises TypeError
        self.token_at.append(at)
        self.logprob.append(logprob)
        self.token_bytes.append(raw)
        self.top.append(top)


def as_count(value: object, before: int | None = None) -> int | None:
    """A count as a server gave it, or `before` where it gave none that can be one."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if good else before  # type: ignore[return-value]


def as_name(value: object, before: str | None = None) -> str | None:
    """Likewise for a finish reason or a model name."""
    return value if isinstance(value, str) and value else before


class Dialect(Protocol):
    """How one family of APIs is spoken to. One small file each; others come in through the entry point group
    `bunny_probe.dialects`, whose entries are instances of this."""

    name: ClassVar[str]
    path: ClassVar[str]  # of the operation, behind the base URL
    chat: ClassVar[bool]  # whether the server applies a chat template
    optional: ClassVar[frozenset[str]]  # body fields that may be left out when a server refuses them

    def headers(self, key: str | None) -> dict[str, str]:
        """What carries the key, and what the API demands besides."""
        ...

    def request(
        self, model: str, messages: Sequence[Message], decoding: Decoding, dropped: Collection[str]
    ) -> Request:
        """A streaming request without the fields named in `dropped`."""
        ...

    def reasoning(self, tokens: int) -> dict[str, Any]:
        """Body fields that grant a model so many tokens to think with, where the API has such; else {}. The
        request's own limit holds them already."""
        ...

    def fold(self, reading: Reading, at: int, name: bytes, event: Mapping[str, Any]) -> None:
        """Take one decoded event into `reading`. A wrong shape may raise LookupError, TypeError,
        AttributeError or ValueError: the answer is then malformed."""
        ...

    def whole(self, reading: Reading, at: int, body: Mapping[str, Any]) -> None:
        """Likewise for an answer that came as one JSON body although a stream was asked."""
        ...
