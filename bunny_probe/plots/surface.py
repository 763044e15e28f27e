"""Recall over depth, one smooth line a length with its band, and the raw cells beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import (
    COLOURS,
    finish,
    legend_below,
    new_axes,
    refusal,
    style,
    token_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.recall import RecallFit
    from bunny_probe.fits.surface import RecallSurfaceFit

__all__ = ["depth_curves"]

_INKS = ("main", "second", "third", "fourth", "fifth", "sixth")
_MARKS = ("o", "s", "^", "D", "v", "P")


def depth_curves(
    surface: RecallSurfaceFit,
    recall: RecallFit,
    ax: Axes | None = None,
    *,
    width: float = 7.2,
    most: int = 4,
) -> Axes:
    """The smooth surface cut at up to `most` lengths; cells of `recall` as points with their intervals."""
    with style():
        ax = new_axes(ax, width, 4.3 if width > 5 else 3.9)
        if surface.status == "refused" or not surface.points:
            return refusal(ax, "Recall over depth", surface.reason)
        lengths = np.array(sorted({p.length for p in surface.points}))
        chosen = lengths
        if lengths.size > most:
            chosen = lengths[np.linspace(0, lengths.size - 1, most).round().astype(int)]
        for i, length in enumerate(chosen):
            colour, shift = COLOURS[_INKS[i % len(_INKS)]], (i - (len(chosen) - 1) / 2) * 0.008
            line = sorted((p for p in surface.points if p.length == length), key=lambda p: p.depth)
            depth = [p.depth for p in line]
            ax.fill_between(
                depth, [p.low for p in line], [p.high for p in line], color=colour, alpha=0.13, lw=0
            )
            ax.plot(depth, [p.value for p in line], color=colour, label=f"{token_text(float(length))} tokens")
            cells = [c for c in recall.cells if c.length == length]
            bars = np.abs([[c.recall - c.low for c in cells], [c.high - c.recall for c in cells]])
            if cells:
                ax.errorbar(
                    [c.depth + shift for c in cells], [c.recall for c in cells], yerr=bars, color=colour, ms=5,
                    fmt=_MARKS[i % len(_MARKS)], lw=1.0, capsize=2,
                )  # fmt: skip
        ax.set_xlim(-0.04, 1.04)
        ax.set_ylim(-0.04, 1.04)
        ax.set_xlabel("depth of the fact (0 = start, 1 = end)")
        ax.set_ylabel("recall")
        legend_below(ax, 3 if width > 5 else 2)
        low = min(surface.points, key=lambda p: p.value)
        title = f"Weakest at depth {low.depth:.2f} and {token_text(low.length)} tokens: {low.value:.2f}"
        note = (
            f"n = {surface.counts.used:,} answers, {surface.counts.clusters:,} documents; lines: smooth "
            f"surface; points: cells; bands and bars {surface.level:.0%}"
        )
        return finish(ax, title, note, f"Recall over depth, a line a length. {surface.sentence()}")
