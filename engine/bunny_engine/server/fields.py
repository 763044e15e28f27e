"""A small table-driven validator: a table maps field names to kinds, and a kind reads one JSON value.

Every refusal names the field, what is allowed, and what was given. `null` means "not given".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bunny_engine.server.errors import ApiError, bad_request, unknown_name

__all__ = [
    "Flag",
    "Integer",
    "Kind",
    "Number",
    "Only",
    "StopStrings",
    "Table",
    "Text",
    "Texts",
    "refuse",
    "shown",
]


def shown(value: object, most: int = 60) -> str:
    """A value as the client wrote it, short enough for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def refuse(name: str, expected: str, given: object) -> ApiError:
    return bad_request(f"{name} must be {expected}; got {shown(given)}.", name)


class Kind(Protocol):
    def read(self, name: str, value: Any) -> Any:
        """The checked value. Raises ApiError (400) that names the field."""
        ...


@dataclass(frozen=True, slots=True)
class Integer:
    low: int
    high: int

    def read(self, name: str, value: Any) -> int:
        # 10.0 is the same JSON number as 10
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value == math.floor(value)
        if not whole or not self.low <= value <= self.high:
            raise refuse(name, f"an integer from {self.low} to {self.high}", value)
        return int(value)


@dataclass(frozen=True, slots=True)
class Number:
    low: float
    high: float

    def read(self, name: str, value: Any) -> float:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not self.low <= value <= self.high:
            raise refuse(name, f"a number from {self.low:g} to {self.high:g}", value)
        return float(value)


@dataclass(frozen=True, slots=True)
class Flag:
    def read(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise refuse(name, "true or false", value)
        return value


@dataclass(frozen=True, slots=True)
class Text:
    def read(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise refuse(name, "a string", value)
        return value


@dataclass(frozen=True, slots=True)
class Texts:
    """A string, or a non-empty array of them: always given as a list."""

    def read(self, name: str, value: Any) -> list[str]:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise refuse(name, "a string or a non-empty array of strings", value)
        return texts


@dataclass(frozen=True, slots=True)
class JsonObject:
    """Any JSON object that is nested at most `depth` deep."""

    depth: int = 8

    def read(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise refuse(name, "an object", value)
        level: list[Any] = [value]
        for _ in range(self.depth):
            level = [
                item
                for holder in level
                if isinstance(holder, dict | list)
                for item in (holder.values() if isinstance(holder, dict) else holder)
            ]
        if level:
            raise bad_request(f"{name} is nested more than {self.depth} deep.", name)
        return value


@dataclass(frozen=True, slots=True)
class StopStrings:
    """A string, or an array of them."""

    most: int
    longest: int

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        strings = [value] if isinstance(value, str) else value
        if not isinstance(strings, list) or len(strings) > self.most:
            raise refuse(name, f"a string or an array of at most {self.most} strings", value)
        for index, string in enumerate(strings):
            if not isinstance(string, str) or not 1 <= len(string) <= self.longest:
                raise refuse(f"{name}[{index}]", f"a string of 1 to {self.longest} characters", string)
        return tuple(dict.fromkeys(strings))


@dataclass(frozen=True, slots=True)
class Only:
    """A field whose feature this engine lacks: accepted where it asks for nothing, refused where it would."""

    neutral: tuple[object, ...]
    why: str

    def read(self, name: str, value: Any) -> None:
        if not any(type(value) is type(allowed) and value == allowed for allowed in self.neutral):
            raise bad_request(
                f"{name} is not supported: {self.why} (got {shown(value)}).", name, "unsupported_parameter"
            )


@dataclass(frozen=True, slots=True)
class Table:
    """`fields`: what is read. `ignored`: what cannot change an answer, accepted in silence."""

    fields: Mapping[str, Kind]
    ignored: frozenset[str] = frozenset()
    required: Sequence[str] = ()

    def read(self, body: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """The given fields, checked; a field that is absent or null is not in the result."""
        for name in body:
            if name not in self.fields and name not in self.ignored:
                raise bad_request(
                    unknown_name("field", prefix + name, self.fields), prefix + name, "unknown_parameter"
                )
        for name in self.required:
            if body.get(name) is None:
                raise bad_request(f"{prefix}{name} is required.", prefix + name, "missing_required_parameter")
        return {
            name: self.fields[name].read(prefix + name, value)
            for name, value in body.items()
            if value is not None and name in self.fields
        }
