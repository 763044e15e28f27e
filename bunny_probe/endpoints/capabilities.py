"""What an endpoint can do, as `doctor` found it, kept for the steps that come later.

One small JSON file an endpoint below the user's cache folder, by fingerprint. It holds no secret and no answer.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

__all__ = ["Capabilities", "known_capabilities", "remember"]

_DAYS = 30  # what was found longer ago is not relied on: servers change


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What later steps may count on. None: could not be told."""

    streams: bool | None = None
    usage: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None  # most alternatives seen
    token_bytes: bool | None = None
    echo: bool | None = None  # tells the log-probabilities of a prompt's own tokens
    seed: bool | None = None
    stop: bool | None = None
    penalties: bool | None = None
    output_limit: bool | None = None  # max_tokens is kept
    prompt_cache: bool | None = None  # cached prompt tokens are told
    reasons: bool | None = None  # thinks before it answers
    reasoning_tokens: int | None = None  # most that it thought for a question of no difficulty
    context_limit: int | None = None  # prompt tokens
    context_limit_source: Literal["listed", "searched"] | None = None
    truncates_silently: bool | None = None
    clock_skew_s: float | None = None  # the server's clock minus ours
    dropped_fields: tuple[str, ...] = ()  # optional fields that it would not take


def remember(fingerprint: str, found: Capabilities) -> Path:
    """Keep the record; gives the file. Whole or not at all. Raises OSError."""
    path = _path(fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}")
    half.write_text(json.dumps({"at": time.time(), "capabilities": asdict(found)}, indent=1) + "\n", "utf-8")
    half.replace(path)
    return path


def known_capabilities(fingerprint: str, now: float | None = None) -> Capabilities | None:
    """The record of an endpoint, or None when there is none, a damaged one, or one older than 30 days."""
    try:
        kept = json.loads(_path(fingerprint).read_text("utf-8"))
        age = (time.time() if now is None else now) - float(kept["at"])
        values: dict[str, Any] = kept["capabilities"]
        names = {item.name for item in fields(Capabilities)}
        found = Capabilities(**{name: value for name, value in values.items() if name in names})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    if age > _DAYS * 86_400:
        return None
    return found


def _path(fingerprint: str) -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("space-bunny")) / "capabilities" / f"{fingerprint}.json"
