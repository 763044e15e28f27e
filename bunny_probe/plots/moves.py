"""How numbers moved between two runs: one dot a number with its interval, zero and a margin marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bunny_probe.plots._look import COLOURS, finish, new_axes, refusal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Move", "move_dots"]

_MARKS = {
    "better": ("o", "third"),
    "same": ("s", "quiet"),
    "worse": ("X", "second"),
    "undecided": ("D", "quiet"),
}


@dataclass(frozen=True, slots=True)
class Move:
    label: str
    value: float
    low: float
    high: float
    verdict: str  # better, same, worse or undecided
    n: int


def move_dots(
    moves: Sequence[Move],
    *,
    title: str,
    unit: str,
    margin: float | None = None,
    note: str = "",
    ax: Axes | None = None,
    width: float = 7.2,
) -> Axes:
    """Differences on one axis in `unit`; filled where something was shown, hollow where it was not."""
    from textwrap import fill

    with style():
        ax = new_axes(ax, width, 1.7 + 0.42 * max(len(moves), 2))
        if not moves:
            return refusal(ax, "Differences", "nothing was measured in both runs")
        if margin is not None:
            ax.axvspan(-margin, margin, color=COLOURS["line"], alpha=0.55, lw=0)
        ax.axvline(0, color=COLOURS["ink"], lw=1)
        for i, move in enumerate(moves):
            shape, colour = _MARKS[move.verdict]
            ax.errorbar(
                move.value, i, xerr=[[max(move.value - move.low, 0)], [max(move.high - move.value, 0)]],
                fmt=shape, ms=7, color=COLOURS[colour], mec=COLOURS[colour], capsize=3, lw=1.6,
                mfc="white" if move.verdict == "undecided" else COLOURS[colour],
            )  # fmt: skip
        narrow = width < 5
        labels = [fill(f"{m.label}: {m.verdict}", 18 if narrow else 44) for m in moves]
        ax.set_yticks(range(len(moves)), labels, fontsize=8.5 if narrow else 10)
        ax.set_ylim(len(moves) - 0.5, -0.5)
        edge = margin or 0.0
        low, high = min(-edge, *(m.low for m in moves)), max(edge, *(m.high for m in moves))
        low, high = min(low, 0.0), max(high, 0.0)
        pad = 0.06 * (high - low) or 1.0
        ax.set_xlim(low - pad, high + pad)
        ax.set_xlabel(f"difference, {unit}")
        ax.grid(axis="y", visible=False)
        return finish(ax, title, note, _alt(moves, unit))


def _alt(moves: Sequence[Move], unit: str) -> str:
    rows = "; ".join(
        f"{m.label} {m.value:+.3g} ({m.low:+.3g} to {m.high:+.3g}), {m.verdict}, n = {m.n:,}"
        for m in moves[:40]
    )
    return f"Dots with intervals of differences in {unit}: {rows}."
