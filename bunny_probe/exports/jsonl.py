"""Our own JSONL: one object a line, the contract that other tools build on.

    id, family, task, language, domain, messages, expected, length_tokens, depth, seed, max_tokens
    with observations also: outcome, text, score, prompt_tokens

Further keys (variant, scorer, params, distractors; endpoint, repeat, label) stand behind these and may grow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bunny_probe.records import to_json

if TYPE_CHECKING:
    from bunny_probe.exports import Line

__all__ = ["jsonl"]


def jsonl(lines: Iterable[Line]) -> Iterator[str]:
    """One JSON text a line, without the newline. Half surrogate pairs are escaped, all else is as it is."""
    for line in lines:
        yield _text(_object(line))


def _object(line: Line) -> dict[str, Any]:
    probe, rendered = line.probe, line.rendered
    made: dict[str, Any] = {
        "id": probe.id,
        "family": probe.family,
        "task": probe.task,
        "language": probe.language,
        "domain": probe.domain,
        "messages": to_json(rendered.messages),
        "expected": list(probe.expectation.answers),
        "length_tokens": rendered.intended_tokens,
        "depth": probe.depth,
        "seed": probe.seed,
        "max_tokens": probe.max_tokens,
    }
    if line.observed is not None:
        row = line.observed
        made |= {name: row[name] for name in ("outcome", "text", "score", "prompt_tokens")}
    made |= {
        "variant": probe.variant,
        "scorer": probe.expectation.scorer,
        "params": to_json(probe.expectation.params),
        "distractors": list(probe.expectation.distractors),
    }
    if line.observed is not None:
        made |= {name: line.observed[name] for name in ("label", "endpoint", "model", "repeat")}
    return made


def _text(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, allow_nan=False)
    return text
