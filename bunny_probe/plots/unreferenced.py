"""The share of facts that go unused against their place, with the saturating curve through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, new_axes, refusal, style, token_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.unreferenced import UnreferencedFit

__all__ = ["unreferenced_curve"]


def unreferenced_curve(fit: UnreferencedFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Misses by position with Wilson intervals, and a + b(1 - e^(-k·position)); dashed when a constant does.

    The curve stands inside the probed range alone: its start at position 0 is an extrapolation.
    """
    with style():
        ax = new_axes(ax, width, 4.1 if width > 5 else 3.5)
        if fit.status == "refused" or not fit.cells:
            return refusal(ax, "Unreferenced share", fit.reason)
        x = np.array([c.x for c in fit.cells])
        fits_well = "no curve fits" not in fit.reason
        start, rise, scale = fit.start.value, fit.rise.value, fit.scale.value
        if start is not None and rise is not None and scale is not None:
            at = np.geomspace(x[0], x[-1], 120)
            ax.plot(
                at, start + rise * (1 - np.exp(-at / scale)), color=COLOURS["main"],
                ls="-" if fit.rising and fits_well else (0, (4, 3)), label="a + b(1 − e^(−k·position))",
            )  # fmt: skip
        bars = np.abs([[c.score - c.low for c in fit.cells], [c.high - c.score for c in fit.cells]])
        ax.errorbar(
            x, [c.score for c in fit.cells], yerr=bars, fmt="o", ms=4.5, lw=1.2, capsize=3, color=COLOURS["ink"]
        )
        ax.set_ylim(-0.04, 1.04)
        ax.set_ylabel("share left unused")
        token_axis(ax, x[0] * 0.8, x[-1] * 1.25, x.tolist(), label="tokens before the fact")
        ax.legend(loc="upper left", fontsize=9)
        title = (
            f"Unused facts rise by {rise:.2f} over about {scale:,.0f} tokens"
            if fit.rising and rise is not None and scale is not None
            else "The share of unused facts does not depend on their place as far as these data tell"
        )
        if not fits_well:
            title = "No curve that rises to a ceiling describes the unused facts: read the points"
        sizes = [c.n for c in fit.cells]
        note = (
            f"n = {fit.counts.used:,} answers, {fit.counts.clusters:,} documents, {min(sizes)} to {max(sizes)} "
            f"a place; bars {fit.level:.0%}"
            + ("" if fit.rising and fits_well else "; dashed: not supported by the data")
        )
        cells = "; ".join(f"{c.x:,.0f} tokens {c.score:.2f} (n={c.n})" for c in fit.cells[:24])
        return finish(ax, title, note, f"Share of unused facts by position. {fit.sentence()} Cells: {cells}.")
