"""OpenRouter: OpenAI chat, with what it cost in every usage and a header that names the caller.

Its `: OPENROUTER PROCESSING` comments, its errors inside a stream and its finish reason "error" need nothing of
their own. A provider is pinned with the options of the spec, for example
`{"provider": {"order": ["DeepInfra"], "allow_fallbacks": false}}`; `HTTP-Referer` and an `X-Title` of your own
go into its headers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from bunny_probe.endpoints.dialects.base import Request
from bunny_probe.endpoints.dialects.openai_chat import OpenAIChat
from bunny_probe.records import Decoding, Message

__all__ = ["OpenRouter"]


class OpenRouter(OpenAIChat):
    name: ClassVar[str] = "openrouter"
    optional: ClassVar[frozenset[str]] = OpenAIChat.optional | {"usage"}

    def headers(self, key: str | None) -> dict[str, str]:
        return {**super().headers(key), "X-Title": "Space Bunny"}

    def request(
        self, model: str, messages: Sequence[Message], decoding: Decoding, dropped: Collection[str]
    ) -> Request:
        request = super().request(model, messages, decoding, dropped)
        if "usage" not in dropped:
            request.body["usage"] = {"include": True}
        return request

    def reasoning(self, tokens: int) -> dict[str, Any]:
        return {"reasoning": {"max_tokens": tokens}}
