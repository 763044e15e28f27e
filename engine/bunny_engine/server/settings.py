"""What an operator may set about the server; the model and the engine are set elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["Settings"]


def _local_time() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Raises ValueError on a value that could only be a mistake."""

    api_key: str | None = field(default=None, repr=False)  # None: no key is asked for
    aliases: tuple[str, ...] = ()  # further names under which the model answers
    max_body_bytes: int = 32 * 2**20
    chat_max_tokens: int | None = None  # when a chat request names none; None: the rest of the context
    completion_max_tokens: int = 16  # when a completion request names none, as OpenAI documents
    max_choices: int = 256  # prompts × n in one request
    parallel_choices: int = 8  # of one request that run at a time; the others wait their turn
    now: Callable[[], datetime] = _local_time  # the clock that chat templates may print

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("the API key is empty: set its variable, or name none to serve without a key")
        for name in ("max_body_bytes", "completion_max_tokens", "max_choices", "parallel_choices"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
