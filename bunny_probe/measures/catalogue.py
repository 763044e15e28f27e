"""Which numbers a release is known by: name, rows, column, unit, and which way is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from bunny_probe.errors import UsageError, unknown_choice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Direction", "Measure", "matching", "measure_named", "measures"]

Direction = Literal["higher", "lower", "neutral"]  # which way is better; neutral: a change is only told
Kind = Literal["share", "mean", "quantile", "window"]
Unit = Literal["share", "s", "tokens", "nats", "USD"]

_RECALL_FAMILIES = ("length", "position")
_MOST_LENGTHS = 32  # more distinct lengths are natural ones, which no trend line follows


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a run. `rows` picks and names what is averaged: a frame with a column `value`."""

    name: str  # as rules and summaries write it: "recall@4096"
    title: str  # as people read it
    kind: Kind
    direction: Direction
    unit: Unit
    denominator: str  # what `n` counts
    rows: Callable[[pd.DataFrame], pd.DataFrame]
    q: float = 0.5  # of a quantile


def measures(frame: pd.DataFrame) -> list[Measure]:
    """Every measure, with recall at each length that `frame` holds, in the order people read them."""
    return [
        _ANSWERED,
        _RECALL,
        *(_recall_at(length) for length in _lengths(frame)),
        *_FIXED,
    ]


def measure_named(name: str) -> Measure:
    """The measure of that name. Raises UsageError that lists the names."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    head, at, length = name.partition("@")
    if head == "recall" and at and length.isdecimal() and int(length) > 0:
        return _recall_at(int(length))
    raise UsageError(unknown_choice("metric", name, (*_BY_NAME, "recall@LENGTH", "recall@*")))


def matching(pattern: str, known: Iterable[Measure]) -> list[Measure]:
    """Those of `known` that a rule's metric means: one name, or `recall@*` for every length.

    Raises UsageError for a name that no run could have.
    """
    if "*" in pattern:
        found = [item for item in known if fnmatchcase(item.name, pattern)]
        if not found and not any(fnmatchcase(name, pattern) for name in (*_BY_NAME, "recall@1024")):
            raise UsageError(unknown_choice("metric", pattern, (*_BY_NAME, "recall@*")))
        return found
    return [measure_named(pattern)]


def _lengths(frame: pd.DataFrame) -> list[int]:
    """Lengths that were asked of several documents."""
    rows = frame[frame["family"].isin(_RECALL_FAMILIES) & frame["length_tokens"].notna()]
    documents = rows.groupby("length_tokens")["cluster"].nunique(dropna=False)
    lengths = sorted(int(length) for length in documents[documents > 1].index)
    return lengths if len(lengths) <= _MOST_LENGTHS else []


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────


def _column(chosen: pd.DataFrame, name: str, *, times: float = 1.0) -> pd.DataFrame:
    import pandas as pd

    values = pd.to_numeric(chosen[name], errors="coerce").astype("Float64")
    return chosen.assign(value=values * times)


def _recall_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return _column(frame[frame["family"].isin(_RECALL_FAMILIES)], "score")


def _recall_at(length: int) -> Measure:
    def rows(frame: pd.DataFrame) -> pd.DataFrame:
        found = _recall_rows(frame)
        return found[(found["length_tokens"] == length).fillna(False)]

    return Measure(
        f"recall@{length}", f"Recall at {length:,} tokens", "share", "higher", "share",
        "scored answers to length and position probes of that length", rows,
    )  # fmt: skip


def _wrong_rows(frame: pd.DataFrame) -> pd.DataFrame:
    chosen = frame[frame["family"].isin(_RECALL_FAMILIES) & (frame["scorer"] == "anchor").fillna(False)]
    wrong = (chosen["label"] == "wrong_anchor").astype("Float64")
    return chosen.assign(value=wrong.where(chosen["score"].notna()))


def _answered_rows(frame: pd.DataFrame) -> pd.DataFrame:
    # every row counts here, so each one is told as if it were an answer
    share = frame["answered"].fillna(False).astype("Float64")
    return frame.assign(value=share, answered=True)


def _stress_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return _column(frame[frame["family"] == "stress"], "score")


def _timed(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def rows(frame: pd.DataFrame) -> pd.DataFrame:
        return _column(frame[frame["timing_valid"].fillna(True).astype(bool)], name)

    return rows


def _length_column(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: _column(frame[frame["family"] == "length"], name)


def _length_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return _column(frame[frame["family"] == "length"], "score")


def _cost_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return _column(frame, "cost", times=1000.0)


# ── the list ────────────────────────────────────────────────────────────────────────────────────────

_ANSWERED = Measure(
    "answered_share", "Requests answered", "share", "higher", "share", "requests", _answered_rows
)
_RECALL = Measure(
    "recall", "Recall", "share", "higher", "share", "scored answers to length and position probes",
    _recall_rows,
)  # fmt: skip
_TIMED = "answers timed by a client that was not saturated"
_FIXED = (
    Measure(
        "window", "Effective window", "window", "higher", "tokens", "scored answers to length probes",
        _length_rows,
    ),
    Measure(
        "wrong_anchor_share", "Wrong anchor given", "share", "lower", "share",
        "scored answers to probes with anchors", _wrong_rows,
    ),
    Measure(
        "stress_pass_rate", "Stress probes passed", "share", "higher", "share",
        "scored answers to stress probes", _stress_rows,
    ),
    Measure(
        "entropy_low", "Token entropy, lower bound", "mean", "neutral", "nats",
        "answers with log-probabilities to length probes", _length_column("entropy_low"),
    ),
    Measure(
        "entropy_high", "Token entropy, upper bound", "mean", "neutral", "nats",
        "answers with log-probabilities to length probes", _length_column("entropy_high"),
    ),
    Measure("ttft_p50", "Time to first token, P50", "quantile", "lower", "s", _TIMED, _timed("ttft_s"), 0.5),
    Measure("ttft_p95", "Time to first token, P95", "quantile", "lower", "s", _TIMED, _timed("ttft_s"), 0.95),
    Measure("latency_p50", "Latency, P50", "quantile", "lower", "s", _TIMED, _timed("latency_s"), 0.5),
    Measure("latency_p95", "Latency, P95", "quantile", "lower", "s", _TIMED, _timed("latency_s"), 0.95),
    Measure(
        "cost_per_1000", "Cost of 1,000 requests", "mean", "lower", "USD",
        "answers whose cost the provider stated", _cost_rows,
    ),
)  # fmt: skip
_BY_NAME = {item.name: item for item in (_ANSWERED, _RECALL, *_FIXED)}
