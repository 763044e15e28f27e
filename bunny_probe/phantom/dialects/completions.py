"""OpenAI completions, with `echo` and the prompt's own log-probabilities."""

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

__all__ = ["CompletionsDialect"]

_MOST_PROMPTS = 128


class CompletionsDialect:
    def parse(self, body: object) -> list[Ask]:
        fields = Fields(body)
        common = common_fields(fields)
        limit = fields.integer("max_tokens", 0, MOST_TOKENS)
        top = fields.integer("logprobs", 0, 20)  # 0 means on, without alternatives
        echo = fields.flag("echo")
        return [
            Ask(
                dialect="completions",
                messages=(("user", prompt),),
                prompt=prompt,
                max_tokens=16 if limit is None else limit,
                top=top,
                echo=echo,
                **common,
            )
            for prompt in _prompts(fields)
        ]

    def steps(self, ask: Ask, reply: Reply) -> list[Step]:
        head = _head(reply)
        per_choice = [_choice_steps(ask, head, i, choice) for i, choice in enumerate(reply.choices)]
        return [*interleave(per_choice), *last_steps(head, reply, ask.include_usage, reply.show_cost)]

    def body(self, ask: Ask, reply: Reply) -> dict[str, Any]:
        choices = [
            {
                "index": index,
                "text": choice.echoed_text + choice.text,
                "logprobs": _logprobs((*choice.echoed, *choice.tokens), ask, 0),
                "finish_reason": _finish(choice),
            }
            for index, choice in enumerate(reply.choices)
        ]
        return {**_head(reply), "choices": choices, "usage": usage_body(reply.usage, reply.show_cost)}

    def usage(self, usage: Usage, price_shown: bool) -> dict[str, Any]:
        return usage_body(usage, price_shown)

    def error(self, error: ApiError) -> dict[str, Any]:
        return error_body(error)


def _prompts(fields: Fields) -> list[str]:
    value = fields.body.get("prompt")
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values:
        raise fields.wrong("prompt", "must be a string or a non-empty list of strings")
    if not all(isinstance(item, str) for item in values):
        raise fields.wrong("prompt", "must be text: the phantom takes no token numbers")
    if len(values) > _MOST_PROMPTS:
        raise fields.wrong("prompt", f"may hold {_MOST_PROMPTS} prompts")
    return values


def _head(reply: Reply) -> dict[str, Any]:
    return {
        "id": f"cmpl-{reply.id}",
        "object": "text_completion",
        "created": reply.created,
        "model": reply.model,
        "system_fingerprint": reply.fingerprint,
    }


def _choice_steps(ask: Ask, head: dict[str, Any], index: int, choice: Choice) -> list[Step]:
    def chunk(text: str, finish: str | None, tokens: tuple[Token, ...], offset: int) -> dict[str, Any]:
        logprobs = _logprobs(tokens, ask, offset) if tokens else None
        return {
            **head,
            "choices": [{"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}],
        }

    steps: list[Step] = []
    offset = 0
    if choice.echoed_text:
        steps.append(Step("raw", chunk(choice.echoed_text, None, choice.echoed, 0)))
        offset = len(choice.echoed_text)
    for number, token in enumerate(choice.tokens):
        steps.append(Step("content", chunk(token.piece.text, None, (token,), offset), token=number))
        offset += len(token.piece.text)
    if choice.finish is not None:
        steps.append(
            Step("finish", chunk("", _finish(choice), (), offset), token=max(0, len(choice.tokens) - 1))
        )
    return steps


def _finish(choice: Choice) -> str | None:
    return "content_filter" if choice.finish == "refusal" else choice.finish


def _logprobs(tokens: tuple[Token, ...], ask: Ask, offset: int) -> dict[str, Any] | None:
    if ask.top is None:
        return None
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.piece.text)
    return {
        "tokens": [token.piece.shown for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [_alternatives(token) for token in tokens] if ask.top else None,
        "text_offset": offsets,
    }


def _alternatives(token: Token) -> dict[str, float] | None:
    """The likeliest tokens and the chosen one; None at the first token of a prompt, which nothing foretells."""
    if token.logprob is None:
        return None
    return {**dict(token.top), token.piece.shown: token.logprob}
