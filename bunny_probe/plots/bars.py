"""What became of the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, legend_below, new_axes, refusal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.outcomes import OutcomesFit

__all__ = ["outcome_bars"]

_RAMP = ["#D55E00", "#E69F00", "#CC79A7", "#009E73", "#56B4E9", "#999999", "#F0E442", "#5e3c99"]


def outcome_bars(fit: OutcomesFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """One bar per outcome with its Wilson interval; with `by`, one stacked bar per group."""
    with style():
        groups = list(dict.fromkeys(row.group for row in fit.rows))
        order = _order(fit)
        height = 1.7 + 0.42 * max(len(order) if fit.by is None else len(groups), 2)
        ax = new_axes(ax, width, height)
        if fit.status == "refused" or not fit.rows:
            return refusal(ax, "Outcomes", fit.reason)
        if fit.by is None:
            _single(ax, fit, order)
        else:
            _stacked(ax, fit, order, groups)
        ax.set_xlabel("share of requests")
        ax.set_xticks(np.linspace(0, 1, 6))
        ax.grid(axis="y", visible=False)
        return finish(
            ax, _title(fit), f"n = {fit.counts.rows:,} requests; {fit.level:.0%} Wilson intervals", _alt(fit)
        )


def _order(fit: OutcomesFit) -> list[str]:
    total: dict[str, int] = {}
    for row in fit.rows:
        total[row.outcome] = total.get(row.outcome, 0) + row.count
    return sorted(total, key=lambda name: (name != "answered", -total[name]))


def _colour(order: list[str], name: str) -> str:
    if name == "answered":
        return COLOURS["main"]
    rest = [o for o in order if o != "answered"]
    return _RAMP[rest.index(name) % len(_RAMP)]


def _single(ax: Axes, fit: OutcomesFit, order: list[str]) -> None:
    rows = {row.outcome: row for row in fit.rows}
    for i, name in enumerate(order):
        row = rows[name]
        ax.barh(i, row.share, color=_colour(order, name), height=0.62)
        ax.errorbar(
            row.share,
            i,
            xerr=[[row.share - row.low], [row.high - row.share]],
            color=COLOURS["ink"],
            capsize=3,
            lw=1.2,
        )
        ax.annotate(
            f"{row.count:,}", (row.high, i), (6, 0), textcoords="offset points", va="center", fontsize=9.5,
            color=COLOURS["ink"],
        )  # fmt: skip
    ax.set_yticks(range(len(order)), [name.replace("_", " ") for name in order])
    ax.set_xlim(0, 1.1)
    ax.set_ylim(len(order) - 0.45, -0.55)


def _stacked(ax: Axes, fit: OutcomesFit, order: list[str], groups: list[str]) -> None:
    rows = {(row.group, row.outcome): row for row in fit.rows}
    for i, group in enumerate(groups):
        left = 0.0
        for name in order:
            row = rows.get((group, name))
            if row is None:
                continue
            ax.barh(
                i, row.share, left=left, color=_colour(order, name), height=0.66, edgecolor="white", lw=0.8,
                label=name.replace("_", " "),
            )  # fmt: skip
            if row.share > 0.07:
                ax.text(
                    left + row.share / 2,
                    i,
                    f"{row.count:,}",
                    ha="center",
                    va="center",
                    color="white",
                    fontsize=9.5,
                )
            left += row.share
    ax.set_yticks(range(len(groups)), groups)
    ax.set_xlim(0, 1)
    ax.set_ylim(len(groups) - 0.45, -0.55)
    figure = ax.get_figure(root=True)
    assert figure is not None
    legend_below(ax, 3 if figure.get_size_inches()[0] > 5 else 2)


def _title(fit: OutcomesFit) -> str:
    if not fit.counts.failed:
        return f"Every one of {fit.counts.rows:,} requests was answered"
    name, count = fit.counts.failed[0]
    return (
        f"{fit.answered.text(3)} of requests were answered; the commonest failure is "
        f"{name.replace('_', ' ')} ({count:,})"
    )


def _alt(fit: OutcomesFit) -> str:
    rows = "; ".join(f"{r.group} {r.outcome.replace('_', ' ')} {r.count} of {r.n}" for r in fit.rows[:40])
    return f"Bars of request outcomes. {fit.sentence()} {rows}."
