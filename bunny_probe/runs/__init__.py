"""Runs: trials are asked, what came is kept for good, and the frame is read off it.

Takes trials, gives observations; knows no family and no scorer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bunny_probe.endpoints.pricing import Price
from bunny_probe.runs.budget import Budget
from bunny_probe.runs.estimate import Estimate, estimate
from bunny_probe.runs.pace import Progress
from bunny_probe.runs.reader import UNSETTLED
from bunny_probe.runs.retries import Retries
from bunny_probe.runs.scheduler import Answering, RunSummary, run_trials
from bunny_probe.runs.store import Store
from bunny_probe.runs.sync import run_sync

if TYPE_CHECKING:
    from bunny_probe.runs.frames import frame as frame
    from bunny_probe.runs.frames import frame_parts as frame_parts
    from bunny_probe.runs.frames import to_parquet as to_parquet

__all__ = [
    "UNSETTLED",
    "Answering",
    "Budget",
    "Estimate",
    "Price",
    "Progress",
    "Retries",
    "RunSummary",
    "Store",
    "estimate",
    "frame",
    "frame_parts",
    "run_sync",
    "run_trials",
    "to_parquet",
]


def __getattr__(name: str) -> Any:
    """The frame needs numpy and pandas, which asking does not: they are imported when it is first used."""
    if name in ("frame", "frame_parts", "to_parquet"):
        from bunny_probe.runs import frames as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
