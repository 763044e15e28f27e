"""Attempts as rows of the table `attempts`, and back."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from bunny_probe.records import Attempt, Outcome, Timing, Usage
from bunny_probe.runs.traces import decode_trace, encode_trace

__all__ = ["ATTEMPT_COLUMNS", "attempt_from_row", "attempt_row"]

_PLAIN: Final = (
    "evidence",
    "text",
    "reasoning",
    "stop_reason",
    "status",
    "error_code",
    "retry_after",
    "reported_model",
)
_USAGE: Final = tuple(item.name for item in fields(Usage) if item.name != "source")
_TIMING: Final = tuple(item.name for item in fields(Timing))

_NO_TIMING: Final = (None,) * len(_TIMING)
_plain_of, _usage_of, _timing_of = attrgetter(*_PLAIN), attrgetter(*_USAGE), attrgetter(*_TIMING)

ATTEMPT_COLUMNS: Final = ("outcome", *_PLAIN, "dropped_fields", *_USAGE, "usage_source", *_TIMING, "trace")


def attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    """The values of `ATTEMPT_COLUMNS`."""
    timing, usage, dropped = attempt.timing, attempt.usage, attempt.dropped_fields
    return (
        attempt.outcome.value,
        *map(_storable, _plain_of(attempt)),
        json.dumps(dropped) if dropped else "[]",
        *_usage_of(usage),
        usage.source,
        *(_NO_TIMING if timing is None else _timing_of(timing)),
        encode_trace(attempt.trace),
    )


def attempt_from_row(row: sqlite3.Row) -> Attempt:
    """Undoes `attempt_row`; the row needs at least `ATTEMPT_COLUMNS`."""
    timing: dict[str, Any] = {name: row[name] for name in _TIMING}
    for name in ("connection_reused", "valid", "includes_sdk"):
        timing[name] = None if timing[name] is None else bool(timing[name])
    return Attempt(
        outcome=Outcome(row["outcome"]),
        **{name: row[name] for name in _PLAIN},
        dropped_fields=tuple(json.loads(row["dropped_fields"])),
        usage=Usage(**{name: row[name] for name in _USAGE}, source=row["usage_source"]),
        timing=None if timing["started_at"] is None else Timing(**timing),
        trace=decode_trace(row["trace"]),
    )


def _storable(value: Any) -> Any:
    """Text that SQLite takes: half a surrogate pair becomes a question mark."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")
