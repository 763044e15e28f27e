"""Token entropy against length, depth or stress: the band between the two bounds, each with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, new_axes, refusal, style, token_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.entropy import EntropyFit

__all__ = ["entropy_band"]


def entropy_band(fit: EntropyFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Mean lower and upper bound; the truth lies in the shaded band between them."""
    with style():
        ax = new_axes(ax, width, 4.1 if width > 5 else 3.5)
        if fit.status == "refused" or not fit.levels:
            return refusal(ax, "Entropy", fit.reason)
        numeric = fit.by != "variant"
        x = np.array([float(v.at) for v in fit.levels]) if numeric else np.arange(len(fit.levels), dtype=float)
        low = np.array([v.low for v in fit.levels])
        high = np.array([v.high for v in fit.levels])
        if numeric and x.size > 1:
            ax.fill_between(x, low, high, color=COLOURS["main"], alpha=0.14, lw=0, label="the truth lies here")
        for name, colour, marker, label in (
            ("low", COLOURS["main"], "o", "lower bound: unseen mass in one token"),
            ("high", COLOURS["second"], "s", "upper bound: unseen mass spread"),
        ):
            y = low if name == "low" else high
            from_ = np.array([_or(getattr(v, f"{name}_from"), getattr(v, name)) for v in fit.levels])
            to = np.array([_or(getattr(v, f"{name}_to"), getattr(v, name)) for v in fit.levels])
            ax.errorbar(
                x, y, yerr=np.maximum([y - from_, to - y], 0), color=colour, marker=marker, ms=5.5, capsize=3,
                lw=1.8 if numeric else 0, elinewidth=1.3, label=label,
            )  # fmt: skip
        if not numeric:
            ax.vlines(x, low, high, color=COLOURS["main"], alpha=0.25, lw=9)
            ax.set_xticks(x, [str(v.at) or "plain" for v in fit.levels], rotation=25, ha="right")
            ax.set_xlim(-0.6, x.size - 0.4)
            ax.set_xlabel("variant")
        elif fit.by == "length_tokens":
            token_axis(ax, x[0] * 0.85, x[-1] * 1.18, x.tolist())
        else:
            ax.set_xlabel("depth of the fact (0 = start, 1 = end)")
            ax.set_xlim(-0.05, 1.05)
        top = max(np.nanmax(high), *[_or(v.high_to, v.high) for v in fit.levels])
        ax.set_ylim(0, top * 1.32 + 0.02)
        ax.set_ylabel("entropy (nats)")
        ax.legend(loc="upper left", fontsize=9, handlelength=1.6, labelspacing=0.25, borderaxespad=0.2)
        return finish(ax, _title(fit), _note(fit), _alt(fit))


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _title(fit: EntropyFit) -> str:
    token = "first answer token" if fit.token == "first" else "answer"
    a, b = fit.slope_low, fit.slope_high
    if a is not None and b is not None and None not in (a.low, a.high, b.low, b.high):
        over = {"length_tokens": "as the context grows", "depth": "as the fact moves to the end"}[fit.by]
        assert a.low is not None and b.low is not None and a.high is not None and b.high is not None  # noqa: PT018
        if a.low > 0 and b.low > 0:
            return f"The {token} grows less sure {over}"
        if a.high < 0 and b.high < 0:
            return f"The {token} grows surer {over}"
        return f"No clear change of the {token}'s entropy {over}"
    return f"Entropy of the {token} between {fit.low.text()} and {fit.high.text()} nats"


def _note(fit: EntropyFit) -> str:
    slope = ""
    if fit.slope_low is not None and fit.by == "length_tokens":
        slope = f"; {fit.slope_low.text()} nats a doubling (lower bound)"
    sizes = [v.n for v in fit.levels]
    per = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"n = {fit.counts.used:,} answers, {per} a point{slope}; bars {fit.level:.0%}"


def _alt(fit: EntropyFit) -> str:
    points = "; ".join(f"{v.at}: {v.low:.2f} to {v.high:.2f} nats (n={v.n})" for v in fit.levels[:16])
    return f"Entropy bounds by {fit.by.replace('_', ' ')}. {fit.sentence()} Points: {points}."
