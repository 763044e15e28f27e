"""Tells a person how a long piece of work stands: bars where they move, sparse lines where they would not.

A terminal and a live notebook get a bar. A notebook executed by papermill, a pipe and a CI log get a line
now and then, because a frozen bar in a saved notebook says nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

__all__ = ["PROGRESS_VARIABLE", "Mode", "Standing", "left", "progress"]

PROGRESS_VARIABLE = "BUNNY_PROBE_PROGRESS"  # auto, bar, lines or none
_SECONDS_BETWEEN_LINES = 10.0


Mode = Literal["auto", "bar", "lines", "none"]


class Standing(Protocol):
    """Where a piece of work stands."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def eta_s(self) -> float | None: ...  # None: too little is measured to say
    @property
    def note(self) -> str: ...


Report = Callable[[Standing], None]


@contextmanager
def progress(title: str, mode: Mode = "auto") -> Iterator[Report]:
    """Yield a function that shows a `Standing`. `mode` "auto" asks the environment and the terminal."""
    console = Console(stderr=not _in_notebook(), soft_wrap=True)
    chosen = mode if mode != "auto" else os.environ.get(PROGRESS_VARIABLE, "auto")
    if chosen == "auto":
        chosen = "bar" if console.is_terminal or console.is_jupyter else "lines"
    if chosen == "none":
        yield lambda update: None
    elif chosen == "bar":
        with _bar(title, console) as report:
            yield report
    else:
        yield _lines(title, console)


@contextmanager
def _bar(title: str, console: Console) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[eta]}"),
        TextColumn("[dim]{task.fields[note]}[/dim]"),
    )
    with Progress(*columns, console=console, transient=False) as bars:
        task = bars.add_task(title, total=None, eta="", note="")

        def report(update: Standing) -> None:
            bars.update(
                task, completed=update.done, total=update.total, eta=left(update.eta_s), note=update.note
            )

        yield report


def _lines(title: str, console: Console) -> Report:
    last = 0.0

    def report(update: Standing) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _SECONDS_BETWEEN_LINES and update.done < update.total:
            return
        last = now
        parts = [f"{title}: {update.done}/{update.total}", left(update.eta_s), update.note]
        console.print(", ".join(part for part in parts if part), highlight=False, markup=False)

    return report


def left(seconds: float | None) -> str:
    """A remaining time in words that do not pretend to more precision than there is."""
    if seconds is None:
        return "time left: measuring"
    if seconds < 1:
        return ""
    if seconds < 90:
        return f"about {max(5, round(seconds / 5) * 5)} s left"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"


def _in_notebook() -> bool:
    """Whether a kernel runs this; that some module of one is loaded says nothing."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
