"""What chat and completions share: usage, errors, and reading the common fields."""

from __future__ import annotations

from typing import Any, TypedDict

from bunny_probe.phantom.ask import ApiError, Fields
from bunny_probe.phantom.reply import Reply, Usage
from bunny_probe.phantom.steps import Step

__all__ = ["Common", "common_fields", "error_body", "interleave", "last_steps", "usage_body"]

MOST_TOKENS = 10_000_000
MOST_CHOICES = 128


class Common(TypedDict):
    model: str
    temperature: float
    seed: int | None
    n: int
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    fields: frozenset[str]


def common_fields(fields: Fields) -> Common:
    stream = fields.flag("stream")
    fields.number("top_p", 1.0, 0.0, 1.0)
    return Common(
        model=fields.text("model"),
        temperature=fields.number("temperature", 1.0, 0.0, 2.0),
        seed=fields.integer("seed", -(2**63), 2**64),
        n=fields.integer("n", 1, MOST_CHOICES) or 1,
        stop=fields.stop("stop"),
        stream=stream,
        include_usage=fields.include_usage(stream),
        frequency_penalty=fields.number("frequency_penalty", 0.0, -2.0, 2.0),
        presence_penalty=fields.number("presence_penalty", 0.0, -2.0, 2.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 1e-6, 100.0),
        fields=frozenset(name for name, value in fields.body.items() if value is not None),
    )


def usage_body(usage: Usage, price_shown: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if price_shown:
        body["cost"] = usage.cost
    return body


def error_body(error: ApiError) -> dict[str, Any]:
    return {"error": {"message": error.message, "type": error.type, "param": error.param, "code": error.code}}


def interleave(per_choice: list[list[Step]]) -> list[Step]:
    """Steps of several choices, token by token."""
    if len(per_choice) == 1:
        return per_choice[0]
    merged = [step for steps in per_choice for step in steps]
    merged.sort(key=lambda step: -1 if step.token is None else step.token)  # stable: choices stay in order
    return merged


def last_steps(head: dict[str, Any], reply: Reply, include_usage: bool, price_shown: bool) -> list[Step]:
    steps = []
    if include_usage:
        steps.append(Step("usage", {**head, "choices": [], "usage": usage_body(reply.usage, price_shown)}))
    steps.append(Step("done", None, raw="[DONE]"))
    return steps
