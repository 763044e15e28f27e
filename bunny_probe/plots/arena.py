"""Several models side by side: the parts of a ranking, quality against time, and preferences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, legend_below, new_axes, refusal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bunny_probe.fits.bradley_terry import BradleyTerryFit
    from bunny_probe.fits.ranking import RankingFit

__all__ = ["pareto_front", "preference_dots", "ranking_dots", "ranking_radar"]

_PARTS = (
    ("speed", "fifth", "s"),
    ("quality", "third", "^"),
    ("stability", "fourth", "D"),
    ("total", "main", "o"),
)
_INKS = ("main", "second", "third", "fourth", "fifth", "sixth")
_MARKS = ("o", "s", "^", "D", "v", "P")


def ranking_dots(fit: RankingFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """A row a model: speed, quality, stability and the weighted total, each with its interval."""
    with style():
        ax = new_axes(ax, width, 1.9 + 0.72 * max(len(fit.rows), 2))
        if fit.status == "refused" or not fit.rows:
            return refusal(ax, "Ranking", fit.reason)
        for i, row in enumerate(fit.rows):
            for j, (part, colour, mark) in enumerate(_PARTS):
                e, y = getattr(row, part), i + (j - 1.5) * 0.19
                ax.plot([e.low, e.high], [y, y], color=COLOURS[colour], lw=2.4 if part == "total" else 1.4)
                ax.plot(
                    [e.value], [y], mark, color=COLOURS[colour], ms=8 if part == "total" else 5.5, label=part
                )
        ax.set_yticks(range(len(fit.rows)), [_short(r.name, width) for r in fit.rows])
        ax.set_ylim(len(fit.rows) - 0.45, -0.55)
        ax.set_xlim(-0.03, 1.03)
        ax.set_xlabel("share of the best possible")
        ax.grid(axis="y", visible=False)
        legend_below(ax, 4 if width > 5 else 2)
        best = fit.rows[0]
        weights = ", ".join(
            f"{name} {weight:.0%}"
            for name, weight in zip(("speed", "quality", "stability"), fit.weights, strict=True)
        )
        title = f"{best.name} comes first: total {best.total.value:.2f}"
        note = f"{fit.probes:,} probes, {best.total.clusters:,} documents; {weights}; bars {fit.level:.0%}"
        rows = "; ".join(
            f"{r.name}: total {r.total.text()}, speed {r.speed.text()}, quality {r.quality.text()}, "
            f"stability {r.stability.text()}"
            for r in fit.rows
        )
        return finish(ax, title, note, f"Dots of each model's parts and total. {fit.sentence()} {rows}.")


def ranking_radar(fit: RankingFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """A polygon a model over speed, quality and stability, each corner with its interval along the spoke.

    For those who expect one. Its area means nothing: it changes with the order of the spokes and with the
    square of each part. `ax`, where given, has to be polar.
    """
    import matplotlib.pyplot as plt

    with style():
        if fit.status == "refused" or not fit.rows:
            return refusal(new_axes(ax, width, 2.6), "Ranking", fit.reason)
        if ax is None:
            ax = plt.figure(figsize=(width, 5.4), layout="constrained").add_subplot(projection="polar")
        parts = [part for part, _, _ in _PARTS if part != "total"]
        ax.set_anchor("NW")  # under the title's left end
        angles = np.linspace(0, 2 * np.pi, len(parts), endpoint=False) + np.pi / 6  # none points at the title
        for i, row in enumerate(fit.rows):
            colour = COLOURS[_INKS[i % 6]]
            estimates = [getattr(row, part) for part in parts]
            values = [float(e.value or 0) for e in estimates]
            aside = (i - (len(fit.rows) - 1) / 2) * 0.05  # radians, so that bars do not hide each other
            for angle, e in zip(angles, estimates, strict=True):
                ax.plot([angle + aside] * 2, [float(e.low or 0), float(e.high or 0)], color=colour, lw=1.6)
            ax.plot([*angles, angles[0]], [*values, values[0]], color=colour, lw=1.6, alpha=0.8)
            ax.plot(angles + aside, values, _MARKS[i % 6], color=colour, ms=7, label=row.name)
        ax.set_xticks(angles, parts)
        ax.set_ylim(0, 1.03)
        ax.set_yticks([0.25, 0.5, 0.75, 1.0])
        ax.set_rlabel_position(90)  # type: ignore[attr-defined]  # between two spokes
        legend_below(ax, 2 if width > 5 else 1)
        note = f"{fit.probes:,} probes; bars {fit.level:.0%}; read the corners, not the area"
        corners = "; ".join(
            f"{r.name}: " + ", ".join(f"{part} {getattr(r, part).text()}" for part in parts) for r in fit.rows
        )
        return finish(ax, "Speed, quality and stability", note, f"Radar of each model's parts. {corners}.")


def pareto_front(fit: RankingFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Quality against median latency with both intervals; the step joins what nobody beats on both."""
    with style():
        ax = new_axes(ax, width, 4.4 if width > 5 else 4.0)
        if fit.status == "refused" or not fit.rows:
            return refusal(ax, "Quality against time", fit.reason)
        rows = sorted(fit.rows, key=lambda r: (float(r.seconds.value or 0), -float(r.quality.value or 0)))
        front: list[tuple[float, float]] = []
        unbeaten = []
        for row in rows:
            if not front or float(row.quality.value or 0) > front[-1][1]:
                front.append((float(row.seconds.value or 0), float(row.quality.value or 0)))
                unbeaten.append(row.name)
        ax.step([x for x, _ in front], [y for _, y in front], where="post", color="#9a9a9a", lw=1.3, zorder=1)
        for i, row in enumerate(rows):
            x, y, colour = row.seconds, row.quality, COLOURS[_INKS[i % 6]]
            xv, yv = float(x.value or 0), float(y.value or 0)
            ax.plot([float(x.low or 0), float(x.high or 0)], [yv, yv], color=colour, lw=1.5)
            ax.plot([xv, xv], [float(y.low or 0), float(y.high or 0)], color=colour, lw=1.5)
            ax.plot([xv], [yv], _MARKS[i % 6], color=colour, ms=9, label=row.name)
        ax.set_xlim(left=0)
        ax.set_ylim(-0.03, 1.03)
        ax.set_xlabel("median latency (seconds); left is better")
        ax.set_ylabel("quality; up is better")
        legend_below(ax, 2 if width > 5 else 1)
        title = f"Nobody beats {' or '.join(unbeaten)} on both"
        points = "; ".join(f"{r.name} {r.seconds.text()} s, quality {r.quality.text()}" for r in rows)
        note = f"{fit.probes:,} probes asked of every model; crosses {fit.level:.0%}; line: the front"
        return finish(ax, title, note, f"Quality against median latency. {title}. {points}.")


def preference_dots(fit: BradleyTerryFit, ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """How often each is preferred to an average one, with its interval."""
    with style():
        ax = new_axes(ax, width, 1.6 + 0.42 * max(len(fit.standings), 2))
        if fit.status == "refused" or not fit.standings:
            return refusal(ax, "Preference", fit.reason)
        ax.axvline(0.5, color="#9a9a9a", lw=1)
        for i, row in enumerate(fit.standings):
            low, high = (float(1 / (1 + np.exp(-v))) for v in (row.low, row.high))
            ax.plot([low, high], [i, i], color=COLOURS["main"], lw=2)
            ax.plot([row.share], [i], "o", color=COLOURS["main"], ms=8)
            ax.annotate(
                f"n={row.n}", (1, i), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="left", va="center", fontsize=8.4, color=COLOURS["quiet"], annotation_clip=False,
            )  # fmt: skip
        ax.set_yticks(range(len(fit.standings)), [_short(r.name, width) for r in fit.standings])
        ax.set_ylim(len(fit.standings) - 0.4, -0.6)
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of votes against an average one")
        ax.grid(axis="y", visible=False)
        note = f"n: votes; {fit.votes:,} in all, {fit.ties:,} equal; Bradley-Terry, bars {fit.level:.0%}"
        title = f"{fit.standings[0].name} is preferred most"
        return finish(ax, title, note, f"Dots of preference. {fit.sentence()}")


def _short(name: str, width: float) -> str:
    from textwrap import fill

    return fill(name.replace("-", "- "), 14 if width < 5 else 28).replace("- ", "-")
