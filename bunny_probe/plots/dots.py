"""Two runs side by side: each question's difference with its interval, and the margin nobody would mind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, new_axes, refusal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.compare import CompareFit

__all__ = ["comparison_dots"]

_MARKS = {
    "better": ("third", "^"),
    "same": ("main", "o"),
    "worse": ("second", "v"),
    "undecided": ("quiet", "D"),
}
_WORDS = {"better": "better", "same": "same within the margin", "worse": "worse", "undecided": "undecided"}


def comparison_dots(fit: CompareFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """One dot per score question: second run minus first, its interval, the margin shaded."""
    with style():
        rows = [q for q in fit.questions if q.kind == "score" and q.low is not None and q.high is not None]
        ax = new_axes(ax, width, 1.9 + 0.36 * max(len(rows), 2))
        if fit.status == "refused" or not rows:
            return refusal(ax, "Comparison", fit.reason or "no score question could be asked")
        margin = rows[0].margin or 0.0
        if margin:
            ax.axvspan(-margin, margin, color=COLOURS["main"], alpha=0.10, lw=0)
        ax.axvline(0, color="#9a9a9a", lw=1)
        for i, q in enumerate(rows):
            colour, marker = _MARKS[q.verdict]
            value, low, high = float(q.difference or 0), float(q.low or 0), float(q.high or 0)
            ax.plot([low, high], [i, i], color=COLOURS[colour], lw=2)
            ax.plot([value], [i], marker, color=COLOURS[colour], ms=8)
            ax.annotate(
                f"n={q.n:,}", (1, i), (-2, 9), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="right", va="center", fontsize=8.4, color=COLOURS["quiet"],
            )  # fmt: skip
        names = [q.name.replace("length_tokens ", "").replace("score at ", "at ") for q in rows]
        names = [f"{n} tokens" if n.startswith("at ") and n[3:].isdigit() else n for n in names]
        ax.set_yticks(range(len(rows)), ["all" if n == "score" else n for n in names])
        ax.set_ylim(len(rows) - 0.4, -0.7)
        reach = max(np.max(np.abs([[q.low or 0, q.high or 0] for q in rows])), margin) * 1.12 + 0.01
        ax.set_xlim(-reach, reach)
        ax.set_xlabel("score, second run minus first")
        ax.grid(axis="y", visible=False)
        note = f"{fit.pairs:,} probes answered in both; {fit.level:.0%} intervals"
        note += f"; shaded: ±{margin:g}; marks: {', '.join(sorted({_WORDS[q.verdict] for q in rows}))}"
        title = {
            "better": "The second run is better",
            "worse": "The second run is worse",
            "same": f"The runs are the same within {margin:g}",
            "undecided": "The runs cannot be told apart, nor called the same",
        }[fit.verdict]
        dots = "; ".join(
            f"{q.name} {q.difference:+.3f} [{q.low:+.3f}, {q.high:+.3f}] {q.verdict}" for q in rows
        )
        return finish(ax, title, note, f"Dots of score differences. {fit.sentence()} {dots}.")
