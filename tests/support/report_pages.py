"""Frames of stated content for the tests of reports, and what a section shows, caught as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pandas as pd
import pytest

from bunny_probe.columns import COLUMNS
from bunny_probe.plots import alt_text
from bunny_probe.reports import Study, display, wording

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLAIN: dict[str, Any] = {
    "endpoint": "phantom-test at here", "endpoint_id": "e", "model": "phantom-test", "repeat": 0,
    "language": "en", "outcome": "answered", "answered": True, "attempts": 1, "text": "a", "scorer": "anchor",
    "chance": 0.0, "timing_valid": True, "temperature": 0.0, "decoding_id": "d", "started_at": 1e9,
    "prompt_tokens": 512, "latency_s": 0.5, "ttft_s": 0.1, "variant": "", "reason": "why", "label": "hit",
}  # fmt: skip


def frame_of(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A frame of exactly the documented columns; what a row does not say is missing."""
    found = [{"probe_id": str(i), "cluster": str(i), **PLAIN, **row} for i, row in enumerate(rows)]
    return pd.DataFrame(
        {name: pd.array([row.get(name) for row in found], dtype=kind) for name, (kind, _) in COLUMNS.items()}
    )


def study_of(frame: pd.DataFrame, run_path: Path = Path("run.db")) -> Study:
    """A study that holds the frame, all of it as planned."""
    return Study(frame, "phantom-test at here", "test", "A test.", "1.10", run_path, len(frame))


def caught(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> list[str]:
    """What sections of the modules show from now on, in order, as text and HTML; a figure as its words."""
    mpl.use("Agg")
    shown: list[str] = []

    def plot(draw: Callable[[float], Axes]) -> None:
        import matplotlib.pyplot as plt

        shown.append(alt_text(draw(3.7)))
        plt.close("all")

    monkeypatch.setattr(display, "_html", shown.append)
    monkeypatch.setattr(wording, "markdown", shown.append)
    for module in modules:
        for name, stand_in in (("plot", plot), ("markdown", shown.append)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stand_in)
    return shown
