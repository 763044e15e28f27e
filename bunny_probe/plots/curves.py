"""Score against length: the fitted curve with its band, the raw cells beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, new_axes, refusal, style, token_axis, token_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.decay import DecayFit
    from bunny_probe.fits.window import WindowFit

__all__ = ["decay_curve"]

_AXES = {
    "length_tokens": "prompt tokens",
    "from_end": "tokens from fact to end",
    "position": "tokens before the fact",
}


def decay_curve(
    fit: DecayFit, ax: Axes | None = None, *, window: WindowFit | None = None, width: float = 7.2
) -> Axes:
    """The decay curve with its band; cells with Wilson intervals and n; dashed outside the probed range.

    `window`: marks the effective window and its interval on the same axes. `width` in inches.
    """
    with style():
        ax = new_axes(ax, width, 4.3 if width > 5 else 3.6)
        if fit.status == "refused" or not fit.curve:
            return refusal(ax, "Decay curve", fit.reason)
        x = np.array([p.x for p in fit.curve])
        value, low, high = (
            np.array([getattr(p, name) for p in fit.curve]) for name in ("value", "low", "high")
        )
        inside = np.array([p.inside for p in fit.curve])
        edge = int(np.flatnonzero(inside)[-1])
        colour = COLOURS["main"]
        ax.fill_between(x[: edge + 1], low[: edge + 1], high[: edge + 1], color=colour, alpha=0.18, lw=0)
        ax.plot(x[: edge + 1], value[: edge + 1], color=colour)
        if edge + 1 < x.size:
            ax.fill_between(x[edge:], low[edge:], high[edge:], color=colour, alpha=0.07, lw=0)
            ax.plot(x[edge:], value[edge:], color=colour, ls=(0, (4, 3)), lw=1.6)
        cell_x = np.array([c.x for c in fit.cells])
        share = np.array([c.score for c in fit.cells])
        bars = np.abs(np.array([[c.score - c.low for c in fit.cells], [c.high - c.score for c in fit.cells]]))
        ax.errorbar(cell_x, share, yerr=bars, fmt="o", color=COLOURS["ink"], ms=5, lw=1.3, capsize=3, zorder=4)
        if window is not None:
            _mark(ax, window)
        ax.set_ylim(-0.11, 1.03)
        ax.set_yticks(np.linspace(0, 1, 6))
        ax.axhline(0, color="#9a9a9a", lw=0.8)
        _numbers(ax, fit, width)
        token_axis(ax, cell_x[0] * 0.85, x[-1], [c.x for c in fit.cells], label=_AXES.get(fit.axis, "tokens"))
        ax.set_ylabel("share of hits" if fit.hits else "mean score")
        ax.spines["left"].set_bounds(0, 1)
        return finish(ax, _title(fit, window), _note(fit), _alt(fit, window))


def _numbers(ax: Axes, fit: DecayFit, width: float) -> None:
    """n under each cell, or under every second where they would touch."""
    places = np.log2([c.x for c in fit.cells])
    room = max((places[-1] - places[0]) * (width / 5.5) / 14, 1e-9) if places.size > 1 else 1.0
    last = -np.inf
    for place, cell in zip(places, fit.cells, strict=True):
        if place - last >= room * 0.9:
            ax.text(cell.x, -0.055, f"{cell.n}", ha="center", va="center", fontsize=8.6, color=COLOURS["quiet"])
            last = place
    ax.annotate(
        "n", (0, -0.055), (-7, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
        ha="right", va="center", fontsize=8.6, color=COLOURS["quiet"],
    )  # fmt: skip


def _mark(ax: Axes, window: WindowFit) -> None:
    if window.window is None or window.level_wanted is None:
        return
    colour = COLOURS["second"]
    crossing = window.window
    ax.axhline(window.level_wanted, color=colour, lw=1.0, ls=":")
    if crossing.low is not None:
        ax.axvspan(crossing.low, crossing.high or crossing.probed_to, color=colour, alpha=0.10, lw=0)
    if crossing.value is not None:
        ax.plot([crossing.value], [window.level_wanted], "D", color=colour, ms=7, zorder=5)


def _title(fit: DecayFit, window: WindowFit | None) -> str:
    if window is not None and window.window is not None:
        return f"{window.fraction:.0%} of the short-context score holds up to {window.window.text()}"
    first, last = fit.cells[0].x, fit.cells[-1].x
    if fit.model == "constant":
        reach = f"from {token_text(first)} to {token_text(last)} tokens"
        return f"No decay seen {reach}: score {fit.base.text()}"
    return f"Score {fit.base.text()} at {token_text(first)} tokens, {fit.last.text()} at {token_text(last)}"


def _note(fit: DecayFit) -> str:
    from bunny_probe.fits.curves import CURVES

    return (
        f"{CURVES[fit.model or 'constant'].words}; n = {fit.counts.used:,} answers, "
        f"{fit.counts.clusters:,} documents; band and bars {fit.level:.0%}; dashed: not probed"
    )


def _alt(fit: DecayFit, window: WindowFit | None) -> str:
    cells = "; ".join(
        f"{c.x:,.0f} tokens {c.score:.2f} [{c.low:.2f}, {c.high:.2f}] n={c.n}" for c in fit.cells[:12]
    )
    extra = f" {window.sentence()}" if window is not None else ""
    return f"Curve of the score against length. {fit.sentence()}{extra} Cells: {cells}."
