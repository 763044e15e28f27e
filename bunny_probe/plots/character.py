"""What kind of model is this: agreement over length, the portrait on two axes, and entropy over the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import (
    COLOURS,
    finish,
    legend_below,
    new_axes,
    refusal,
    style,
    token_axis,
    token_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.agreement import AgreementFit
    from bunny_probe.fits.entropy import EntropyFit

__all__ = ["consistency_by_length", "entropy_map", "portrait", "setting_curve"]

_INKS = ("main", "second", "third", "fourth", "fifth", "sixth")
_MARKS = ("o", "s", "^", "D", "v", "P")
Models = Mapping[str, "AgreementFit"]


def consistency_by_length(models: Models, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Share of pairs of samples that agree against prompt length, a line a model."""
    with style():
        ax = new_axes(ax, width, 4.2 if width > 5 else 3.8)
        shown = {name: fit for name, fit in models.items() if fit.by_length}
        if not shown:
            return refusal(ax, "Agreement over length", "no question of a stated length was asked twice")
        lengths = sorted({p.length for fit in shown.values() for p in fit.by_length})
        for i, (name, fit) in enumerate(shown.items()):
            shift = 2 ** ((i - (len(shown) - 1) / 2) * 0.05)
            x = [p.length * shift for p in fit.by_length]
            y, low, high = (
                np.array([_or(getattr(p.consistency, side)) for p in fit.by_length])
                for side in ("value", "low", "high")
            )
            ax.errorbar(
                x, y, yerr=np.maximum([y - low, high - y], 0), color=COLOURS[_INKS[i % 6]], ms=6, capsize=3,
                marker=_MARKS[i % 6], lw=1.8, elinewidth=1.2, label=name,
            )  # fmt: skip
        ax.set_ylim(-0.03, 1.05)
        ax.set_ylabel("pairs of samples that agree")
        token_axis(ax, lengths[0] * 0.8, lengths[-1] * 1.25, lengths)
        if len(shown) > 1:
            legend_below(ax, 2 if width > 5 else 1)
        first = next(iter(shown.values())).by_length
        sizes = [p.consistency.n for fit in shown.values() for p in fit.by_length]
        title = (
            f"Samples agree in {first[0].consistency.value:.2f} of pairs at {token_text(first[0].length)} "
            f"tokens, {first[-1].consistency.value:.2f} at {token_text(first[-1].length)}"
        )
        note = f"{_sizes(sizes)} questions a point; bars 95%"
        points = "; ".join(
            f"{name} {p.length:,.0f} tokens {p.consistency.text()} n={p.consistency.n}"
            for name, fit in shown.items()
            for p in fit.by_length
        )
        return finish(ax, title, note, f"Agreement of samples against length. {points}.")


def portrait(models: Models, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Penalty sensitivity (right: loses more) against heat resilience (up: keeps more), a cross a model."""
    with style():
        ax = new_axes(ax, width, 5.0 if width > 5 else 4.4)
        shown = [
            (name, fit.sensitivity, fit.resilience)
            for name, fit in models.items()
            if fit.sensitivity is not None and fit.resilience is not None
        ]
        if not shown:
            return refusal(
                ax, "Portrait", "no model was asked at two temperatures and two repetition penalties"
            )
        for i, (name, x, y) in enumerate(shown):
            colour, xv, yv = COLOURS[_INKS[i % 6]], _or(x.value), _or(y.value)
            ax.plot([_or(x.low, xv), _or(x.high, xv)], [yv, yv], color=colour, lw=1.6)
            ax.plot([xv, xv], [_or(y.low, yv), _or(y.high, yv)], color=colour, lw=1.6)
            ax.plot([xv], [yv], _MARKS[i % 6], color=colour, ms=9, label=name, zorder=4)
        ax.axhline(1, color="#9a9a9a", lw=0.9)
        ax.axvline(0, color="#9a9a9a", lw=0.9)
        ax.set_ylim(bottom=min(-0.03, ax.get_ylim()[0]))
        ax.set_xlabel("score lost per unit of repetition penalty")
        ax.set_ylabel("score kept at the highest temperature")
        legend_below(ax, 2 if width > 5 else 1)
        name, x, y = shown[0]
        kept = f"{name} keeps {_or(y.value):.0%} of its score when hot"
        title = f"{kept} and loses {_or(x.value):.2f} per unit of penalty"
        note = (
            f"n = {min(y.n for _, _, y in shown)} pairs or more a model; crosses 95%; grey lines: nothing lost"
        )
        points = "; ".join(f"{n} lost {a.text()} kept {b.text()} (n={b.n})" for n, a, b in shown)
        return finish(ax, title, note, f"Portrait on two axes. {points}.")


def setting_curve(models: Models, ax: Axes | None = None, *, setting: str, width: float = 7.2) -> Axes:
    """Score against a decoding setting ("temperature" or "penalty"), relative to its mildest value."""
    name = {"temperature": "temperature", "penalty": "repetition penalty"}[setting]
    with style():
        ax = new_axes(ax, width, 3.9 if width > 5 else 3.6)
        shown = {k: effects for k, fit in models.items() if (effects := getattr(fit, setting))}
        if not shown:
            return refusal(ax, f"Effect of {name}", "fewer than five questions were asked at two values")
        step = max(e.value for effects in shown.values() for e in effects) * 0.012
        for i, (label, effects) in enumerate(shown.items()):
            shift = (i - (len(shown) - 1) / 2) * step
            x = [effects[0].against, *(e.value + shift for e in effects)]
            y = np.array([0.0, *(e.difference for e in effects)])
            low = np.array([0.0, *(e.low for e in effects)])
            high = np.array([0.0, *(e.high for e in effects)])
            ax.errorbar(
                x, y, yerr=np.maximum([y - low, high - y], 0), color=COLOURS[_INKS[i % 6]], ms=6, capsize=3,
                marker=_MARKS[i % 6], lw=1.8, elinewidth=1.2, label=label,
            )  # fmt: skip
        ax.axhline(0, color="#9a9a9a", lw=1)
        ax.set_xlabel(name)
        ax.set_ylabel("change of the score")
        if len(shown) > 1:
            legend_below(ax, 2 if width > 5 else 1)
        last = next(iter(shown.values()))[-1]
        title = f"At {name} {last.value:g} the score moves by {last.difference:+.2f}"
        sizes = [e.pairs for effects in shown.values() for e in effects]
        note = f"{_sizes(sizes)} pairs a point, against {last.against:g} on the same; bars 95%"
        points = "; ".join(
            f"{k} {e.value:g}: {e.difference:+.2f} [{e.low:+.2f}, {e.high:+.2f}]"
            for k, effects in shown.items()
            for e in effects
        )
        return finish(ax, title, note, f"Change of the score with {name}. {points}.")


def entropy_map(
    levels: Mapping[float, EntropyFit], ax: Axes | None = None, *, width: float = 7.2
) -> Axes:  # fmt: skip
    """Lower bound of the entropy by depth (rows) and length (columns); each cell with its bounds and n."""
    import matplotlib as mpl

    with style():
        lengths = sorted(x for x, fit in levels.items() if fit.levels)
        depths = sorted({float(v.at) for x in lengths for v in levels[x].levels})
        ax = new_axes(ax, width, 1.75 + max(0.62 * max(len(depths), 2), 1.6))
        if not lengths:
            reason = next((fit.reason for fit in levels.values()), "no probe has a depth and a length")
            return refusal(ax, "Entropy map", reason)
        value = np.full((len(depths), len(lengths)), np.nan)
        words: dict[tuple[int, int], tuple[str, str]] = {}
        for j, length in enumerate(lengths):
            for v in levels[length].levels:
                i = depths.index(float(v.at))
                value[i, j] = v.low
                words[i, j] = (f"{v.low:.2f}–{v.high:.2f}", f"n={v.n}")
        top = max(float(np.nanmax(value)), 0.5)
        colours = mpl.colormaps["cividis"]
        ax.pcolormesh(
            np.arange(len(lengths) + 1), np.arange(len(depths) + 1), np.ma.masked_invalid(value), cmap=colours,
            vmin=0, vmax=top, edgecolors="white", linewidth=1.5,
        )  # fmt: skip
        for (i, j), (bounds, size) in words.items():
            red, green, blue, _ = colours(value[i, j] / top)
            ink = "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.42 else "white"
            small = width / len(lengths) < 1.2
            ax.text(
                j + 0.5, i + 0.38, bounds, ha="center", va="center", color=ink, fontsize=8 if small else 10.5
            )
            ax.text(j + 0.5, i + 0.72, size, ha="center", va="center", color=ink, fontsize=7 if small else 8)
        ax.grid(False)
        ax.invert_yaxis()
        ax.set_xticks(np.arange(len(lengths)) + 0.5, [token_text(v) for v in lengths])
        ax.set_yticks(np.arange(len(depths)) + 0.5, [f"{d:g}" for d in depths])
        ax.tick_params(length=0)
        ax.set_xlabel("prompt tokens (1K = 1,024)")
        ax.set_ylabel("depth (0 = start)")
        ax.spines[:].set_visible(False)
        place = np.unravel_index(int(np.nanargmax(value)), value.shape)
        title = (
            f"Least sure at depth {depths[place[0]]:g}, {token_text(lengths[place[1]])} tokens: "
            f"at least {value[place]:.2f} nats"
        )
        if float(np.nanmax(value) - np.nanmin(value)) < 0.01:
            title = f"As sure at every place: at least {value[place]:.2f} nats"
        n = sum(fit.counts.used for fit in levels.values())
        note = f"n = {n:,} answers; a cell: mean lower and upper bound in nats; colour: the lower one"
        cells = "; ".join(
            f"depth {depths[i]:g}, {lengths[j]:,.0f} tokens {w[0]} ({w[1]})"
            for (i, j), w in sorted(words.items())
        )
        return finish(ax, title, note, f"Map of entropy bounds by depth and length. {cells}.")


def _sizes(n: list[int]) -> str:
    return f"{n[0]}" if min(n) == max(n) else f"{min(n)} to {max(n)}"


def _or(value: float | None, other: float = float("nan")) -> float:
    return other if value is None else value
