"""Where the money goes and what moves it: waterfall, tornado, options side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from textwrap import fill
from typing import TYPE_CHECKING

from bunny_probe.cost import Difference
from bunny_probe.cost.money import Scale, money, scale_for
from bunny_probe.plots._look import COLOURS, finish, legend_below, new_axes, refusal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.cost import Choice, Tornado, Yearly

__all__ = [
    "cost_style",
    "drawable",
    "is_narrow",
    "options",
    "shown",
    "thousands",
    "tornado",
    "unit_label",
    "waterfall",
]

# Fonts that hold Chinese, the preferred first; the first that is installed is added behind the house font
_CHINESE = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "Microsoft YaHei",
    "PingFang SC", "Hiragino Sans GB", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei",
    "Droid Sans Fallback", "Arial Unicode MS",
)  # fmt: skip
_UP, _DOWN, _SUM = COLOURS["second"], COLOURS["main"], "#555555"


@lru_cache(maxsize=1)
def chinese_font() -> str | None:
    """An installed font that draws 万, or None."""
    from matplotlib import font_manager

    paths = {entry.name: entry.fname for entry in font_manager.fontManager.ttflist}
    for name in _CHINESE:
        if name in paths and ord("万") in font_manager.get_font(paths[name]).get_charmap():
            return name
    return None


@contextmanager
def cost_style() -> Iterator[None]:
    """The house style, with a font for 万 behind it where one is installed."""
    import matplotlib as mpl

    with style():
        family = [*mpl.rcParams["font.sans-serif"]]
        chinese = chinese_font()
        if chinese:
            family.insert(-1, chinese)
        with mpl.rc_context({"font.sans-serif": family}):
            yield


def unit_label(scale: Scale) -> str:
    """`万 CNY`, or `×10⁴ CNY` where no installed font has the character."""
    word = scale.word if drawable(scale.word) else "×10⁴"
    return f"{word} {scale.currency}".strip()


def drawable(text: str) -> bool:
    """Whether the fonts of a cost figure have every character of `text`."""
    return bool(text.isascii() or chinese_font() or all(ord(c) in _house_glyphs() for c in text))


@lru_cache(maxsize=1)
def _house_glyphs() -> frozenset[int]:
    from matplotlib import font_manager

    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())


def shown(text: str, otherwise: str) -> str:
    """`text`, or `otherwise` where it cannot be drawn, or its drawable characters where neither can."""
    for candidate in (text, otherwise):
        if drawable(candidate):
            return candidate
    return "".join(c if ord(c) in _house_glyphs() else "?" for c in otherwise)


def waterfall(result: Difference | Yearly, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """The parts of a yearly cost, or of a difference, adding up to the total at the stated values.

    Whiskers are the interval of each part, and of the total, over the draws.
    """
    with cost_style():
        rows = (*result.parts, result.total)
        axes = new_axes(ax, width, 1.9 + 0.55 * len(rows))
        scale = scale_for([v for row in rows for v in (row.stated, row.high, row.low)], result.currency)
        ends, reach = [0.0], [0.0]
        start = 0.0
        for i, row in enumerate(rows):
            whole = row is result.total
            left = 0.0 if whole else start
            colour = _SUM if whole else _UP if row.stated >= 0 else _DOWN
            value = row.stated / scale.factor
            axes.barh(i, value, left=left, color=colour, height=0.58, zorder=2)
            if not row.certain:
                low, high = (left + end / scale.factor for end in (row.low, row.high))
                axes.plot([low, high], [i, i], color=COLOURS["ink"], lw=1.4, zorder=3, solid_capstyle="butt")
                for end in (low, high):
                    axes.plot([end, end], [i - 0.13, i + 0.13], color=COLOURS["ink"], lw=1.4, zorder=3)
                reach += [low, high]
            after = left + value
            if not whole:
                axes.plot([after, after], [i, i + 1], color=COLOURS["quiet"], lw=0.9, ls=":", zorder=1)
                start = after
            ends.append(after)
            edge = max(left, after, *((left + row.high / scale.factor,) if not row.certain else ()))
            axes.annotate(
                scale.number(row.stated),
                (edge, i),
                (7, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
            )
        low, high = min(*ends, *reach), max(*ends, *reach)
        room = high - low or 1.0
        axes.set_xlim(low - (0.02 * room if low < 0 else 0), high + 0.2 * room)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.axvline(0, color="#9a9a9a", lw=0.9, zorder=1)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"{unit_label(scale)} a year")
        thousands(axes)
        title = _waterfall_title(result, scale)
        certain = result.total.certain
        whiskers = f"whiskers: {result.level:.0%} interval over {result.draws:,} draws"
        note = f"bars: at the stated values; {'no input was given an uncertainty' if certain else whiskers}"
        parts = "; ".join(f"{row.name} {money(row.stated, result.currency, scale)}" for row in rows)
        return finish(axes, title, note, f"Waterfall of a yearly cost. {result.sentence()} {parts}.")


def _waterfall_title(result: Difference | Yearly, scale: Scale) -> str:
    total = result.total.stated
    largest = max(result.parts, key=lambda row: abs(row.stated))
    amount = f"{scale.number(abs(total))} {unit_label(scale)}"
    if isinstance(result, Difference):
        one, other = shown(result.first, "one"), shown(result.second, "the other")
        more = "more" if total >= 0 else "less"
        return f"{one} costs {amount} a year {more} than {other}, most of it through {largest.name}"
    return f"{shown(result.label, result.option)}: {amount} a year, most of it {largest.name}"


def tornado(result: Tornado, ax: Axes | None = None, *, most: int = 10, width: float = 7.2) -> Axes:
    """Each input moved over its interval alone, the widest first; `most` bars at most."""
    with cost_style():
        bars = result.bars[:most]
        axes = new_axes(ax, width, 1.9 + 0.42 * max(len(bars), 2))
        if not bars:
            return refusal(axes, "Tornado", "no input was given an uncertainty")
        scale = scale_for([v for bar in bars for v in (bar.at_low, bar.at_high)], result.currency)
        centre = result.stated / scale.factor
        for i, bar in enumerate(bars):
            for end, colour, name in (
                (bar.at_low, COLOURS["sixth"], "input at its low end"),
                (bar.at_high, COLOURS["main"], "input at its high end"),
            ):
                axes.barh(
                    i, end / scale.factor - centre, left=centre, color=colour, height=0.62,
                    label=name if i == 0 else None, zorder=2,
                )  # fmt: skip
            right = max(bar.at_low, bar.at_high, result.stated) / scale.factor
            axes.annotate(
                f"{bar.alone:.0%}", (right, i), (6, 0), textcoords="offset points", va="center", fontsize=9.5,
                color=COLOURS["quiet"],
            )  # fmt: skip
        edges = [v / scale.factor for bar in bars for v in (bar.at_low, bar.at_high)] + [centre]
        room = max(edges) - min(edges) or 1.0
        axes.set_xlim(min(edges) - 0.05 * room, max(edges) + 0.13 * room)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.axvline(centre, color=COLOURS["ink"], lw=1.2, zorder=3)
        if min(edges) < 0 < max(edges):
            axes.axvline(0, color=COLOURS["ink"], lw=1.0, ls="--", zorder=1)
        narrow = is_narrow(axes)
        labels = [
            shown(bar.label, bar.name if drawable(bar.name) else f"input {i + 1}") for i, bar in enumerate(bars)
        ]
        axes.set_yticks(range(len(bars)), [fill(label, 16) if narrow else fill(label, 30) for label in labels])
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"total, {unit_label(scale)} a year")
        thousands(axes)
        legend_below(axes, 1 if narrow else 2)
        title = f"{shown(bars[0].label, 'the first input')} moves the total most"
        title = title[0].upper() + title[1:]
        rest = len(result.bars) - most
        more = f"; {rest} smaller {'one' if rest == 1 else 'ones'} not shown" if rest > 0 else ""
        note = (
            f"each input alone over its {result.level:.0%} interval, the others at their stated values; "
            f"grey: share of the variance{more}"
        )
        rows = "; ".join(
            f"{bar.label} {scale.number(bar.at_low)} to {scale.number(bar.at_high)} {scale.unit}"
            for bar in bars
        )
        return finish(axes, title, note, f"Tornado chart. {result.sentence()} {rows}.")


def options(result: Choice, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Every option's yearly cost as a dot with two intervals: as planned, and over the ranges."""
    with cost_style():
        axes = new_axes(ax, width, 2.0 + 0.75 * len(result.standings))
        scale = scale_for(
            [v for s in result.standings for v in (s.ranged.high, s.planned.stated)], result.currency
        )
        ranges = f"over the ranges of {' and '.join(result.varied)}"
        for i, item in enumerate(result.standings):
            ranged, planned = item.ranged, item.planned
            axes.plot(
                [ranged.low / scale.factor, ranged.high / scale.factor], [i, i], color=COLOURS["sixth"], lw=9,
                solid_capstyle="butt", label=ranges if i == 0 and result.varied else None, zorder=2,
            )  # fmt: skip
            axes.plot(
                [planned.low / scale.factor, planned.high / scale.factor], [i, i], color=COLOURS["main"], lw=4,
                solid_capstyle="butt", label="load and length as stated" if i == 0 else None, zorder=3,
            )  # fmt: skip
            axes.plot(
                planned.stated / scale.factor, i, "o", ms=8, color=COLOURS["second"], mec="white", mew=1.2,
                label="stated values" if i == 0 else None, ls="none", zorder=4,
            )  # fmt: skip
        top = max(max(s.ranged.high, s.planned.high) for s in result.standings) / scale.factor
        axes.set_xlim(0, top * 1.08 or 1.0)
        axes.set_ylim(len(result.standings) - 0.4, -0.6)
        narrow = is_narrow(axes)
        names = [shown(s.label, s.option) for s in result.standings]
        axes.set_yticks(range(len(names)), [fill(name, 14 if narrow else 22) for name in names])
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"{unit_label(scale)} a year")
        thousands(axes)
        legend_below(axes, 1 if narrow else 3)
        cheap, flat = (shown(s.label, s.option) for s in (result.cheapest, result.flattest))
        same = result.cheapest is result.flattest
        title = f"{cheap} is the cheapest as planned{' and' if same else f', {flat}'} the flattest"
        note = f"{result.level:.0%} intervals over {result.draws:,} draws, the same draws for every option"
        rows = "; ".join(
            f"{s.option} {money(s.planned.stated, result.currency, scale)}, over the ranges "
            f"{scale.number(s.ranged.low)} to {scale.number(s.ranged.high)}"
            for s in result.standings
        )
        return finish(axes, title, note, f"Dot plot of yearly costs. {result.sentence()} {rows}.")


def thousands(axes: Axes) -> None:
    """Group the digits of a linear horizontal axis."""
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}".replace("-", "−"))


def is_narrow(axes: Axes) -> bool:
    """Whether the figure is drawn for a phone."""
    figure = axes.get_figure(root=True)
    return figure is not None and bool(figure.get_size_inches()[0] < 5)
