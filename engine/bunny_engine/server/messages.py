"""The two inputs a client may send: chat messages, and plain prompts."""

from __future__ import annotations

from typing import Any

from bunny_engine.server.errors import bad_request, unknown_name
from bunny_engine.server.fields import refuse, shown

__all__ = ["Message", "Messages", "Prompt", "Prompts", "TokenIds"]

Message = dict[str, str]  # role, content, and name where one was given
Prompt = str | list[int]

ROLES = ("system", "developer", "user", "assistant")

# Fields of an answer that clients hand back with the conversation; empty, they say nothing.
_EMPTY_ONLY = ("tool_calls", "function_call", "refusal", "audio", "annotations", "reasoning_content")


class Messages:
    """A non-empty array of messages. The content's text parts are joined as they are, with nothing between."""

    def read(self, name: str, value: Any) -> list[Message]:
        if not isinstance(value, list) or not value:
            raise refuse(name, "a non-empty array of messages", value)
        return [self._message(f"{name}[{index}]", message) for index, message in enumerate(value)]

    def _message(self, where: str, value: Any) -> Message:
        if not isinstance(value, dict):
            raise refuse(where, "an object with role and content", value)
        for key, item in value.items():
            if key in ("role", "content", "name"):
                continue
            if key not in _EMPTY_ONLY:
                raise bad_request(
                    unknown_name("field", f"{where}.{key}", ("role", "content", "name")), f"{where}.{key}"
                )
            if item not in (None, [], ""):
                raise bad_request(
                    f"{where}.{key} is not supported: this engine reads and writes text only.", f"{where}.{key}"
                )
        role = value.get("role")
        if not isinstance(role, str):
            raise refuse(f"{where}.role", f"one of {', '.join(ROLES)}", role)
        if role not in ROLES:
            raise bad_request(unknown_name(f"{where}.role", role, ROLES), f"{where}.role")
        # templates know the system's voice by its older name
        message = {"role": "system" if role == "developer" else role}
        message["content"] = self._content(f"{where}.content", value.get("content"))
        if (speaker := value.get("name")) is not None:
            if not isinstance(speaker, str):
                raise refuse(f"{where}.name", "a string", speaker)
            message["name"] = speaker
        return message

    def _content(self, where: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise refuse(where, "a string or an array of text parts", value)
        return "".join(self._part(f"{where}[{index}]", part) for index, part in enumerate(value))

    def _part(self, where: str, part: Any) -> str:
        if not isinstance(part, dict):
            raise refuse(where, 'an object such as {"type": "text", "text": "..."}', part)
        if part.get("type") != "text":
            kind = shown(part.get("type"))
            raise bad_request(
                f"{where}.type {kind} is not supported: this model reads text only.", f"{where}.type"
            )
        if not isinstance(part.get("text"), str):
            raise refuse(f"{where}.text", "a string", part.get("text"))
        return str(part["text"])


class TokenIds:
    """An array of integers, possibly empty; whether they are in the vocabulary is the encoder's to say."""

    def read(self, name: str, value: Any) -> list[int]:
        if not isinstance(value, list) or not all(type(token) is int for token in value):
            raise refuse(name, "an array of token ids", value)
        return value


_KINDS = {str: "a string", int: "a token id", list: "an array of token ids"}


class Prompts:
    """A string, an array of strings, an array of token ids, or an array of those: always given as a list."""

    def read(self, name: str, value: Any) -> list[Prompt]:
        if isinstance(value, str):
            return [value]
        if not isinstance(value, list) or not value:
            expected = "a string, or a non-empty array of strings, of token ids, or of arrays of token ids"
            raise refuse(name, expected, value)
        kind = type(value[0])
        if kind not in _KINDS:
            raise refuse(f"{name}[0]", ", ".join(_KINDS.values()), value[0])
        for index, item in enumerate(value):
            if type(item) is not kind:
                raise refuse(f"{name}[{index}]", f"{_KINDS[kind]}, as {name}[0] is", item)
            if kind is list and not (item and all(type(token) is int for token in item)):
                raise refuse(f"{name}[{index}]", "a non-empty array of token ids", item)
        return [value] if kind is int else list(value)
