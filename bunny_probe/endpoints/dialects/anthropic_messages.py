"""Anthropic messages: named events, a system text of its own, no log-probabilities, no seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from bunny_probe.endpoints.dialects.base import Reading, Request, as_count, as_name
from bunny_probe.records import Decoding, Message

__all__ = ["AnthropicMessages"]


_LEAST_THINKING = 1024  # tokens: the API takes no less


class AnthropicMessages:
    name: ClassVar[str] = "anthropic-messages"
    path: ClassVar[str] = "/messages"
    chat: ClassVar[bool] = True
    optional: ClassVar[frozenset[str]] = frozenset({"temperature", "top_p", "stop_sequences"})

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})

    def request(
        self, model: str, messages: Sequence[Message], decoding: Decoding, dropped: Collection[str]
    ) -> Request:
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        asked: dict[str, Any] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "stop_sequences": list(decoding.stop) or None,
        }
        asked = {name: value for name, value in asked.items() if value is not None}
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": decoding.max_tokens,
            "messages": [{"role": m.role, "content": m.content} for m in messages if m.role != "system"],
            "stream": True,
            **{name: value for name, value in asked.items() if name not in dropped},
        }
        if system:
            body["system"] = system
        # What this API has no field for is as good as refused: the record says so.
        without_field: dict[str, Any] = {
            "seed": decoding.seed,
            "frequency_penalty": decoding.frequency_penalty,
            "presence_penalty": decoding.presence_penalty,
            "repetition_penalty": decoding.repetition_penalty,
            "logprobs": decoding.top_logprobs,
        }
        left_out = [name for name in asked if name in dropped]
        left_out += [name for name, value in without_field.items() if value is not None]
        return Request(body, tuple(left_out))

    def reasoning(self, tokens: int) -> dict[str, Any]:
        if tokens < _LEAST_THINKING:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}}

    def fold(self, reading: Reading, at: int, name: bytes, event: Mapping[str, Any]) -> None:
        kind = event["type"]  # unknown kinds may be added and are passed over; one without a kind is no event
        if kind == "content_block_delta":
            delta = event["delta"]
            if delta.get("type") == "text_delta":
                reading.add_content(at, delta["text"])
            elif delta.get("type") == "thinking_delta":
                reading.add_reasoning(at, delta["thinking"])
        elif kind == "content_block_start":
            _block(reading, at, event["content_block"])
        elif kind == "message_start":
            reading.model = as_name(event["message"].get("model"))
            _usage(reading, event["message"].get("usage") or {})
        elif kind == "message_delta":
            reading.finish = as_name(event["delta"].get("stop_reason"), reading.finish)
            _usage(reading, event.get("usage") or {})
        elif kind == "message_stop":
            reading.done = True

    def whole(self, reading: Reading, at: int, body: Mapping[str, Any]) -> None:
        for block in body["content"]:
            _block(reading, at, block)
        reading.model = as_name(body.get("model"))
        reading.finish = as_name(body.get("stop_reason"))
        _usage(reading, body.get("usage") or {})


def _block(reading: Reading, at: int, block: Mapping[str, Any]) -> None:
    if block.get("type") == "text":
        reading.add_content(at, block.get("text") or "")
    elif block.get("type") == "thinking":
        reading.add_reasoning(at, block.get("thinking") or "")


def _usage(reading: Reading, usage: Mapping[str, Any]) -> None:
    """Anthropic counts the cached part of a prompt apart; the prompt's length is the sum."""
    fresh = as_count(usage.get("input_tokens"))
    if fresh is not None:
        read = as_count(usage.get("cache_read_input_tokens"))
        written = as_count(usage.get("cache_creation_input_tokens"))
        reading.prompt_tokens = fresh + (read or 0) + (written or 0)
        reading.cached_tokens = read if read is not None else reading.cached_tokens
    reading.completion_tokens = as_count(usage.get("output_tokens"), reading.completion_tokens)
