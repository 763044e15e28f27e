"""The sections of the length report: what grows worse, slower or wider as the prompt grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe import fits, plots
from bunny_probe.reports.common import answers, length_check, outcomes
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.wording import (
    crossing_tile,
    curves_table,
    estimate_tile,
    opening,
    span,
    still_missing,
    tone_of,
    window_advice,
)

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.reports.study import Study

__all__ = [
    "answers",
    "course",
    "curves",
    "headline",
    "length_check",
    "method",
    "next_length",
    "outcomes",
    "percentiles",
    "tasks",
    "worst_tenth",
]

_GRADED = ("items", "entities", "overlap", "embedding")  # scorers that give shares and not hits
# quantity → title, factor of the unit it is shown in, digits
_QUANTITIES = {
    "score": ("Score", 1.0, 2),
    "latency_s": ("Latency, milliseconds", 1000.0, 0),
    "ttft_s": ("Time to first token, milliseconds", 1000.0, 0),
}
_FEW = 20  # a percentile such as P95 says little below it


def headline(study: Study) -> None:
    """Title, where the data come from, and the numbers to remember."""
    opening(study, f"How {study.endpoint} changes with length")
    frame = study.family("length")
    single = _single(frame)
    decay, window, items = fits.Decay()(single), fits.Window()(single), fits.Decay()(_graded(frame))
    longest = _lengths(frame)[-1:]
    tiles(
        [
            estimate_tile("Score in the shortest prompts", decay.base, why=decay.reason),
            estimate_tile("Score in the longest", decay.last, why=decay.reason),
            crossing_tile(
                f"Effective window, {window.fraction:.0%} of the base", window.window, window.counts.used,
                unit="prompt tokens", why=window.reason,
            ),
            crossing_tile(
                "Knee", decay.knee, decay.counts.used, unit="prompt tokens",
                why=decay.reason or "a curve with a knee does not explain the data better than one without",
            ),
            estimate_tile("Items found of several, longest prompts", items.last, why=items.reason),
            *[_latency_tile(frame, length) for length in longest],
        ]
    )  # fmt: skip
    still_missing(study)


def course(study: Study) -> None:
    """Quality, items found, latency and the spread of scores over one axis."""
    frame = study.family("length")
    single, graded = _single(frame), _graded(frame)
    decay, window, items = fits.Decay()(single), fits.Window()(single), fits.Decay()(graded)
    times = _by_length(frame, ("latency_s",), (0.5, 0.95))
    spread = _by_length(graded, ("score",), (0.1, 0.25, 0.5, 0.75, 0.9))
    plot(lambda width: plots.length_panels(decay, items, times, spread, window=window, width=width))
    finding(decay.sentence(), tone=tone_of(decay.status))
    finding(window.sentence(), window_advice(window), tone=tone_of(window.status))
    if decay.knee is not None:
        finding(
            f"If the score holds and then falls, it begins to fall at {decay.knee.text()} "
            f"(n = {decay.counts.used:,}).",
            "Keep the prompt below the lower end of this interval where an answer matters.",
            tone="unsure" if decay.knee.censored else "plain",
        )
    finding(
        f"Items found of several: {items.sentence()}"
        if items.status != "refused"
        else f"Items found of several cannot be followed over length: {items.reason}.",
        tone=tone_of(items.status),
    )


def curves(study: Study) -> None:
    """Which curve was chosen, and what was rejected for it."""
    frame = _single(study.family("length"))
    decay = fits.Decay()(frame)
    if not decay.models:
        finding(decay.sentence(), tone="refused")
        return
    table(
        curves_table(decay),
        f"Curves tried, best first: n = {decay.counts.used:,} answers, {decay.counts.clusters:,} documents",
        text_columns=["curve", "parameters"],
    )
    second = decay.models[1] if len(decay.models) > 1 else None
    if second is not None and second.delta < 2:
        finding(
            f"The runner-up, {second.model}, is only {second.delta:.1f} AICc behind: the data do not tell the "
            "two apart. The intervals above cover both.",
            "Ask at more lengths around the fall; it is the shape there that separates the curves.",
            tone="unsure",
        )


def tasks(study: Study) -> None:
    """The same question of each task apart: a mean over tasks can hide the one that fails."""
    from bunny_probe.fits.groups import Groups

    frame = study.family("length")
    fit = Groups(by=("task", "length_tokens"))(frame)
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    shown = fit.table()
    shown["length_tokens"] = shown["length_tokens"].astype(float).astype(int)
    shown = shown.sort_values(["task", "length_tokens"]).rename(columns={"length_tokens": "prompt tokens"})
    table(
        shown.drop(columns="clusters"),
        f"Mean score by task and length with {fit.level:.0%} interval: n scored of the asked",
        text_columns=["task"],
    )
    for name in sorted(frame["task"].dropna().unique()):
        decay = fits.Decay()(frame[frame["task"] == name])
        finding(f"{name.replace('_', ' ')}: {_lower(decay.sentence())}", tone=tone_of(decay.status))


def percentiles(study: Study) -> None:
    """Distributions before means: what the good and the bad answers are like at each length."""
    import pandas as pd

    levels = _by_length(study.family("length"), tuple(_QUANTITIES), (0.1, 0.25, 0.5, 0.75, 0.9, 0.95))
    least: list[int] = []
    for quantity, (title, scale, digits) in _QUANTITIES.items():
        rows = []
        for length, fit in levels.items():
            found = [p for p in fit.percentiles if p.quantity == quantity]
            found = found[:5] if quantity == "score" else found  # P95 is asked of times
            if found:
                cells = {f"P{p.q * 100:.0f}": _bounded(p, scale, digits) for p in found}
                rows.append({"prompt tokens": f"{length:,.0f}", "n": found[0].n, **cells})
                least.append(found[0].n)
        if rows:
            note = "95 % intervals from order statistics; … where n is too small for a bound"
            table(pd.DataFrame(rows), f"{title}: percentiles with {note}")
    if not least:
        finding("No answer carries a number: there are no percentiles.", tone="refused")
    elif min(least) < _FEW:
        finding(
            f"The thinnest length has {min(least)} answers: with so few, P90 and P95 are close to the "
            "largest value seen.",
            "Take a suite with more samples at that length before P95 is promised to anybody.",
            tone="unsure",
        )


def worst_tenth(study: Study) -> None:
    """The joint tail: are the slow answers also the bad ones?"""
    import pandas as pd

    frame = study.family("length")
    parts: list[tuple[str, pd.DataFrame]] = [("all", frame)]
    parts += [(f"{length:,.0f}", frame[frame["length_tokens"] == length]) for length in _lengths(frame)]
    rows, sure = [], []
    for name, part in parts:
        fit = fits.Distribution(quantities=("latency_s",))(part)
        if fit.slow_score is None or fit.fast_score is None:
            continue
        slow, fast = fit.slow_score, fit.fast_score
        rows.append(
            {
                "prompt tokens": name,
                "score of the slowest tenth": f"{slow.text()}, n = {slow.n}",
                "score of the rest": f"{fast.text()}, n = {fast.n}",
                "median latency of the worst-scored tenth, ms": _time(fit.worst_latency),
                "of the rest, ms": _time(fit.best_latency),
            }
        )
        if name != "all" and slow.high is not None and fast.low is not None and slow.high < fast.low:
            sure.append(name)
    if not rows:
        finding(
            "Fewer than 20 timed and scored answers: a tenth of them is no sample.",
            "Ask more probes at one length to see whether slow answers are also worse.",
            tone="refused",
        )
        return
    table(pd.DataFrame(rows), "The joint tail of score and latency", text_columns=list(rows[0]))
    thin = [name for name, part in parts if name != "all" and not any(r["prompt tokens"] == name for r in rows)]
    note = f" Lengths with fewer than 20 timed answers are left out: {', '.join(thin)}." if thin else ""
    if sure:
        finding(
            f"At {', '.join(sure)} tokens the slowest tenth also scores lower than the rest, beyond their "
            f"intervals: whoever waited longest got the worst answer.{note}",
            "Look for what these requests share: queueing, eviction, a fallback model.",
            tone="bad",
        )
    else:
        finding(
            "No length shows the slowest tenth scoring below the rest beyond their intervals. The first row "
            f"mixes lengths: long prompts are slower and harder, and that alone links the two.{note}",
        )


def next_length(study: Study) -> None:
    """Where to ask next, and how many answers an interval of a given width needs."""
    frame = _single(study.family("length"))
    window = fits.Window()(frame)
    plan = fits.PlanForShare(half_width=0.05)()
    advice = window_advice(window) or "Ask at lengths on both sides of the window."
    finding(
        f"{window.sentence()} To know a share to within 5 points at one length takes {_lower(plan.sentence())}",
        advice,
        tone=tone_of(window.status),
    )


def method(study: Study) -> None:
    """How the numbers were made."""
    markdown(
        "Curves are fitted by binomial maximum likelihood to the raw trials of the tasks that ask for one "
        "thing, and chosen by AICc; intervals take the choice into account. Tasks that ask for several things "
        "are scored by the share found and shown apart. The window is an estimate and never an extrapolation: "
        "past the longest prompt asked it is told as *beyond*. Percentiles carry distribution-free intervals "
        "from order statistics. Times count only where this client was not saturated. Failures are counted "
        "beside the scores and are never a 0.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned."
    )


# ── parts of the frame ──────────────────────────────────────────────────────────────────────────────


def _graded(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["scorer"].isin(_GRADED)]


def _single(frame: pd.DataFrame) -> pd.DataFrame:
    """Tasks that ask for one thing; all of them where the suite has no such task."""
    single = frame[~frame["scorer"].isin(_GRADED)]
    return single if len(single) else frame


def _lengths(frame: pd.DataFrame) -> list[float]:
    return sorted(float(v) for v in frame["length_tokens"].dropna().unique())


def _by_length(
    frame: pd.DataFrame, quantities: tuple[str, ...], q: tuple[float, ...], most: int = 16
) -> dict[float, fits.DistributionFit]:
    """Percentiles by length; more than `most` lengths are gathered in bands, each at its geometric mean."""
    length = frame["length_tokens"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    values = np.unique(length[np.isfinite(length)])
    measure = fits.Distribution(quantities=quantities, q=q)
    if values.size <= most:
        return {float(v): measure(frame[length == v]) for v in values}
    edges = np.geomspace(values[0], values[-1] * (1 + 1e-9), most + 1)
    band = np.digitize(length, edges)
    return {
        float(np.exp(np.log(length[band == b]).mean())): measure(frame[band == b])
        for b in range(1, most + 1)
        if (band == b).any()
    }


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def _latency_tile(frame: pd.DataFrame, length: float) -> Tile:
    fit = fits.Distribution(quantities=("latency_s",), q=(0.95,))(frame[frame["length_tokens"] == length])
    name = f"P95 latency at {length:,.0f} tokens"
    if not fit.percentiles:
        return Tile(name, "not estimable", fit.reason)
    p = fit.percentiles[0]
    return Tile(name, f"{p.value:.2f} s", f"{fit.level:.0%} interval {span(p.low, p.high)} s, n = {p.n:,}")


def _bounded(p: fits.Percentile, scale: float = 1.0, digits: int = 2) -> str:
    """`41 [38, 44]`, kept on one line; an ellipsis for a side that the data do not bound."""
    low, value, high = ("…" if v is None else f"{v * scale:,.{digits}f}" for v in (p.low, p.value, p.high))
    return f"{value}\u00a0[{low},\u00a0{high}]"


def _time(p: fits.Percentile | None) -> str:
    return "all score alike" if p is None else f"{_bounded(p, 1000.0, 0)}, n = {p.n}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
