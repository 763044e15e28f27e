"""What the two OpenAI dialects share: credentials, decoding fields, usage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from bunny_probe.endpoints.dialects.base import Reading, as_count, as_name
from bunny_probe.records import Decoding

__all__ = ["OPTIONAL", "bearer", "decoding_fields", "fold_common", "keep_cost", "keep_usage", "take_index"]

OPTIONAL = frozenset(
    {
        "frequency_penalty",
        "logprobs",
        "max_tokens",  # replaced by max_completion_tokens, never simply left out
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "stop",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
    }
)


def bearer(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def decoding_fields(decoding: Decoding, dropped: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """The request fields that both dialects spell alike, and which of the asked ones are left out."""
    asked: dict[str, Any] = {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "seed": decoding.seed,
        "stop": list(decoding.stop) or None,
        "frequency_penalty": decoding.frequency_penalty,
        "presence_penalty": decoding.presence_penalty,
        "repetition_penalty": decoding.repetition_penalty,
        "stream_options": {"include_usage": True},
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    limit = "max_completion_tokens" if "max_tokens" in dropped else "max_tokens"
    sent = {limit: decoding.max_tokens} | {name: v for name, v in asked.items() if name not in dropped}
    left_out = [name for name in asked if name in dropped]
    if "max_tokens" in dropped:
        left_out.append("max_tokens")
    return sent, left_out


def fold_common(reading: Reading, event: Mapping[str, Any]) -> None:
    if reading.model is None:
        reading.model = as_name(event.get("model"))
    usage = event.get("usage")
    if usage:
        keep_usage(reading, usage)


def keep_usage(reading: Reading, usage: Mapping[str, Any]) -> None:
    """Later counts replace earlier ones: some servers repeat a running usage on each chunk."""
    reading.prompt_tokens = as_count(usage.get("prompt_tokens"), reading.prompt_tokens)
    reading.completion_tokens = as_count(usage.get("completion_tokens"), reading.completion_tokens)
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    cached = prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    reading.cached_tokens = as_count(cached, reading.cached_tokens)
    reading.reasoning_tokens = as_count(completion.get("reasoning_tokens"), reading.reasoning_tokens)
    keep_cost(reading, usage.get("cost"))


def keep_cost(reading: Reading, cost: object) -> None:
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < float("inf"):
        reading.cost = float(cost)


def take_index(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The choice with index 0: one answer is asked, and one is read."""
    for choice in event.get("choices") or ():
        if not choice.get("index"):
            return choice  # type: ignore[no-any-return]
    return None
