"""What a request asks for, in one shape for all dialects, and the error a request can be answered with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["ApiError", "Ask", "Fields"]

DialectName = Literal["chat", "completions", "anthropic"]


@dataclass(frozen=True, slots=True)
class ApiError(Exception):
    """A refusal with its status; each dialect writes it in its own shape."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    dialect: DialectName
    model: str
    messages: tuple[tuple[str, str], ...]  # (role, content); a bare prompt is one user message
    prompt: str | None  # the bare prompt of a completion
    fields: frozenset[str]  # top-level names of the request
    max_tokens: int | None = None
    temperature: float = 1.0
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    top: int | None = None  # alternatives a token; None: no log-probabilities
    stream: bool = False
    include_usage: bool = False
    echo: bool = False
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0


class Fields:
    """Reads a request's fields, with the errors that OpenAI's server gives."""

    def __init__(self, body: object) -> None:
        if not isinstance(body, dict):
            raise ApiError(400, "The request body must be a JSON object.")
        self.body: dict[str, Any] = body

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self.body.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, "must be a number")
        if not low <= value <= high:
            raise self.wrong(name, f"must be between {low:g} and {high:g}")
        return float(value)

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, "must be an integer")
        if not low <= value <= high:
            raise self.wrong(name, f"must be between {low} and {high}")
        return value

    def flag(self, name: str) -> bool:
        value = self.body.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def text(self, name: str) -> str:
        value = self.body.get(name)
        if not isinstance(value, str) or not value:
            raise self.wrong(name, "must be a non-empty string")
        return value

    def stop(self, name: str, most: int = 16) -> tuple[str, ...]:
        value = self.body.get(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise self.wrong(name, "must be a string or a list of strings")
        if len(values) > most:
            raise self.wrong(name, f"may hold {most} strings")
        return tuple(item for item in values if item)

    def include_usage(self, stream: bool) -> bool:
        options = self.body.get("stream_options")
        if options is None:
            return False
        if not stream:
            raise self.wrong("stream_options", "is only allowed when stream is true")
        if not isinstance(options, dict) or not isinstance(options.get("include_usage", False), bool):
            raise self.wrong("stream_options", "must be an object with include_usage")
        return bool(options.get("include_usage", False))

    def messages(self) -> tuple[tuple[str, str], ...]:
        value = self.body.get("messages")
        if not isinstance(value, list) or not value:
            raise self.wrong("messages", "must be a non-empty list")
        chat: list[tuple[str, str]] = []
        for index, message in enumerate(value):
            where = f"messages[{index}]"
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                raise self.wrong(where, "must be an object with a role")
            chat.append((message["role"], self.content(message.get("content"), f"{where}.content")))
        return tuple(chat)

    def content(self, value: object, where: str) -> str:
        """A string, or the joined texts of a list of parts."""
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        if isinstance(value, Sequence):
            parts: list[str] = []
            for part in value:
                if not isinstance(part, dict) or not isinstance(part.get("text"), str):
                    raise self.wrong(where, "may only hold text parts")
                parts.append(part["text"])
            return "".join(parts)
        raise self.wrong(where, "must be a string or a list of text parts")

    @staticmethod
    def wrong(name: str, reason: str) -> ApiError:
        return ApiError(400, f"Invalid value for '{name}': it {reason}.", param=name, code="invalid_value")
