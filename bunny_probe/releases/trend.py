"""A metric over releases as inline SVG: a dot a run with its interval, in words for screen readers as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from bunny_probe.measures import Measured, amount
from bunny_probe.records import content_hash

__all__ = ["Point", "Trend", "trend_svg"]

_WIDTH, _HEIGHT = 380, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 12, 30
_INK, _QUIET, _LINE, _DOT = "#1c2330", "#4d5769", "#cfd6e1", "#00467f"


@dataclass(frozen=True, slots=True)
class Point:
    release: str
    run: str
    told: Measured


@dataclass(frozen=True, slots=True)
class Trend:
    """A metric of one endpoint over its runs, the oldest first; runs without a value are left out."""

    endpoint: str
    name: str
    title: str
    unit: str
    direction: str
    points: tuple[Point, ...]

    @property
    def better(self) -> str:
        words = {"higher": "higher is better", "lower": "lower is better"}
        return words.get(self.direction, "neither way is better")

    def sentence(self) -> str:
        """The latest value with interval and n, and how many runs there are."""
        last = self.points[-1].told
        interval = (
            ""
            if last.value is None
            else f", {last.level:.0%} interval {_bound(last.low, self.unit, bare=True)} to "
            f"{_bound(last.high, self.unit)}"
        )
        runs = f"{len(self.points)} run" + "s" * (len(self.points) > 1)
        return f"{self.points[-1].release}: {last.text()}{interval}, n = {last.n:,}; {runs}, {self.better}."


def _bound(value: float | None, unit: str, *, bare: bool = False) -> str:
    return "no bound" if value is None else amount(value, unit, bare=bare)


def trend_svg(trend: Trend) -> str:
    """The picture; it needs no script, and no font but the page's own."""
    values = [_span(point.told) for point in trend.points]
    bottom, top = _scale([v for span in values for v in span], trend.unit)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - bottom) / (top - bottom))

    count = len(values)
    inner = _WIDTH - _LEFT - _RIGHT - 24

    def x(i: int) -> float:
        return _LEFT + 12 + (inner / 2 if count == 1 else inner * i / (count - 1))

    parts = [_grid(bottom, top, y, trend.unit)]
    line = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, (_, value, _) in enumerate(values))
    parts.append(f'<polyline points="{line}" fill="none" stroke="{_DOT}" stroke-width="1.5" opacity=".45"/>')
    for i, (low, value, high) in enumerate(values):
        told = trend.points[i].told
        left = f"{x(i) - 4:.1f}"
        unbounded = told.value is not None and told.low is not None and told.high is None
        if unbounded or high > low:
            end = f"V{_TOP}m-4 6l4 -6l4 6" if unbounded else f"V{y(high):.1f}M{left} {y(high):.1f}h8"
            parts.append(
                f'<path d="M{left} {y(low):.1f}h8M{x(i):.1f} {y(low):.1f}{end}" '
                f'stroke="{_DOT}" stroke-width="1.4" fill="none"/>'
            )
        hollow = told.value is None  # beyond what was asked
        parts.append(
            f'<circle cx="{x(i):.1f}" cy="{y(value):.1f}" r="4.5" fill="{"#fff" if hollow else _DOT}" '
            f'stroke="{_DOT}" stroke-width="1.5"/>'
        )
    parts.append(_releases(trend, x))
    key = f"t-{content_hash([trend.endpoint, trend.name])[:12]}"  # the same page at every build
    described = escape(f"{trend.title} of {trend.endpoint} over releases. {_rows(trend)}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="{key}" '
        f'font-size="12" fill="{_INK}"><title id="{key}">{described}</title>{"".join(parts)}</svg>'
    )


def _grid(bottom: float, top: float, y: Callable[[float], float], unit: str) -> str:
    return "".join(
        f'<path d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}" stroke="{_LINE}" stroke-width="1"/>'
        f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="{_QUIET}">'
        f"{escape(_tick(value, unit))}</text>"
        for value in _ticks(bottom, top)
    )


def _ticks(bottom: float, top: float) -> list[float]:
    """Round values within the range, three to six of them."""
    rough = (top - bottom) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1.0, 2.0, 2.5, 5.0, 10.0) if size * power >= rough * 0.999)
    first = math.ceil(bottom / step - 1e-9)
    last = math.floor(top / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _releases(trend: Trend, x: Callable[[int], float]) -> str:
    """The first and the last release's name; the table below the picture has them all."""
    ends = [(0, "start"), (len(trend.points) - 1, "end")] if len(trend.points) > 1 else [(0, "middle")]
    parts = []
    for i, anchor in ends:
        place = {"start": _LEFT, "end": _WIDTH - _RIGHT, "middle": x(0)}[anchor]
        name = escape(_clip(trend.points[i].release))
        parts.append(f'<text x="{place:.1f}" y="{_HEIGHT - 9}" text-anchor="{anchor}">{name}</text>')
    return "".join(parts)


def _rows(trend: Trend) -> str:
    shown = trend.points[-12:]
    told = [f"{p.release} {_value(p.told)}" for p in shown]
    return ("The latest 12: " if len(trend.points) > 12 else "") + "; ".join(told) + f"; {trend.better}."


def _value(told: Measured) -> str:
    if told.value is None:
        return told.text()
    low, high = amount(told.low, told.unit, bare=True), amount(told.high, told.unit, bare=True)
    return f"{amount(told.value, told.unit)} ({low} to {high}, n = {told.n:,})"


def _span(told: Measured) -> tuple[float, float, float]:
    """(low, value, high); an open side ends at the value."""
    value = told.value if told.value is not None else told.probed_to or 0.0
    low, high = (value if bound is None else bound for bound in (told.low, told.high))
    return min(low, value), value, max(high, value)


def _scale(values: Sequence[float], unit: str) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = max(0.08 * (high - low), 0.03 * abs(high)) or 1.0
    bottom, top = max(low - pad, 0.0), high + pad  # no metric is below 0
    return (bottom, min(top, 1.0)) if unit == "share" else (bottom, top)


def _tick(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{value:.3g} s"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _clip(text: str, limit: int = 24) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
