"""Latency as a distribution, and time to first token against length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

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
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["latency_ecdf", "ttft_by_length"]

Floats = npt.NDArray[np.float64]

_NAMES = {
    "latency_s": "time to the end of the answer",
    "ttft_s": "time to first token",
    "gap_p50_s": "median gap between arrivals",
    "gap_max_s": "largest gap between arrivals",
}


def _timed(frame: pd.DataFrame, column: str) -> tuple[Floats, Floats, int]:
    """(seconds, prompt tokens, rows left out because the client was saturated)."""
    if column not in frame.columns or len(frame) == 0:
        return np.empty(0), np.empty(0), 0
    value = frame[column].to_numpy(dtype=float, na_value=np.nan)
    good = np.isfinite(value) & (value > 0)
    if "answered" in frame.columns:
        good &= frame["answered"].to_numpy(dtype=bool, na_value=False)
    dropped = 0
    if "timing_valid" in frame.columns:
        valid = frame["timing_valid"].to_numpy(dtype=bool, na_value=True)
        dropped = int((good & ~valid).sum())
        good &= valid
    length = (
        frame["length_tokens"].to_numpy(dtype=float, na_value=np.nan)
        if "length_tokens" in frame.columns
        else np.full(len(frame), np.nan)
    )
    return value[good], length[good], dropped


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def _span(value: Floats, q: float) -> str:
    """A quantile's order-statistic interval in words."""
    from bunny_probe.fits.proportions import quantile_ranks

    ordered = np.sort(value)
    low, high = quantile_ranks(value.size, q)
    ends = ["unbounded" if rank is None else _seconds(float(ordered[rank])) for rank in (low, high)]
    return f"[{ends[0]}, {ends[1]}]"


def latency_ecdf(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    column: str = "latency_s",
    width: float = 7.2,
    groups: int = 5,
) -> Axes:
    """Empirical distribution of a time, one line per length (at most `groups`), on a logarithmic axis."""
    name = _NAMES.get(column, column)
    with style():
        ax = new_axes(ax, width, 4.1)
        value, length, dropped = _timed(frame, column)
        if value.size < 2:
            return refusal(ax, name.capitalize(), f"{value.size} timed answers")
        known = np.unique(length[np.isfinite(length)])
        chosen = (
            known if known.size <= groups else known[np.linspace(0, known.size - 1, groups).round().astype(int)]
        )
        import matplotlib as mpl

        parts: list[tuple[str, Floats]] = (
            [(token_text(v), value[length == v]) for v in chosen] if known.size > 1 else []
        )
        parts = parts or [("all", value)]
        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.82, len(parts)))
        styles = ["-", (0, (6, 2)), "-.", (0, (1, 1)), (0, (4, 1, 1, 1, 1, 1))]
        for i, (label, part) in enumerate(parts):
            ordered = np.sort(part)
            steps = np.arange(1, ordered.size + 1) / ordered.size
            ax.step(
                np.concatenate([ordered[:1], ordered]), np.concatenate([[0], steps]), where="post",
                color=shades[i], ls=styles[i % len(styles)], label=f"{label} (n={ordered.size:,})",
            )  # fmt: skip
        p50, p90 = np.quantile(value, [0.5, 0.9])
        ax.set_xscale("log")
        _second_ticks(ax, value)
        ax.set_ylim(0, 1.02)
        ax.set_ylabel("share of answers not slower")
        ax.set_xlabel(f"{name} (log scale)")
        if len(parts) > 1 and width < 5:
            legend_below(ax, 2)
        else:
            ax.legend(
                title="prompt tokens" if len(parts) > 1 else None, loc="best", fontsize=9, title_fontsize=9
            )
        note = (
            f"n = {value.size:,} answers; median {_span(value, 0.5)}, P90 {_span(value, 0.9)} (95% intervals)"
        )
        note += f"; {dropped:,} left out: the client was saturated" if dropped else ""
        title = f"Half of the answers take up to {_seconds(p50)}, nine in ten up to {_seconds(p90)}"
        if column == "ttft_s":
            title = f"First token within {_seconds(p50)} for half, {_seconds(p90)} for nine in ten"
        lines = "; ".join(
            f"{label}: median {_seconds(float(np.median(part)))}, n={part.size}" for label, part in parts
        )
        return finish(
            ax, title, note, f"Empirical distribution of the {name}. {title}. {note}. By length: {lines}."
        )


def _second_ticks(ax: Axes, value: Floats) -> None:
    low, high = float(value.min()), float(value.max())
    steps = [m * 10.0**e for e in range(-4, 5) for m in (1, 2, 3, 5)]
    ticks = [s for s in steps if low * 0.9 <= s <= high * 1.12]
    while len(ticks) > 7:
        ticks = ticks[::2]
    if len(ticks) < 2:
        ticks = [low, high]
    ax.set_xticks(ticks, [_seconds(t) for t in ticks])
    ax.minorticks_off()
    ax.set_xlim(low * 0.9, high * 1.12)


def ttft_by_length(frame: pd.DataFrame, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Time to first token against prompt tokens: each answer, and the median with P10 to P90 by length."""
    with style():
        ax = new_axes(ax, width, 4.1 if width > 5 else 3.5)
        value, length, dropped = _timed(frame, "ttft_s")
        use = np.isfinite(length)
        value, length = value[use], length[use]
        lengths = np.unique(length)
        if value.size < 2 or lengths.size < 2:
            return refusal(ax, "Time to first token", f"{value.size} timed answers at {lengths.size} lengths")
        shown = value.size if value.size <= 3000 else 3000
        pick = np.linspace(0, value.size - 1, shown).astype(int)
        ax.plot(length[pick], value[pick], ".", color=COLOURS["sixth"], alpha=0.5, ms=5, label="one answer")
        if lengths.size > 24:
            edges = np.quantile(length, np.linspace(0, 1, 17)[1:-1])
            code = np.searchsorted(np.unique(edges), length)
        else:
            code = np.searchsorted(lengths, length)
        groups = [(float(np.exp(np.log(length[code == c]).mean())), value[code == c]) for c in np.unique(code)]
        x = np.array([g[0] for g in groups])
        q = np.array([np.quantile(g[1], [0.1, 0.5, 0.9]) for g in groups])
        ax.errorbar(
            x, q[:, 1], yerr=[q[:, 1] - q[:, 0], q[:, 2] - q[:, 1]], color=COLOURS["main"], marker="o", ms=5.5,
            capsize=3, elinewidth=1.4, label="median, P10 to P90",
        )  # fmt: skip
        token_axis(ax, lengths[0] * 0.85, lengths[-1] * 1.18, lengths.tolist())
        ax.set_yscale("log")
        low, high = float(value.min()), float(value.max())
        steps = [m * 10.0**e for e in range(-4, 5) for m in (1, 2, 5)]
        ticks = [s for s in steps if low * 0.7 <= s <= high * 1.4]
        ax.set_yticks(ticks[:: 1 + len(ticks) // 8], [_seconds(t) for t in ticks[:: 1 + len(ticks) // 8]])
        ax.minorticks_off()
        ax.set_ylabel("time to first token (log scale)")
        ax.legend(loc="upper left", fontsize=9)
        speed = (x[-1] - x[0]) / max(q[-1, 1] - q[0, 1], 1e-9)
        title = (
            f"First token after {_seconds(q[0, 1])} at {token_text(lengths[0])}, "
            f"{_seconds(q[-1, 1])} at {token_text(lengths[-1])}"
        )
        note = f"n = {value.size:,} answers"
        if q[-1, 1] > q[0, 1]:
            note += f"; about {speed:,.0f} prompt tokens a second"
        note += f"; {dropped:,} left out: the client was saturated" if dropped else ""
        points = "; ".join(
            f"{place:,.0f} tokens median {_seconds(m)}, n={part.size}"
            for (place, part), m in zip(groups, q[:, 1], strict=True)
        )
        return finish(ax, title, note, f"Time to first token against prompt length. {title}. {points}.")
