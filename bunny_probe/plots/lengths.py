"""Everything that length changes, on one axis: quality, recall of several items, time, spread of scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, refusal, style, token_axis, token_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.decay import DecayFit
    from bunny_probe.fits.distribution import DistributionFit, Percentile
    from bunny_probe.fits.window import WindowFit

__all__ = ["length_panels", "percentile_ribbon"]

ByLength = Mapping[float, "DistributionFit"]


def length_panels(
    quality: DecayFit,
    items: DecayFit,
    times: ByLength,
    spread: ByLength,
    *,
    window: WindowFit | None = None,
    width: float = 7.2,
) -> Axes:
    """Four panels over one token axis; gives the first, which carries the title and the alt text.

    `quality`: scores of single facts; `items`: graded recall of several. `times`, `spread`: length →
    percentiles of latency_s and of the graded score. A panel without data says why.
    """
    import matplotlib.pyplot as plt

    with style():
        small = width < 5
        figure, axes = plt.subplots(
            4, 1, figsize=(width, 10.6 if not small else 9.6), sharex=True, layout="constrained",
            height_ratios=[1.15, 0.9, 1.0, 1.0],
        )  # fmt: skip
        del figure
        marks = sorted({c.x for fit in (quality, items) for c in fit.cells} | set(times) | set(spread))
        if not marks:
            return refusal(axes[0], "Course over length", quality.reason)
        _course(axes[0], quality, COLOURS["main"], "share of hits" if quality.hits else "mean score")
        if window is not None:
            _mark_window(axes[0], quality, window)
        _course(axes[1], items, COLOURS["third"], "share of items")
        _heading(axes[1], f"Items found of several, n = {items.counts.used:,}", small)
        _times(axes[2], times, small)
        _ribbon(axes[3], spread, "score")
        _heading(axes[3], f"Spread of graded scores, n = {_count(spread, 'score'):,}", small)
        token_axis(axes[3], marks[0] * 0.85, marks[-1] * 1.2, marks)
        for ax in axes[:3]:
            ax.tick_params(axis="x", length=0)
        note = (
            f"n = {quality.counts.used:,} answers, {quality.counts.clusters:,} documents; bars and bands "
            f"{quality.level:.0%}; diamond: effective window, triangle: knee"
        )
        return finish(axes[0], _title(quality, window), note, _alt(quality, items, times, spread, window))


def percentile_ribbon(
    levels: ByLength, ax: Axes | None = None, *, quantity: str = "score", width: float = 7.2
) -> Axes:
    """P10 to P90 and P25 to P75 as ribbons around the median, by length."""
    from bunny_probe.plots._look import new_axes

    with style():
        ax = new_axes(ax, width, 4.1 if width > 5 else 3.5)
        marks = sorted(levels)
        if not any(_at(levels[x], quantity, 0.5) for x in marks):
            return refusal(ax, "Percentiles", "no answer carries the quantity")
        _ribbon(ax, levels, quantity)
        token_axis(ax, marks[0] * 0.85, marks[-1] * 1.2, marks)
        ax.set_ylabel("score" if quantity == "score" else f"{quantity.removesuffix('_s')} (seconds)")
        words = "; ".join(
            f"{x:,.0f} tokens: " + ", ".join(
                f"P{p.q * 100:.0f} {p.value:.2f}" for p in levels[x].percentiles if p.quantity == quantity
            )
            for x in marks
        )  # fmt: skip
        note = f"n = {_count(levels, quantity):,} answers; ribbons P10 to P90 and P25 to P75, line the median"
        return finish(ax, f"Spread of the {quantity} over length", note, f"Percentile ribbons. {words}.")


def _course(ax: Axes, fit: DecayFit, colour: str, label: str) -> None:
    ax.set_ylim(-0.19, 1.04)
    ax.set_yticks([0, 0.5, 1])
    ax.set_ylabel(label)
    if not fit.cells:
        _absent(ax, fit.reason)
        return
    inside = [p for p in fit.curve if p.inside]
    x = [p.x for p in inside]
    ax.fill_between(x, [p.low for p in inside], [p.high for p in inside], color=colour, alpha=0.18, lw=0)
    ax.plot(x, [p.value for p in inside], color=colour)
    bars = np.abs([[c.score - c.low for c in fit.cells], [c.high - c.score for c in fit.cells]])
    ax.errorbar(
        [c.x for c in fit.cells], [c.score for c in fit.cells], yerr=bars, fmt="o", ms=4.5, capsize=3, lw=1.2,
        color=COLOURS["ink"], zorder=4,
    )  # fmt: skip
    ax.axhline(0, color="#9a9a9a", lw=0.8)
    for c in fit.cells:
        ax.text(c.x, -0.11, f"n={c.n}", ha="center", va="center", fontsize=8, color=COLOURS["quiet"])


def _mark_window(ax: Axes, fit: DecayFit, window: WindowFit) -> None:
    found, colour = window.window, COLOURS["second"]
    if found is not None and window.level_wanted is not None:
        if found.low is not None:
            ax.axvspan(found.low, found.high or found.probed_to, color=colour, alpha=0.10, lw=0)
        if found.value is not None:
            ax.plot([found.value], [window.level_wanted], "D", color=colour, ms=7, zorder=5)
    knee = fit.knee
    if knee is not None and knee.value is not None:
        at = float(
            np.interp(np.log(knee.value), np.log([p.x for p in fit.curve]), [p.value for p in fit.curve])
        )
        ax.plot([knee.value], [at], "v", color=COLOURS["fourth"], ms=8, zorder=5)
        if knee.low is not None:
            ends = [knee.low, knee.high or knee.probed_to]
            ax.plot(ends, [at, at], color=COLOURS["fourth"], lw=1.6, zorder=4)


def _times(ax: Axes, times: ByLength, small: bool) -> None:
    shown: list[float] = []
    for q, colour, marker in ((0.5, "main", "o"), (0.95, "second", "s")):
        rows = [(x, p) for x in sorted(times) if (p := _at(times[x], "latency_s", q)) is not None]
        if not rows:
            continue
        x, y = [x for x, _ in rows], [p.value for _, p in rows]
        low = [p.value - (p.value if p.low is None else p.low) for _, p in rows]
        high = [(p.value if p.high is None else p.high) - p.value for _, p in rows]
        ax.errorbar(
            x, y, yerr=np.maximum([low, high], 0), color=COLOURS[colour], marker=marker, ms=5, capsize=3,
            lw=1.6, elinewidth=1.2, label=f"P{q * 100:.0f}",
        )  # fmt: skip
        for place, p in rows:
            if p.high is None:  # too few answers to bound it from above
                ax.annotate(
                    "↑",
                    (place, p.value),
                    (6, 3),
                    textcoords="offset points",
                    color=COLOURS[colour],
                    fontsize=11,
                )
        shown += y
    n = _count(times, "latency_s")
    _heading(ax, f"Latency, n = {n:,}; ↑: too few answers to bound it from above", small)
    ax.set_ylabel("seconds")
    if not shown:
        _absent(ax, "no answer carries a time")
        return
    ax.set_ylim(0, ax.get_ylim()[1])
    ax.legend(loc="upper left", fontsize=9, ncols=2, borderaxespad=0.2)


def _ribbon(ax: Axes, levels: ByLength, quantity: str) -> None:
    places = [x for x in sorted(levels) if _at(levels[x], quantity, 0.5) is not None]
    if not places:
        ax.set_yticks([0, 0.5, 1])
        ax.set_ylim(-0.04, 1.04)
        _absent(ax, "every score is a hit or a miss: see the share above")
        return

    def line(q: float) -> list[float]:
        found = (_at(levels[x], quantity, q) for x in places)
        return [float("nan") if p is None else p.value for p in found]

    colour = COLOURS["fourth"]
    ax.fill_between(places, line(0.1), line(0.9), color=colour, alpha=0.16, lw=0, label="P10 to P90")
    ax.fill_between(places, line(0.25), line(0.75), color=colour, alpha=0.30, lw=0, label="P25 to P75")
    ax.plot(places, line(0.5), color=colour, marker="o", ms=4.5, label="median")
    if quantity == "score":
        ax.set_ylim(-0.04, 1.04)
        ax.set_yticks([0, 0.5, 1])
        ax.set_ylabel("score")
    ax.legend(loc="best", fontsize=9, borderaxespad=0.2)


def _at(fit: DistributionFit, quantity: str, q: float) -> Percentile | None:
    return next((p for p in fit.percentiles if p.quantity == quantity and abs(p.q - q) < 1e-9), None)


def _count(levels: ByLength, quantity: str) -> int:
    found = (next((p for p in fit.percentiles if p.quantity == quantity), None) for fit in levels.values())
    return sum(p.n for p in found if p is not None)


def _heading(ax: Axes, text: str, small: bool) -> None:
    from textwrap import fill

    text = fill(text, 46) if small else text
    ax.set_title(text, loc="left", fontsize=9.0 if small else 10, fontweight="normal", color=COLOURS["quiet"])


def _absent(ax: Axes, why: str) -> None:
    from textwrap import fill

    ax.text(
        0.5, 0.5, fill(why, 46), transform=ax.transAxes, ha="center", va="center", fontsize=9.5,
        color=COLOURS["quiet"],
    )  # fmt: skip


def _title(fit: DecayFit, window: WindowFit | None) -> str:
    if not fit.cells:
        return "What length changes"
    if window is not None and window.window is not None and window.window.value is not None:
        return f"{window.fraction:.0%} of the short-context score holds up to {window.window.text()}"
    first, last = token_text(fit.cells[0].x), token_text(fit.cells[-1].x)
    if fit.model == "constant":
        return f"No decay seen from {first} to {last} tokens: score {fit.base.value:.2f}"
    return f"Score {fit.base.value:.2f} at {first} tokens, {fit.last.value:.2f} at {last}"


def _alt(
    quality: DecayFit, items: DecayFit, times: ByLength, spread: ByLength, window: WindowFit | None
) -> str:
    late = "; ".join(
        f"{x:,.0f} tokens P95 {p.value:.2f} s (n={p.n})"
        for x in sorted(times)
        if (p := _at(times[x], "latency_s", 0.95)) is not None
    )
    wide = "; ".join(
        f"{x:,.0f} tokens P10 {a.value:.2f}, median {b.value:.2f}, P90 {c.value:.2f}"
        for x in sorted(spread)
        if (a := _at(spread[x], "score", 0.1)) and (b := _at(spread[x], "score", 0.5))
        and (c := _at(spread[x], "score", 0.9))
    )  # fmt: skip
    extra = f" {window.sentence()}" if window is not None else ""
    return (
        f"Four panels over prompt length. Quality: {quality.sentence()}{extra} Items: {items.sentence()} "
        f"Latency: {late or 'not timed'}. Spread of scores: {wide or 'hits and misses only'}."
    )
