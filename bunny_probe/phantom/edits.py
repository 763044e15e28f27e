"""Edits of a stream's events, one a fault of level `stream`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from bunny_probe.phantom.ask import ApiError, Ask
from bunny_probe.phantom.faults import Fault
from bunny_probe.phantom.reply import Reply
from bunny_probe.phantom.steps import Dialect, Step

__all__ = ["EDITS", "after"]

Edit: TypeAlias = Callable[[list[Step], Fault, Ask, Reply, Dialect], list[Step]]


def after(steps: list[Step], tokens: int) -> int:
    """Where `tokens` tokens have gone out, at the latest before the end is told."""
    seen = 0
    for index, step in enumerate(steps):
        if step.kind in ("finish", "usage", "done"):
            return index
        if step.kind in ("content", "reasoning"):
            if seen >= tokens:
                return index
            seen += 1
    return len(steps)


def _role_first(steps: list[Step], fault: Fault, *_: Any) -> list[Step]:
    opened = False
    for step in steps:
        if step.kind in ("content", "reasoning"):
            opened = True
        if step.kind == "open" and not opened:
            step.due = 0.0
        else:
            step.due += fault.number
    return steps


def _no_role(steps: list[Step], *_: Any) -> list[Step]:
    return [step for step in steps if step.kind != "open" or step.event is not None]


def _filter_results_first(
    steps: list[Step], fault: Fault, ask: Ask, reply: Reply, dialect: Dialect
) -> list[Step]:
    if ask.dialect == "anthropic":
        return steps
    first = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": []}
    return [Step("raw", first, due=steps[0].due), *steps]


def _finish_with_content(
    steps: list[Step], fault: Fault, ask: Ask, reply: Reply, dialect: Dialect
) -> list[Step]:
    if ask.dialect == "anthropic":
        return steps
    finishes = {_index(step): step for step in steps if step.kind == "finish"}
    merged: set[int] = set()
    for step in reversed(steps):
        index = _index(step)
        if step.kind == "content" and index in finishes and index not in merged and step.payload is not None:
            finish = finishes[index].payload or {}
            step.payload["choices"][0]["finish_reason"] = finish["choices"][0]["finish_reason"]
            merged.add(index)
    return [step for step in steps if step.kind != "finish" or _index(step) not in merged]


def _index(step: Step) -> int:
    choices = (step.payload or {}).get("choices") or [{}]
    return int(choices[0].get("index", 0))


def _bundle(steps: list[Step], fault: Fault, ask: Ask, reply: Reply, dialect: Dialect) -> list[Step]:
    """Several tokens a chunk; a chunk is due when its last token is."""
    size = max(1, int(fault.number))
    result: list[Step] = []
    held = 0
    for step in steps:
        if held < size and result and _joins(result[-1], step):
            _join(result[-1], step)
            held += 1
            continue
        result.append(step)
        held = 1
    return result


def _joins(first: Step, second: Step) -> bool:
    """Whether both carry text of the same choice."""
    both = first.kind == second.kind == "content" and _index(first) == _index(second)
    return both and _text_home(first) is not None and _text_home(second) is not None


def _text_home(step: Step) -> tuple[dict[str, Any], str] | None:
    """The object and the name under which an event holds its text."""
    payload = step.payload or {}
    if "choices" in payload:
        choice = payload["choices"][0]
        if "text" in choice:
            return choice, "text"
        return (choice["delta"], "content") if choice["delta"].get("content") is not None else None
    delta = payload.get("delta", {})
    return (delta, "text") if "text" in delta else None


def _join(first: Step, second: Step) -> None:
    into, name = _text_home(first) or ({}, "")
    more, _ = _text_home(second) or ({}, "")
    into[name] += more[name]
    first.due, first.token, first.tokens = second.due, second.token, first.tokens + second.tokens
    if first.payload is not None and "choices" in first.payload and second.payload is not None:
        ours = first.payload["choices"][0]["logprobs"]
        theirs = second.payload["choices"][0]["logprobs"]
        if ours and theirs:
            for field in ("content", "tokens", "token_logprobs", "top_logprobs", "text_offset"):
                if isinstance(ours.get(field), list):
                    ours[field] = ours[field] + theirs[field]


def _usage_absent(steps: list[Step], *_: Any) -> list[Step]:
    for step in steps:
        if step.payload is not None:
            step.payload.pop("usage", None)
            if isinstance(step.payload.get("message"), dict):
                step.payload["message"].pop("usage", None)
    return [step for step in steps if step.kind != "usage"]


def _usage_on_content(steps: list[Step], fault: Fault, ask: Ask, reply: Reply, dialect: Dialect) -> list[Step]:
    if ask.dialect == "anthropic":
        return steps
    steps = _usage_absent(steps)
    for step in reversed(steps):
        if step.kind == "content" and step.payload is not None:
            step.payload["usage"] = dialect.usage(reply.usage, reply.show_cost)
            break
    return steps


def _usage_cumulative(steps: list[Step], fault: Fault, ask: Ask, reply: Reply, dialect: Dialect) -> list[Step]:
    if ask.dialect == "anthropic":
        return steps
    spent = 0
    steps = [step for step in steps if step.kind != "usage"]
    for step in steps:
        spent += step.kind in ("content", "reasoning")
        if step.payload is not None:
            step.payload["usage"] = dialect.usage(replace(reply.usage, completion=spent), False)
    return steps


def _usage_null(steps: list[Step], fault: Fault, ask: Ask, reply: Reply, dialect: Dialect) -> list[Step]:
    for step in steps:
        if ask.dialect != "anthropic" and step.payload is not None and step.kind != "usage":
            step.payload["usage"] = None
    return steps


def _usage_zero(steps: list[Step], *_: Any) -> list[Step]:
    def zero(holder: dict[str, Any]) -> None:
        usage = holder.get("usage")
        if isinstance(usage, dict):
            holder["usage"] = {name: 0 for name, value in usage.items() if isinstance(value, int)}

    for step in steps:
        if step.payload is not None:
            zero(step.payload)
            if isinstance(step.payload.get("message"), dict):
                zero(step.payload["message"])
    return steps


def _no_done(steps: list[Step], *_: Any) -> list[Step]:
    return [step for step in steps if step.kind != "done"]


def _no_finish(steps: list[Step], *_: Any) -> list[Step]:
    return [step for step in steps if step.kind != "finish"]


def _stream_error(steps: list[Step], fault: Fault, ask: Ask, reply: Reply, dialect: Dialect) -> list[Step]:
    at = after(steps, int(fault.number))
    error = ApiError(500, "The phantom was asked to fail here.", "server_error", "phantom_fault")
    named = fault.name == "stream-error-event" or ask.dialect == "anthropic"
    step = Step("error", dict(dialect.error(error)), "error" if named else None, due=_due(steps, at))
    return [*steps[:at], step]


def _malformed(steps: list[Step], fault: Fault, *_: Any) -> list[Step]:
    at = after(steps, int(fault.number))
    return [*steps[:at], Step("raw", None, raw='{"id":"phantom","choices":[{"delta":', due=_due(steps, at))] + [
        step for step in steps[at:] if step.kind not in ("content", "reasoning")
    ]


def _wrong_shape(steps: list[Step], fault: Fault, *_: Any) -> list[Step]:
    at = after(steps, int(fault.number))
    return [*steps[:at], Step("raw", None, raw='{"choices":"phantom"}', due=_due(steps, at))] + [
        step for step in steps[at:] if step.kind not in ("content", "reasoning")
    ]


def _huge(steps: list[Step], fault: Fault, *_: Any) -> list[Step]:
    for step in steps:
        if step.kind == "content" and step.payload is not None:
            step.payload["padding"] = "x" * int(fault.number)
            break
    return steps


def _stall(steps: list[Step], fault: Fault, *_: Any) -> list[Step]:
    for step in steps[max(1, after(steps, 1)) :]:
        step.due += fault.number
    return steps


def _due(steps: list[Step], at: int) -> float:
    return steps[at - 1].due if at else 0.0


EDITS: Mapping[str, Edit] = {
    "role-first": _role_first,
    "no-role": _no_role,
    "filter-results-first": _filter_results_first,
    "finish-with-content": _finish_with_content,
    "bundle": _bundle,
    "usage-absent": _usage_absent,
    "usage-on-content": _usage_on_content,
    "usage-cumulative": _usage_cumulative,
    "usage-null": _usage_null,
    "usage-zero": _usage_zero,
    "no-done": _no_done,
    "no-finish": _no_finish,
    "stream-error": _stream_error,
    "stream-error-event": _stream_error,
    "malformed": _malformed,
    "wrong-shape": _wrong_shape,
    "huge": _huge,
    "stall": _stall,
}
