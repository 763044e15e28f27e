"""What edits of the dress do to a score: a row an edit, a mark a scorer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bunny_probe.plots._look import COLOURS, finish, legend_below, new_axes, refusal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.audit import ScorerEditsFit

__all__ = ["edit_shifts"]

_INKS = ("main", "second", "third", "fourth", "fifth", "sixth")
_MARKS = ("o", "s", "^", "D", "v", "P")


def edit_shifts(
    scorers: Mapping[str, ScorerEditsFit],
    ax: Axes | None = None,
    *,
    width: float = 7.2,
    tolerance: float = 0.05,
) -> Axes:
    """Mean shift of each scorer under each edit with its interval; the tolerance is shaded."""
    with style():
        shown = {
            name: {s.edit: s for s in fit.shifts if s.shift is not None and s.low is not None}
            for name, fit in scorers.items()
        }
        edits = list(dict.fromkeys(edit for rows in shown.values() for edit in rows))
        ax = new_axes(ax, width, 2.0 + 0.14 * max(len(edits), 3) * max(len(shown), 2))
        if not edits:
            return refusal(ax, "Edits", "no edit changes five answers")
        ax.axvspan(-tolerance, tolerance, color=COLOURS["main"], alpha=0.10, lw=0)
        ax.axvline(0, color="#9a9a9a", lw=1)
        reach = tolerance
        for i, (name, rows) in enumerate(shown.items()):
            shift = (i - (len(shown) - 1) / 2) * 0.72 / max(len(shown), 1)
            colour = COLOURS[_INKS[i % 6]]
            for j, edit in enumerate(edits):
                if edit not in rows:
                    continue
                row = rows[edit]
                value, low, high = float(row.shift or 0), float(row.low or 0), float(row.high or 0)
                ax.plot([low, high], [j + shift, j + shift], color=colour, lw=1.5)
                ax.plot([value], [j + shift], _MARKS[i % 6], color=colour, ms=5, label=name)
                reach = max(reach, abs(low), abs(high))
        names = [edit.replace("_", " ") for edit in edits]
        ax.set_yticks(range(len(edits)), names, fontsize=8.5 if width < 5 else 10)
        ax.set_ylim(len(edits) - 0.45, -0.55)
        ax.set_xlim(-reach * 1.08, reach * 1.08)
        ax.set_xlabel("change of the score")
        ax.grid(axis="y", visible=False)
        legend_below(ax, 4 if width > 5 else 2)
        fooled = sum(s.fooled for fit in scorers.values() for s in fit.shifts)
        asked = sum(len(rows) for rows in shown.values())
        title = f"{fooled} of {asked} pairs of edit and scorer move the score beyond the tolerance"
        n = max(fit.n for fit in scorers.values())
        note = f"{n} answers, edited in dress and not in substance; bars 95%; shaded: ±{tolerance:g}"
        words = " ".join(f"{name}: {fit.sentence()}" for name, fit in scorers.items())
        return finish(ax, title, note, f"Shift of scores under edits. {words}")
