"""OpenAI text completions: a raw prompt, no chat template. For base models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from bunny_probe.endpoints.dialects._openai import OPTIONAL, bearer, decoding_fields, fold_common, take_index
from bunny_probe.endpoints.dialects.base import Reading, Request, as_name
from bunny_probe.records import Decoding, Message

__all__ = ["OpenAICompletions"]


class OpenAICompletions:
    name: ClassVar[str] = "openai-completions"
    path: ClassVar[str] = "/completions"
    chat: ClassVar[bool] = False
    optional: ClassVar[frozenset[str]] = OPTIONAL - {"top_logprobs", "max_tokens"}

    def headers(self, key: str | None) -> dict[str, str]:
        return bearer(key)

    def request(
        self, model: str, messages: Sequence[Message], decoding: Decoding, dropped: Collection[str]
    ) -> Request:
        fields, left_out = decoding_fields(decoding, dropped)
        body: dict[str, Any] = {"model": model, "prompt": plain_prompt(messages), "stream": True, **fields}
        if decoding.top_logprobs is not None:
            if "logprobs" in dropped:
                left_out.append("logprobs")
            else:
                body["logprobs"] = decoding.top_logprobs
        return Request(body, tuple(left_out))

    def reasoning(self, tokens: int) -> dict[str, Any]:
        return {}  # the answer's limit holds them

    def fold(self, reading: Reading, at: int, name: bytes, event: Mapping[str, Any]) -> None:
        choice = take_index(event)
        if choice is not None:
            reading.add_content(at, choice.get("text") or "")
            if logprobs := choice.get("logprobs"):
                _tokens(reading, at, logprobs)
            reading.finish = as_name(choice.get("finish_reason"), reading.finish)
        fold_common(reading, event)

    def whole(self, reading: Reading, at: int, body: Mapping[str, Any]) -> None:
        if take_index(body) is None:
            raise ValueError("no choices")
        self.fold(reading, at, b"", body)


def plain_prompt(messages: Sequence[Message]) -> str:
    """The messages as one text: their contents with an empty line between."""
    return "\n\n".join(message.content for message in messages)


def _tokens(reading: Reading, at: int, logprobs: Mapping[str, Any]) -> None:
    """The parallel lists of a completions chunk. A None (the first prompt token under `echo`) has no value."""
    tokens = logprobs.get("tokens") or ()
    alternatives = logprobs.get("top_logprobs") or [None] * len(tokens)
    for token, logprob, top in zip(tokens, logprobs["token_logprobs"], alternatives, strict=True):
        if logprob is None:
            continue
        ranked = sorted((top or {}).items(), key=lambda item: -item[1])
        alternatives_of = tuple([(text + "", float(value)) for text, value in ranked])
        reading.add_token(at, token, float(logprob), None, alternatives_of)
