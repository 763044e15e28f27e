"""Recall over depth and length, and wrong anchors: one scale, n and interval in each cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from bunny_probe.plots._look import finish, new_axes, refusal, style, token_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.recall import RecallFit

__all__ = ["recall_heatmap", "wrong_anchor_heatmap"]


def recall_heatmap(fit: RecallFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Share of hits by depth (0, the start, at the top) and length; missing cells are hatched."""
    return _heatmap(fit, "recall", ax, width)


def wrong_anchor_heatmap(fit: RecallFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Share of answers that gave the value of another anchor, as its own surface."""
    return _heatmap(fit, "wrong", ax, width)


def _heatmap(fit: RecallFit, what: Literal["recall", "wrong"], ax: Axes | None, width: float) -> Axes:
    name = "Recall surface" if what == "recall" else "Wrong-anchor surface"
    with style():
        rows, columns = len(fit.depths), len(fit.lengths)
        ax = new_axes(ax, width, 1.75 + max(0.62 * max(rows, 2), 1.6))
        if fit.status == "refused" or not fit.cells:
            return refusal(ax, name, fit.reason)
        if what == "wrong" and fit.wrong is None:
            return refusal(ax, name, "answers carry no labels")
        value = np.full((rows, columns), np.nan)
        where: dict[tuple[int, int], int] = {}
        for index, cell in enumerate(fit.cells):
            i, j = fit.depths.index(cell.depth), fit.lengths.index(cell.length)
            number = cell.recall if what == "recall" else cell.wrong
            value[i, j] = np.nan if number is None else number
            where[i, j] = index
        import matplotlib as mpl

        colours = mpl.colormaps["cividis" if what == "recall" else "viridis"]
        # even steps: suites set lengths on a log2 axis, and each cell keeps room for its text
        mesh = ax.pcolormesh(
            np.arange(columns + 1), np.arange(rows + 1), np.ma.masked_invalid(value), cmap=colours,
            vmin=0, vmax=1, edgecolors="white", linewidth=1.5,
        )  # fmt: skip
        for i in range(rows):
            for j in range(columns):
                if (i, j) not in where:
                    ax.add_patch(
                        mpl.patches.Rectangle(
                            (j, i), 1, 1, facecolor="#f3f3f3", edgecolor="#a8a8a8", hatch="////", lw=0
                        )
                    )
                    continue
                _write(
                    ax, fit, where[i, j], what, i, j, colours, width * (0.76 if width >= 5 else 0.82) / columns
                )
        ax.grid(False)
        ax.invert_yaxis()
        ax.set_xticks(np.arange(columns) + 0.5, [token_text(v) for v in fit.lengths])
        ax.set_yticks(np.arange(rows) + 0.5, [f"{d:g}" if d == round(d, 2) else f"{d:.2f}" for d in fit.depths])
        ax.tick_params(length=0)
        if columns > 7 or width < 5:
            ax.tick_params(axis="x", rotation=35)
        ax.set_xlabel("prompt tokens (1K = 1,024)")
        ax.set_ylabel("depth (0 = start)")
        ax.spines[:].set_visible(False)
        if width >= 5:  # a narrow figure keeps the room for its cells: they carry the numbers
            figure = ax.get_figure(root=True)
            assert figure is not None
            bar = figure.colorbar(mesh, ax=ax, fraction=0.04, pad=0.015, ticks=[0, 0.5, 1])
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=9, length=0)
        return finish(ax, _title(fit, what), _note(fit), _alt(fit, what))


def _write(
    ax: Axes, fit: RecallFit, index: int, what: str, i: int, j: int, colours: object, inches: float
) -> None:
    cell = fit.cells[index]
    value, low, high = (
        (cell.recall, cell.low, cell.high)
        if what == "recall"
        else (cell.wrong, cell.wrong_low, cell.wrong_high)
    )
    if value is None or low is None or high is None:
        return
    red, green, blue, _ = colours(value)  # type: ignore[operator]
    ink = "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.42 else "white"
    lines = [(0.30, f"{value:.2f}", 10.5), (0.57, f"{low:.2f}–{high:.2f}", 8.0), (0.81, f"n={cell.n}", 8.0)]
    if inches < 0.62:
        lines = [
            (0.24, f"{value:.2f}", 8.6),
            (0.54, f"{low:.2f}–{high:.2f}", 6.4),
            (0.80, f"n={cell.n}", 7.0),
        ]
    for place, text, size in lines:
        weight = "bold" if place < 0.5 else "normal"
        ax.text(j + 0.5, i + place, text, ha="center", va="center", color=ink, fontsize=size, fontweight=weight)


def _title(fit: RecallFit, what: str) -> str:
    if what == "wrong":
        assert fit.wrong is not None
        worst = max((c for c in fit.cells if c.wrong is not None), key=lambda c: c.wrong or 0)
        if not worst.wrong:
            return "No answer gave another anchor's value"
        return (
            f"Another anchor's value in {fit.wrong.text()} of answers, "
            f"most at depth {worst.depth:g}, {token_text(worst.length)} tokens"
        )
    edges = [("the start", fit.primacy), ("the end", fit.recency)]
    sure = [(n, e) for n, e in edges if e is not None and e.low is not None and e.high is not None]
    better = [n for n, e in sure if e.low is not None and e.low > 0]
    worse = [n for n, e in sure if e.high is not None and e.high < 0]
    if len(better) == 2:
        return f"Facts in the middle are missed most: recall {fit.overall.text()} overall"
    if better or worse:
        parts = [f"{n} is recalled better" for n in better] + [f"{n} is recalled worse" for n in worse]
        text = " and ".join(parts) + " than the middle"
        return text[0].upper() + text[1:]
    return f"Recall {fit.overall.text()}: no clear difference between start, middle and end"


def _note(fit: RecallFit) -> str:
    hatched = "; hatched: not probed" if len(fit.cells) < len(fit.depths) * len(fit.lengths) else ""
    small = min(c.n for c in fit.cells), max(c.n for c in fit.cells)
    per = f"{small[0]}" if small[0] == small[1] else f"{small[0]} to {small[1]}"
    return (
        f"n = {fit.counts.used:,} answers, {fit.counts.clusters:,} documents, {per} a cell; "
        f"{fit.level:.0%} Wilson intervals{hatched}"
    )


def _alt(fit: RecallFit, what: str) -> str:
    name = "recall" if what == "recall" else "wrong-anchor share"
    cells = "; ".join(
        f"depth {c.depth:g}, {c.length:,.0f} tokens: "
        f"{(c.recall if what == 'recall' else c.wrong or 0):.2f} (n={c.n})"
        for c in fit.cells[:80]
    )
    return f"Heatmap of {name} by depth and length. {fit.sentence()} Cells: {cells}."
