"""Anthropic messages."""

from __future__ import annotations

from typing import Any

from bunny_probe.phantom.ask import ApiError, Ask, Fields
from bunny_probe.phantom.dialects.openai import MOST_TOKENS
from bunny_probe.phantom.reply import Choice, Reply, Usage
from bunny_probe.phantom.steps import Kind, Step

__all__ = ["AnthropicDialect"]

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_STOP = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal", "content_filter": "refusal"}


class AnthropicDialect:
    def parse(self, body: object) -> list[Ask]:
        fields = Fields(body)
        limit = fields.integer("max_tokens", 1, MOST_TOKENS)
        if limit is None:
            raise ApiError(400, "max_tokens: Field required", param="max_tokens")
        system = fields.content(fields.body.get("system"), "system")
        chat = fields.messages()
        for index, (role, _) in enumerate(chat):
            if role not in ("user", "assistant"):
                raise fields.wrong(f"messages[{index}].role", "must be user or assistant")
        fields.number("top_p", 1.0, 0.0, 1.0)
        return [
            Ask(
                dialect="anthropic",
                model=fields.text("model"),
                messages=((("system", system), *chat) if system else chat),
                prompt=None,
                fields=frozenset(name for name, value in fields.body.items() if value is not None),
                max_tokens=limit,
                temperature=fields.number("temperature", 1.0, 0.0, 1.0),
                stop=fields.stop("stop_sequences"),
                stream=fields.flag("stream"),
                include_usage=True,
            )
        ]

    def steps(self, ask: Ask, reply: Reply) -> list[Step]:
        choice = reply.choices[0]
        start = {**_head(reply), "content": [], "stop_reason": None, "stop_sequence": None}
        start["usage"] = {**self.usage(reply.usage, reply.show_cost), "output_tokens": 1}
        steps = [Step("open", {"type": "message_start", "message": start}, "message_start")]
        index = 0
        if choice.reasoning:
            steps += _block(index, "thinking", list(choice.reasoning), 0)
            index += 1
        if choice.tokens or not choice.reasoning:
            steps += _block(index, "text", [t.piece.text for t in choice.tokens], len(choice.reasoning))
        last = max(0, choice.spent - 1)
        usage = {"output_tokens": reply.usage.completion}
        delta: dict[str, Any] = {"type": "message_delta", "delta": _stop(choice), "usage": usage}
        if choice.finish is not None:
            steps.append(Step("finish", delta, "message_delta", token=last))
        steps.append(Step("done", {"type": "message_stop"}, "message_stop", token=last))
        return steps

    def body(self, ask: Ask, reply: Reply) -> dict[str, Any]:
        choice = reply.choices[0]
        content: list[dict[str, Any]] = []
        if choice.reasoning:
            content.append({"type": "thinking", "thinking": "".join(choice.reasoning), "signature": "phantom"})
        if choice.tokens:
            content.append({"type": "text", "text": choice.text})
        return {
            **_head(reply),
            "content": content,
            **_stop(choice),
            "usage": self.usage(reply.usage, reply.show_cost),
        }

    def usage(self, usage: Usage, price_shown: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "input_tokens": usage.prompt - usage.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached,
            "output_tokens": usage.completion,
        }
        if price_shown:
            body["cost"] = usage.cost
        return body

    def error(self, error: ApiError) -> dict[str, Any]:
        kind = _ERROR_TYPES.get(error.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": error.message}}


def _head(reply: Reply) -> dict[str, Any]:
    return {"id": f"msg_{reply.id}", "type": "message", "role": "assistant", "model": reply.model}


def _stop(choice: Choice) -> dict[str, Any]:
    reason = None if choice.finish is None else _STOP[choice.finish]
    if choice.stop_string is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": choice.stop_string}
    return {"stop_reason": reason, "stop_sequence": None}


def _block(index: int, kind: str, texts: list[str], first: int) -> list[Step]:
    step_kind: Kind = "reasoning" if kind == "thinking" else "content"
    empty = {"type": kind, kind: ""}
    opening = {"type": "content_block_start", "index": index, "content_block": empty}
    steps = [Step("open", opening, "content_block_start", token=first or None)]
    for number, text in enumerate(texts, start=first):
        delta = {"type": f"{kind}_delta", kind: text}
        payload = {"type": "content_block_delta", "index": index, "delta": delta}
        steps.append(
            Step(
                "reasoning" if step_kind == "reasoning" else "content",
                payload,
                "content_block_delta",
                token=number,
            )
        )
    closing = {"type": "content_block_stop", "index": index}
    steps.append(Step("open", closing, "content_block_stop", token=max(0, first + len(texts) - 1)))
    return steps
