"""OpenAI chat completions."""

from __future__ import annotations

from typing import Any

from bunny_probe.phantom.ask import ApiError, Ask, Fields
from bunny_probe.phantom.dialects.openai import (
    MOST_TOKENS,
    common_fields,
    error_body,
    interleave,
    last_steps,
    usage_body,
)
from bunny_probe.phantom.reply import Choice, Reply, Token, Usage
from bunny_probe.phantom.steps import Step

__all__ = ["ChatDialect"]


class ChatDialect:
    def parse(self, body: object) -> list[Ask]:
        fields = Fields(body)
        common = common_fields(fields)
        top = fields.integer("top_logprobs", 0, 20)
        on = fields.flag("logprobs")
        if top is not None and not on:
            raise fields.wrong("top_logprobs", "is only allowed when logprobs is true")
        limit = fields.integer("max_completion_tokens", 1, MOST_TOKENS)
        older = fields.integer("max_tokens", 1, MOST_TOKENS)
        return [
            Ask(
                dialect="chat",
                messages=fields.messages(),
                prompt=None,
                max_tokens=older if limit is None else limit,
                top=(top or 0) if on else None,
                **common,
            )
        ]

    def steps(self, ask: Ask, reply: Reply) -> list[Step]:
        head = _head(reply, "chat.completion.chunk")
        per_choice = [_choice_steps(ask, head, i, choice) for i, choice in enumerate(reply.choices)]
        return [*interleave(per_choice), *last_steps(head, reply, ask.include_usage, reply.show_cost)]

    def body(self, ask: Ask, reply: Reply) -> dict[str, Any]:
        choices = []
        for index, choice in enumerate(reply.choices):
            message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": choice.refusal}
            if choice.reasoning:
                message["reasoning_content"] = "".join(choice.reasoning)
            if choice.refusal is not None or (choice.reasoning and not choice.tokens):
                message["content"] = None
            choices.append(
                {
                    "index": index,
                    "message": message,
                    "logprobs": _logprobs(choice.tokens) if ask.top is not None else None,
                    "finish_reason": _finish(choice),
                }
            )
        usage = usage_body(reply.usage, reply.show_cost)
        return {**_head(reply, "chat.completion"), "choices": choices, "usage": usage}

    def usage(self, usage: Usage, price_shown: bool) -> dict[str, Any]:
        return usage_body(usage, price_shown)

    def error(self, error: ApiError) -> dict[str, Any]:
        return error_body(error)


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{reply.id}",
        "object": kind,
        "created": reply.created,
        "model": reply.model,
        "system_fingerprint": reply.fingerprint,
    }


def _choice_steps(ask: Ask, head: dict[str, Any], index: int, choice: Choice) -> list[Step]:
    def chunk(
        delta: dict[str, Any], finish: str | None = None, tokens: tuple[Token, ...] = ()
    ) -> dict[str, Any]:
        logprobs = _logprobs(tokens) if ask.top is not None and tokens else None
        item = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return {**head, "choices": [item]}

    steps = [Step("open", chunk({"role": "assistant", "content": ""}))]
    for number, text in enumerate(choice.reasoning):
        steps.append(Step("reasoning", chunk({"content": None, "reasoning_content": text}), token=number))
    first = len(choice.reasoning)
    for number, token in enumerate(choice.tokens, start=first):
        delta = {"content": token.piece.text}
        steps.append(Step("content", chunk(delta, tokens=(token,)), token=number))
    if choice.refusal is not None:
        steps.append(Step("content", chunk({"refusal": choice.refusal}), token=first, tokens=0))
    if choice.finish is not None:
        last = max(0, choice.spent - 1)
        steps.append(Step("finish", chunk({}, _finish(choice)), token=last))
    return steps


def _finish(choice: Choice) -> str | None:
    return "stop" if choice.finish == "refusal" else choice.finish


def _logprobs(tokens: tuple[Token, ...]) -> dict[str, Any]:
    return {
        "content": [
            {
                **_entry(token.piece.shown, token.piece.raw, token.logprob),
                "top_logprobs": [
                    _entry(text, token.piece.raw if text == token.piece.shown else text.encode(), value)
                    for text, value in token.top
                ],
            }
            for token in tokens
        ],
        "refusal": None,
    }


def _entry(text: str, raw: bytes, logprob: float | None) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(raw)}
