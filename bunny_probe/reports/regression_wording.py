"""What the regression report says of a number that moved: phrases, titles, rows and dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bunny_probe.measures import Difference, Measured, amount
from bunny_probe.plots.moves import Move
from bunny_probe.reports.regression_case import Against, Moved

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "TIMES",
    "advice",
    "as_frame",
    "base",
    "dot",
    "interval",
    "now",
    "phrase",
    "quality_title",
    "row",
    "speed_title",
]

TIMES = ("ttft_p50", "ttft_p95", "latency_p50", "latency_p95")


def phrase(move: Moved) -> str:
    told = move.difference
    if told.value is None:
        return f"{told.after.title} ({told.reason})"
    unit = told.after.unit
    low, high = amount(told.low, unit, signed=True, bare=True), amount(told.high, unit, signed=True)
    return f"{told.after.title} {amount(told.value, unit, signed=True)} [{low}, {high}]"


def advice(worse: Sequence[Moved], better: Sequence[Moved]) -> str:
    if any(move.difference.after.unit == "share" for move in worse):
        return "Look at the answers that were lost, below, before this release goes out."
    if worse:
        return "Check that the endpoint was as busy as before: times are compared as they were measured."
    if better:
        return "Nothing was shown to be worse; what is undecided needs more documents, not more trust."
    return "Nothing was shown to have moved."


def quality_title(other: Against) -> str:
    shares = [m for m in other.moves if m.difference.after.unit == "share"]
    worse = [m for m in shares if m.verdict == "worse"]
    better = [m for m in shares if m.verdict == "better"]
    if worse:
        return f"{len(worse)} of {len(shares)} shares got worse against the {other.name}"
    if better:
        return f"{len(better)} of {len(shares)} shares got better against the {other.name}"
    return f"No share was shown to move against the {other.name}"


def speed_title(other: Against) -> str:
    times = [m for m in other.moves if m.difference.measure in TIMES]
    slower, faster = (sum(m.verdict == word for m in times) for word in ("worse", "better"))
    if slower:
        return f"{slower} of {len(times)} times got longer against the {other.name}"
    if faster:
        return f"{faster} of {len(times)} times got shorter against the {other.name}"
    return f"No time was shown to move against the {other.name}"


def dot(move: Moved, scale: float) -> Move:
    told = move.difference
    value = told.value or 0.0
    low, high = value if told.low is None else told.low, value if told.high is None else told.high
    return Move(told.after.title, scale * value, scale * low, scale * high, move.verdict, told.n)


def base(told: Difference) -> float:
    return told.before.value or 0.0


def row(move: Moved) -> dict[str, object]:
    told, unit = move.difference, move.difference.after.unit
    low, high = amount(told.low, unit, signed=True, bare=True), amount(told.high, unit, signed=True, bare=True)
    cells = {
        "before": told.before.text(),
        "now": told.after.text(),
        "difference": amount(told.value, unit, signed=True),
        "interval": "—" if told.low is None else f"{low} to {high}",
    }
    return {
        "metric": told.after.title,
        **{name: text.replace(" ", "\N{NO-BREAK SPACE}") for name, text in cells.items()},
        "n": told.n,
        "p": move.p,
        "verdict": move.verdict if told.value is not None else "not compared",
        "why not": told.reason,
    }


def now(told: Measured) -> dict[str, object]:
    return {"metric": told.title, "value": told.text(), "interval": interval(told), "of": told.denominator}


def interval(told: Measured) -> str:
    if told.value is None:
        return told.reason or "not known"
    low, high = amount(told.low, told.unit, bare=True), amount(told.high, told.unit)
    return f"{told.level:.0%} interval {low} to {high}, n = {told.n:,} of {told.asked:,}"


def as_frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows)
    return frame.drop(columns=[name for name in ("why not",) if name in frame and not frame[name].any()])
