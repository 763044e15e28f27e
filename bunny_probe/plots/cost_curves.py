"""Cost along an axis: against load or length, against quality, and orders lost along the wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.cost.money import scale_for
from bunny_probe.plots._look import COLOURS, finish, legend_below, new_axes, token_axis
from bunny_probe.plots.cost import cost_style, drawable, is_narrow, shown, thousands, unit_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.cost import BreakEven, Curve
    from bunny_probe.cost.latency import LatencyLoss
    from bunny_probe.cost.pareto import Pareto

__all__ = ["cost_curve", "cost_quality", "latency_loss"]

_LINES = [COLOURS[name] for name in ("main", "second", "third", "fourth", "fifth", "sixth")]
_DASHES = ["-", "--", "-.", ":", "-", "--"]


def cost_curve(
    curve: Curve, even: BreakEven | None = None, ax: Axes | None = None, *, width: float = 7.2
) -> Axes:
    """Each option's cost along load or length, log-log, with its interval; dotted where not measured."""
    with cost_style():
        axes = new_axes(ax, width, 4.4)
        x = np.array(curve.x)
        scale = scale_for([v for line in curve.lines for v in line.high], curve.currency)
        for i, line in enumerate(curve.lines):
            y, low, high = (np.array(v) / scale.factor for v in (line.stated, line.low, line.high))
            known = np.array(line.known)
            name = shown(line.label, line.option)
            axes.fill_between(x, low, high, color=_LINES[i % 6], alpha=0.16, lw=0)
            axes.plot(x, np.where(known, y, np.nan), color=_LINES[i % 6], ls=_DASHES[i % 6], label=name)
            if not known.all():
                axes.plot(x, y, color=_LINES[i % 6], ls=":", lw=1.3)
        axes.set_yscale("log")
        if curve.axis == "length":
            token_axis(axes, float(x[0]), float(x[-1]))
        else:
            axes.set_xscale("log")
            axes.set_xlim(x[0] / 1.04, x[-1] * 1.04)
            axes.set_xlabel(curve.unit)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:.2g}")
        axes.minorticks_off()
        _plain_ticks(axes)
        axes.set_ylabel(f"{unit_label(scale)} a year")
        if even is not None and even.stated is not None:
            axes.axvline(even.stated, color=COLOURS["ink"], lw=1.1, zorder=1)
            if even.low is not None and even.high is not None:
                axes.axvspan(even.low, even.high, color=COLOURS["ink"], alpha=0.08, lw=0, zorder=0)
        narrow = is_narrow(axes)
        legend_below(axes, 1 if narrow else 2)
        what = "requests a day" if curve.axis == "load" else "prompt tokens"
        best = curve.cheapest()
        if even is not None and even.stated is not None:
            title = f"The options break even at {even.stated:,.0f} {what}"
        elif len(curve.lines) == 1:
            title = f"What a year costs along {what}"
        elif len(set(best)) == 1:
            first = next(line for line in curve.lines if line.option == best[0])
            title = f"{shown(first.label, first.option)} is the cheapest over the whole range"
        else:
            title = f"Which option is the cheapest depends on {what}"
        note = f"bands: {curve.level:.0%} interval over the draws"
        if even is not None and even.low is not None:
            note += f"; grey: the same for the break-even, in the {even.crossing:.0%} of draws that have one"
        if not all(known for line in curve.lines for known in line.known):
            note += "; dotted: beyond the measured lengths"
        return finish(axes, title, note, f"Cost against {what}. {curve.sentence()}")


def _plain_ticks(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 of each decade on logarithmic axes, so that a short range has more than one."""
    from matplotlib.ticker import LogLocator

    low, high = axes.get_ylim()
    if high / low < 200:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if axes.get_xlabel().startswith("requests"):
        left, right = axes.get_xlim()
        narrow = is_narrow(axes)
        if right / left < (12 if narrow else 200):
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def cost_quality(result: Pareto, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Cost against quality with intervals both ways; the steps are what money buys on the frontier."""
    with cost_style():
        axes = new_axes(ax, width, 4.3)
        scale = scale_for([item.cost.high for item in result.positions], result.currency)
        front = [item for item in result.positions if item.efficient]
        steps = np.array([[item.cost.stated / scale.factor, item.quality.stated] for item in front])
        right = max(item.cost.high for item in result.positions) / scale.factor * 1.06 or 1.0
        axes.step(
            [*steps[:, 0], right], [*steps[:, 1], steps[-1, 1]], where="post", color=COLOURS["quiet"], lw=1.4,
            ls="--", label="best to be had at this cost", zorder=1,
        )  # fmt: skip
        for i, item in enumerate(result.positions):
            x, y = item.cost.stated / scale.factor, item.quality.stated
            colour, full = _LINES[i % 6], item.efficient
            # lines, not error bars: a stated value may lie outside its own interval
            axes.hlines(y, item.cost.low / scale.factor, item.cost.high / scale.factor, color=colour, lw=1.4)
            axes.vlines(x, item.quality.low, item.quality.high, color=colour, lw=1.4)
            axes.plot(
                x, y, "o" if full else "s", ms=8, zorder=3, label=shown(item.label, item.option), color=colour,
                mfc=colour if full else "white", ls="none",
            )  # fmt: skip
        low = min(item.quality.low for item in result.positions)
        high = max(item.quality.high for item in result.positions)
        pad = max((high - low) * 0.15, 0.002)
        axes.set_xlim(0, right)
        axes.set_ylim(max(0.0, low - pad), min(1.0, high + pad) if high < 1 else 1.0 + pad * 0.2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.1%}" if pad < 0.02 else f"{value:.0%}")
        axes.set_xlabel(f"{unit_label(scale)} a year")
        thousands(axes)
        axes.set_ylabel("requests that need no correction")
        narrow = is_narrow(axes)
        legend_below(axes, 1 if narrow else 2)
        names = " and ".join(shown(item.label, item.option) for item in front[:3])
        title = f"Only {names} is worth considering" if len(front) == 1 else f"{names} are worth considering"
        note = f"{result.level:.0%} intervals; filled: nothing else is cheaper and as good"
        return finish(axes, title, note, f"Cost against quality. {result.sentence()}")


def latency_loss(
    loss: LatencyLoss,
    grace: float,
    patience: float,
    most: float,
    ax: Axes | None = None,
    *,
    label: str = "",
    width: float = 7.2,
) -> Axes:
    """The latency distribution and the share of waiting orders lost at each wait (times in seconds)."""
    with cost_style():
        axes = new_axes(ax, width, 4.2)
        seconds = np.concatenate([s.seconds for s in loss.strata])
        mass = np.concatenate(
            [
                np.full(s.seconds.size, w / s.seconds.size)
                for s, w in zip(loss.strata, loss.weights, strict=True)
            ]
        )
        order = np.argsort(seconds)
        reached = np.cumsum(mass[order])
        end = max(float(loss.quantiles((0.999,))[0]), patience) * 1.05
        t = np.linspace(0, end, 400)
        axes.step(
            [0.0, *seconds[order]], [0.0, *reached], where="post", color=COLOURS["main"],
            label="answered by then (ECDF)",
        )  # fmt: skip
        axes.plot(
            t,
            loss.of(t, grace, patience, most),
            color=COLOURS["second"],
            ls="--",
            label="orders lost at this wait",
        )
        mean = loss.mean_seconds()
        share = float(loss.share(grace, patience, most))
        by_mean = float(loss.of(np.array([mean]), grace, patience, most)[0])
        axes.axvline(mean, color=COLOURS["quiet"], lw=1.1, ls=":", label=f"mean latency {mean:.3g} s")
        axes.set_xlim(0, end)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("latency, seconds")
        axes.set_ylabel("share")
        narrow = is_narrow(axes)
        legend_below(axes, 1 if narrow else 3)
        who = f"{label}: " if label and drawable(label) else ""
        title = f"{who}{share:.2%} of waiting orders are lost"
        if abs(share - by_mean) >= 5e-5:
            title += f"; the mean latency alone would say {by_mean:.2%}"
        n = sum(stratum.seconds.size for stratum in loss.strata if np.isfinite(stratum.independent))
        note = f"n = {n:,} latencies measured" if n else "a stated distribution, not a measured one"
        return finish(axes, title, note, f"Latency distribution and loss. {title}. {note}.")
