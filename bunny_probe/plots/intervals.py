"""Dots with intervals: scores of groups, differences of forms, and damage in a stated amount."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, legend_below, new_axes, refusal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.contrasts import ContrastsFit
    from bunny_probe.fits.groups import GroupsFit

__all__ = ["contrast_dots", "damage_curves", "group_dots"]

_INKS = ("main", "second", "third", "fourth", "fifth", "sixth")
_MARKS = ("o", "s", "^", "D", "v", "P")


def group_dots(
    fit: GroupsFit, ax: Axes | None = None, *, title: str = "", width: float = 7.2, most: int = 24
) -> Axes:
    """Mean score of each group with its interval and its n, the lowest on top; at most `most` groups."""
    with style():
        rows = sorted((r for r in fit.rows if r.score is not None), key=lambda r: (r.score or 0, r.names))
        shown = rows[:most]
        ax = new_axes(ax, width, 1.5 + 0.34 * max(len(shown), 2))
        if fit.status == "refused" or not shown:
            return refusal(ax, "Scores by group", fit.reason or "nothing was scored")
        for i, row in enumerate(shown):
            value, low, high = float(row.score or 0), float(row.low or 0), float(row.high or 0)
            ax.plot([low, high], [i, i], color=COLOURS["main"], lw=2)
            ax.plot([value], [i], "o", color=COLOURS["main"], ms=7)
        _places(ax, [_name(r.names) for r in shown], [f"n={r.n}" for r in shown], width)
        ax.set_xlim(-0.03, 1.03)
        ax.set_xlabel("mean score")
        worst = shown[0]
        said = f"Lowest: {_name(worst.names)} with {worst.score:.2f}" if len(shown) > 1 else _name(worst.names)
        cut = f"; the lowest {most} of {len(rows)} groups" if len(rows) > most else ""
        note = f"n = {fit.counts.used:,} answers; {fit.level:.0%} Wilson intervals{cut}"
        dots = "; ".join(f"{_name(r.names)} {r.score:.2f} [{r.low:.2f}, {r.high:.2f}] n={r.n}" for r in shown)
        return finish(ax, title or said, note, f"Dots of mean scores. {fit.sentence()} {dots}.")


def contrast_dots(
    fit: ContrastsFit, ax: Axes | None = None, *, title: str, label: str = "score, second minus first",
    width: float = 7.2,
) -> Axes:  # fmt: skip
    """Difference of each pair of forms with its interval and number of pairs; 0 is no difference."""
    with style():
        rows = [r for r in fit.rows if r.low is not None]
        ax = new_axes(ax, width, 1.6 + 0.36 * max(len(rows), 2))
        if fit.status == "refused" or not rows:
            return refusal(ax, "Differences", fit.reason)
        ax.axvline(0, color="#9a9a9a", lw=1)
        for i, row in enumerate(rows):
            sure = row.p_adjusted is not None and row.p_adjusted < 1 - fit.level
            colour = COLOURS["second" if sure else "main"]
            ax.plot([float(row.low or 0), float(row.high or 0)], [i, i], color=colour, lw=2)
            ax.plot([float(row.difference or 0)], [i], "D" if sure else "o", color=colour, ms=7)
        _places(ax, [r.name for r in rows], [f"n={r.n}" for r in rows], width)
        reach = max(abs(float(v or 0)) for r in rows for v in (r.low, r.high)) * 1.12 + 0.02
        ax.set_xlim(-reach, reach)
        ax.set_xlabel(label)
        note = f"n: pairs; {fit.level:.0%} intervals; diamond: beyond chance after correction"
        dots = "; ".join(f"{r.name} {r.difference:+.2f} [{r.low:+.2f}, {r.high:+.2f}] n={r.n}" for r in rows)
        return finish(ax, title, note, f"Dots of differences between two forms. {fit.sentence()} {dots}.")


def damage_curves(fit: ContrastsFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Score lost against the share of a text that is damaged, a line a kind. Rows are named `kind/share`."""
    with style():
        ax = new_axes(ax, width, 4.3 if width > 5 else 4.0)
        rows = [(r.name.split("/")[0], float(r.name.split("/")[1]), r) for r in fit.rows if r.low is not None]
        if fit.status == "refused" or not rows:
            return refusal(ax, "Sensitivity to damage", fit.reason)
        kinds = list(dict.fromkeys(kind for kind, _, _ in rows))
        for i, kind in enumerate(kinds):
            part = sorted((x, r) for k, x, r in rows if k == kind)
            x = np.array([x for x, _ in part]) + (i - (len(kinds) - 1) / 2) * 0.008
            y = np.array([float(r.difference or 0) for _, r in part])
            low = np.array([float(r.low or 0) for _, r in part])
            high = np.array([float(r.high or 0) for _, r in part])
            ax.errorbar(
                [0, *x], [0, *y], yerr=np.maximum([[0, *(y - low)], [0, *(high - y)]], 0), ms=5.5, capsize=3,
                color=COLOURS[_INKS[i % 6]], marker=_MARKS[i % 6], lw=1.7, elinewidth=1.1, label=kind,
            )  # fmt: skip
        ax.axhline(0, color="#9a9a9a", lw=1)
        ax.set_xlim(-0.03, max(x for _, x, _ in rows) + 0.05)
        ax.set_xlabel("share of the text's units that is damaged")
        ax.set_ylabel("score, damaged minus intact")
        legend_below(ax, 5 if width > 5 else 3)
        worst = min((r for _, _, r in rows), key=lambda r: r.difference or 0)
        sure = worst.high is not None and worst.high < 0
        kind, share = worst.name.split("/")
        title = (
            f"{kind.capitalize()} at {float(share):.0%} costs {-(worst.difference or 0):.2f} of the score"
            if sure
            else "No damage is shown to cost score"
        )
        sizes = [r.n for _, _, r in rows]
        per = f"{sizes[0]}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        note = f"{per} pairs a point, the intact twin beside; bars {fit.level:.0%}"
        dots = "; ".join(f"{r.name} {r.difference:+.2f} (n={r.n})" for _, _, r in rows)
        return finish(ax, title, note, f"Score lost to damage, by kind and amount. {fit.sentence()} {dots}.")


def _name(names: Sequence[str]) -> str:
    return " / ".join(n.replace("_", " ") for n in names if n) or "plain"


def _places(ax: Axes, names: list[str], sizes: list[str], width: float) -> None:
    """Names on the left, n on the right, the first row on top."""
    from textwrap import fill

    names = [fill(name, 18 if width < 5 else 34) for name in names]
    ax.set_yticks(range(len(names)), names, fontsize=8.5 if width < 5 else 10)
    ax.set_ylim(len(names) - 0.4, -0.6)
    for i, size in enumerate(sizes):
        ax.annotate(
            size, (1, i), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points", ha="left",
            va="center", fontsize=8.4, color=COLOURS["quiet"], annotation_clip=False,
        )  # fmt: skip
    ax.grid(axis="y", visible=False)
