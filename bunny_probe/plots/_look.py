"""One look for every figure: colours that colour-blind readers can tell, titles that say what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "alt_text",
    "finish",
    "legend_below",
    "new_axes",
    "refusal",
    "style",
    "token_axis",
    "token_text",
]

# Okabe and Ito 2008; told apart in the three common kinds of colour blindness and in grey
COLOURS = {
    "main": "#0072B2",
    "second": "#D55E00",
    "third": "#009E73",
    "fourth": "#CC79A7",
    "fifth": "#E69F00",
    "sixth": "#56B4E9",
    "ink": "#222222",
    "quiet": "#6b6b6b",
    "line": "#d5d5d5",
}

_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
    "font.size": 11,
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 11,
    "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": "#9a9a9a",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "white",
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.7,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "xtick.color": COLOURS["ink"],
    "ytick.color": COLOURS["ink"],
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.2,
    "figure.facecolor": "white",
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "hatch.linewidth": 0.6,
}


@contextmanager
def style() -> Iterator[None]:
    """The house style for what is drawn inside the `with`; nothing outside it changes."""
    import matplotlib as mpl

    with mpl.rc_context(_RC):  # type: ignore[arg-type]
        yield


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """`ax`, or the axes of a new figure of `width` × `height` inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    del figure
    return axes


def _wrapped(ax: Axes, text: str, **font: Any) -> str:
    """`text` in lines that fit between the axes' left border and the figure's (or the axes') right one."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    shares = len(figure.axes) > 1 and any(
        other.get_subplotspec() is not None for other in figure.axes if other is not ax
    )
    room = ax.get_window_extent().width if shares else figure.bbox.width - ax.get_window_extent().x0 - 8
    probe = figure.text(0, 0, text, **font)
    columns = max(int(len(text) * room / max(probe.get_window_extent().width, 1)), 16)
    while True:
        lines = fill(text, columns)
        probe.set_text(lines)
        if columns <= 16 or probe.get_window_extent().width <= room:
            break
        columns -= 2
    probe.remove()
    return lines


def finish(ax: Axes, title: str, note: str, alt: str) -> Axes:
    """Sets the finding as title, the evidence as a quiet second line, and keeps the text for screen readers."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # lays the axes out, so that their true width is known
    small = figure.get_size_inches()[0] < 5
    size, note_size = (11.0, 8.6) if small else (12.5, 9.3)
    title_text = _wrapped(ax, title, fontsize=size, fontweight="bold")
    note_text = _wrapped(ax, note, fontsize=note_size)
    lines = note_text.count("\n") + 1
    ax.set_title(
        title_text,
        loc="left",
        pad=8 + note_size * 1.32 * lines,
        color=COLOURS["ink"],
        fontsize=size,
        fontweight="bold",
    )
    ax.annotate(
        note_text, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points",
        ha="left", va="bottom", fontsize=note_size, color=COLOURS["quiet"], linespacing=1.15,
    )  # fmt: skip
    ax.bunny_alt_text = alt  # type: ignore[attr-defined]
    return ax


def legend_below(ax: Axes, columns: int) -> None:
    """One entry per label, under the axes and clear of their label, whatever the axes' height."""
    from matplotlib import transforms

    handles, labels = ax.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure = ax.get_figure(root=True)
    assert figure is not None
    below = transforms.ScaledTranslation(0, -44 / 72, figure.dpi_scale_trans)
    ax.legend(
        unique.values(), unique.keys(), loc="upper left", bbox_to_anchor=(0, 0), ncols=columns, fontsize=9,
        bbox_transform=ax.transAxes + below, handlelength=1.6, columnspacing=1.2, borderaxespad=0,
    )  # fmt: skip


def alt_text(ax: Axes) -> str:
    """What the figure shows, in words, for screen readers and reports."""
    return str(getattr(ax, "bunny_alt_text", ax.get_title(loc="left") or ax.get_title()))


def refusal(ax: Axes, what: str, reason: str) -> Axes:
    """A figure that cannot be drawn says why."""
    ax.set_axis_off()
    ax.text(
        0.5, 0.5, fill(f"{what}: {reason}", 48), transform=ax.transAxes, ha="center", va="center",
        color=COLOURS["quiet"], fontsize=11,
    )  # fmt: skip
    ax.bunny_alt_text = f"{what} could not be drawn: {reason}."  # type: ignore[attr-defined]
    return ax


def token_text(tokens: float) -> str:
    """`4K` for 4,096, `1.5K` for 1,536, `1M` for 1,048,576; other numbers in full."""
    whole = round(tokens)
    if whole >= 2**20 and whole % 2**18 == 0:
        return f"{whole / 2**20:g}M"
    if whole >= 1024 and whole % 256 == 0:
        return f"{whole / 1024:g}K"
    if whole >= 10_000 and whole % 1000 == 0:
        return f"{whole // 1000:,},000"
    return f"{whole:,}"


def token_axis(
    ax: Axes, low: float, high: float, marks: Sequence[float] = (), *, label: str = "prompt tokens"
) -> None:
    """A log2 axis from `low` to `high` with at most seven ticks, on `marks` where they are few."""
    import numpy as np

    ax.set_xscale("log", base=2)
    ax.set_xlim(low, high)
    ticks = [m for m in marks if low <= m <= high]
    span = np.log2(high / low) if high > low else 1.0
    gaps = np.diff(np.log2(ticks)) if len(ticks) > 1 else np.array([9.0])
    if not ticks or len(ticks) > 8 or gaps.min() < span / 12:
        first, last = int(np.ceil(np.log2(low))), int(np.floor(np.log2(high)))
        step = max(1, int(np.ceil((last - first + 1) / 7)))
        ticks = [float(2**e) for e in range(first, last + 1, step)]
    ax.set_xticks(ticks, [token_text(v) for v in ticks])
    ax.minorticks_off()
    short = any("K" in token_text(v) for v in ticks)
    ax.set_xlabel(f"{label}{' (1K = 1,024)' if short else ''}")
