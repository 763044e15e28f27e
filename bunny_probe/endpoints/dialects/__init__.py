"""The dialects by name: the built-in ones and those that the entry point group `bunny_probe.dialects` adds."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from bunny_probe.endpoints.dialects.anthropic_messages import AnthropicMessages
from bunny_probe.endpoints.dialects.base import ApiError, Dialect, Reading, Request
from bunny_probe.endpoints.dialects.openai_chat import OpenAIChat
from bunny_probe.endpoints.dialects.openai_completions import OpenAICompletions
from bunny_probe.endpoints.dialects.openrouter import OpenRouter
from bunny_probe.errors import UsageError, unknown_choice

__all__ = ["ApiError", "Dialect", "Reading", "Request", "dialect", "dialect_names"]

_BUILT_IN: tuple[Dialect, ...] = (OpenAIChat(), OpenAICompletions(), AnthropicMessages(), OpenRouter())


@cache
def _known() -> dict[str, Dialect]:
    known: dict[str, Dialect] = {item.name: item for item in _BUILT_IN}
    for entry in entry_points(group="bunny_probe.dialects"):
        known.setdefault(entry.name, entry.load())
    return known


def dialect_names() -> list[str]:
    return sorted(_known())


def dialect(name: str) -> Dialect:
    """The dialect called `name`. Raises UsageError that lists the choices."""
    try:
        return _known()[name]
    except KeyError:
        raise UsageError(unknown_choice("dialect", name, dialect_names())) from None
