"""OpenAI chat completions: what OpenAI, vLLM, SGLang, llama.cpp, most gateways and our own engine speak."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from bunny_probe.endpoints.dialects._openai import OPTIONAL, bearer, decoding_fields, fold_common, take_index
from bunny_probe.endpoints.dialects.base import Reading, Request, as_name
from bunny_probe.records import Decoding, Message

__all__ = ["OpenAIChat"]


class OpenAIChat:
    name: ClassVar[str] = "openai-chat"
    path: ClassVar[str] = "/chat/completions"
    chat: ClassVar[bool] = True
    optional: ClassVar[frozenset[str]] = OPTIONAL

    def headers(self, key: str | None) -> dict[str, str]:
        return bearer(key)

    def request(
        self, model: str, messages: Sequence[Message], decoding: Decoding, dropped: Collection[str]
    ) -> Request:
        fields, left_out = decoding_fields(decoding, dropped)
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "stream": True,
            **fields,
        }
        if decoding.top_logprobs is not None:
            if "logprobs" in dropped:
                left_out.append("logprobs")
            else:
                body["logprobs"] = True
                if "top_logprobs" in dropped:
                    left_out.append("top_logprobs")
                else:
                    body["top_logprobs"] = decoding.top_logprobs
        return Request(body, tuple(left_out))

    def reasoning(self, tokens: int) -> dict[str, Any]:
        return {}  # the answer's limit holds them

    def fold(self, reading: Reading, at: int, name: bytes, event: Mapping[str, Any]) -> None:
        for choice in event.get("choices") or ():
            if choice.get("index"):
                continue  # one answer is asked, and one is read
            delta = choice.get("delta") or {}
            text = delta.get("content")
            if len(delta) == 1 and type(text) is str and not choice.get("logprobs"):
                # A piece of text and nothing else: what nearly every event is.
                if text:
                    reading.content.append(text)
                    reading.content_at.append(at)
                if choice.get("finish_reason"):
                    reading.finish = as_name(choice["finish_reason"], reading.finish)
            else:
                _choice(reading, at, choice, delta)
            break
        if reading.model is None or event.get("usage"):
            fold_common(reading, event)

    def whole(self, reading: Reading, at: int, body: Mapping[str, Any]) -> None:
        choice = take_index(body)
        if choice is None:
            raise ValueError("no choices")
        _choice(reading, at, choice, choice.get("message") or {})
        fold_common(reading, body)


def _choice(reading: Reading, at: int, choice: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
    content = delta.get("content")
    if content:
        reading.add_content(at, content if isinstance(content, str) else _parts(content))
    thinking = None
    if len(delta) > 1 or not content:  # nearly every event ends here
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking:
            reading.add_reasoning(at, thinking)
        if refusal := delta.get("refusal"):
            reading.refusal.append(str(refusal))
    # Tokens of a chunk that holds reasoning alone are the reasoning's, not the answer's.
    if (logprobs := choice.get("logprobs")) and (content or not thinking):
        for token in logprobs.get("content") or ():
            _token(reading, at, token)
    if finish := choice.get("finish_reason"):
        reading.finish = as_name(finish, reading.finish)


def _token(reading: Reading, at: int, token: Mapping[str, Any]) -> None:
    raw = token.get("bytes")
    top = token.get("top_logprobs") or ()
    reading.add_token(
        at,
        token["token"],
        float(token["logprob"]),
        None if raw is None else bytes(raw),
        tuple([(item["token"] + "", float(item["logprob"])) for item in top]),
    )


def _parts(content: Sequence[Mapping[str, Any]]) -> str:
    """Text out of content that came as a list of typed parts."""
    return "".join([part["text"] for part in content if part.get("type") in ("text", "output_text")])
