"""The sections of the position report: where in a prompt a fact is found, and what is said instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe import fits, plots
from bunny_probe.fits.groups import Groups
from bunny_probe.reports.common import answers, length_check, outcomes
from bunny_probe.reports.display import finding, markdown, plot, table, tiles
from bunny_probe.reports.wording import crossing_tile, estimate_tile, opening, still_missing, tone_of

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.reports.study import Study

__all__ = [
    "answers",
    "edges_of_context",
    "end_window",
    "headline",
    "length_check",
    "lookalikes",
    "method",
    "outcomes",
    "surface",
    "unreferenced",
    "wrong_anchors",
]

_BY_DEPTH = ("single", "multi_key")  # tasks that ask for one anchor at a stated depth


def headline(study: Study) -> None:
    """Title, where the data come from, and the numbers to remember."""
    opening(study, f"Where {study.endpoint} finds a fact")
    recall = fits.Recall()(_by_depth(study))
    window = fits.Window(axis="from_end")(from_end(study))
    tiles(
        [
            estimate_tile("Recall over all depths", recall.overall, why=recall.reason),
            estimate_tile("Start minus middle", recall.primacy, form="+.2f", why=_contrast_why(recall)),
            estimate_tile("End minus middle", recall.recency, form="+.2f", why=_contrast_why(recall)),
            crossing_tile(
                f"Counts from the end, {window.fraction:.0%} of the base", window.window, window.counts.used,
                unit="tokens before the end", why=window.reason,
            ),
            estimate_tile(
                "Another fact's value given", recall.wrong, form=".0%", why="no answer carries a label"
            ),
        ]
    )  # fmt: skip
    still_missing(study)


def surface(study: Study) -> None:
    """Recall by depth and length: the cells, and the smooth surface through them."""
    frame = _by_depth(study)
    recall, smooth = fits.Recall()(frame), fits.RecallSurface()(frame)
    if recall.status != "refused":
        plot(lambda width: plots.recall_heatmap(recall, width=width))
    finding(recall.sentence(), tone=tone_of(recall.status))
    if smooth.status == "refused":
        finding(smooth.sentence(), "Read the cells above.", tone="refused")
        return
    if smooth.misfit_p is not None and smooth.misfit_p < 0.01:
        finding(
            f"A smooth surface over depth and length does not describe these {smooth.counts.used:,} answers "
            f"(p = {smooth.misfit_p:.2g}), so it is not drawn: recall changes too sharply for it.",
            "Read the cells above. A sharp edge that moves with length is the mark of a sliding window.",
            tone="unsure",
        )
        return
    drawn = _clipped(fits.RecallSurface(depths=tuple(np.linspace(0, 1, 41)))(frame), recall)
    plot(lambda width: plots.depth_curves(drawn, recall, width=width))
    finding(drawn.sentence())


def edges_of_context(study: Study) -> None:
    """Primacy and recency: is the start or the end better than the middle?"""
    frame = _by_depth(study)
    fit = fits.Recall()(frame)
    if fit.primacy is None and fit.recency is None:
        finding(f"No contrast of start, middle and end: {_contrast_why(fit)}.", tone="refused")
        return
    rows = []
    for length in sorted(frame["length_tokens"].dropna().unique()):
        part = fits.Recall()(frame[frame["length_tokens"] == length])
        rows.append(
            {
                "prompt tokens": f"{float(length):,.0f}",
                "recall": _spoken(part.overall),
                "start minus middle": _spoken(part.primacy, signed=True),
                "end minus middle": _spoken(part.recency, signed=True),
                "n": part.counts.used,
                "documents": part.counts.clusters,
            }
        )
    import pandas as pd

    table(pd.DataFrame(rows), "Contrasts by length, each with its 95 % interval")
    strong = [
        name
        for name, e in (("start", fit.primacy), ("end", fit.recency))
        if e is not None and e.low is not None and e.low > 0
    ]
    weak = [
        name
        for name, e in (("start", fit.primacy), ("end", fit.recency))
        if e is not None and e.high is not None and e.high < 0
    ]
    words = (
        f"Over all lengths the start minus the middle is {_spoken(fit.primacy, signed=True)} and the end minus "
        f"the middle {_spoken(fit.recency, signed=True)} (n = {fit.counts.used:,})."
    )
    if strong or weak:
        advice = (
            f"Put what must be found at the {' or the '.join(strong)} of the context."
            if strong
            else f"Do not leave what must be found at the {' or the '.join(weak)} of the context."
        )
    else:
        plan = fits.PlanForDifference(difference=0.1)()
        advice = (
            f"Nothing is shown. A difference of 10 points would take about {plan.documents:,} documents to see "
            "four times in five."
        )
    finding(words, advice, tone="plain" if strong or weak else "unsure")


def end_window(study: Study) -> None:
    """How far back from the end a fact still counts, in tokens and not in shares of the prompt."""
    frame = from_end(study)
    decay = fits.Decay(axis="from_end")(frame)
    window = fits.Window(axis="from_end")(frame)
    if decay.status != "refused":
        plot(lambda width: plots.decay_curve(decay, window=window, width=width))
    found = window.window
    advice = "Ask at distances on both sides of the fall, and more documents."
    if found is not None and found.censored:
        advice = f"No fall was found up to {found.probed_to:,.0f} tokens from the end: ask further back."
    elif found is not None and found.low is not None:
        advice = f"Repeat what matters within the last {found.low:,.0f} tokens, the interval's lower end."
    finding(window.sentence(), advice, tone=tone_of(window.status))
    if decay.status != "refused" and found is not None and not found.censored:
        across = _across(frame, window)
        if across:
            finding(across)


def wrong_anchors(study: Study) -> None:
    """What is said instead: another planted fact's value, or none of them."""
    frame = _by_depth(study)
    fit = fits.Recall()(frame)
    if fit.wrong is None or fit.wrong.value is None:
        finding("No answer carries a label, so wrong anchors cannot be counted.", tone="refused")
        return
    plot(lambda width: plots.wrong_anchor_heatmap(fit, width=width))
    counted = frame["label"][frame["score"].notna()].value_counts()
    n = int(counted.sum())
    hits, wrong = int(counted.get("hit", 0)), int(counted.get("wrong_anchor", 0))
    rest = n - hits - wrong
    finding(
        f"Of {n:,} scored answers {hits:,} are right, {wrong:,} give the value of another planted fact "
        f"({_spoken(fit.wrong)} of all) and {rest:,} give none of the planted values.",
        "A wrong anchor is worse than a miss, because it looks right: check answers against their source."
        if wrong > rest
        else "Most failures are silence or invention: ask for quotations, so that a reader can see them.",
        tone="bad" if wrong > max(rest, hits) else "plain",
    )


def lookalikes(study: Study) -> None:
    """Keys that share a word: how much recall do they cost against keys that do not?"""
    frame = study.family("position")
    frame = frame[frame["task"] == "multi_key"]
    pair = (("keys alike minus keys distinct", "", "near"),)
    fit = fits.Contrasts(pair, match=("cluster", "length_tokens", "depth"))(frame)
    shares = [row for row in Groups(by=("variant",))(frame).rows if row.score is not None]
    if fit.status == "refused":
        finding(
            f"Keys that look alike cannot be set against distinct ones: {fit.reason}.",
            "Ask multi_key with near = true and with near = false, on the same seed.",
            tone="refused",
        )
        return
    said = "; ".join(
        f"{'alike' if row.names[0] == 'near' else 'distinct'}: {row.score:.2f} "
        f"[{row.low:.2f}, {row.high:.2f}], n = {row.n} of {row.asked} asked"
        for row in shares
    )
    row = fit.rows[0]
    costs = row.high is not None and row.high < 0
    finding(
        f"{fit.sentence()} Recall with keys {said}.",
        "Give things that matter names that differ in their first word." if costs else "",
        tone="bad" if costs else "plain",
    )


def unreferenced(study: Study) -> None:
    """The share of facts left unused against how many tokens stand before them."""
    fit = fits.Unreferenced()(_by_depth(study))
    if fit.status != "refused":
        plot(lambda width: plots.unreferenced_curve(fit, width=width))
    finding(
        fit.sentence(),
        "The start is an extrapolation to position 0; the rise says how much more is lost far in."
        if fit.rising and not fit.reason
        else "Do not quote these parameters: read the points, and ask at more places.",
        tone="unsure" if fit.reason and fit.status == "ok" else tone_of(fit.status),
    )


def method(study: Study) -> None:
    """How the numbers were made."""
    markdown(
        "Every document holds all facts of a cell, and each is asked for in turn; with rotations each fact "
        "stands once at each depth, so that depths differ in nothing else. Cells carry Wilson intervals on the "
        "effective number of trials, because questions about one document are not independent. The smooth "
        "surface is a logistic regression on splines in depth, linear in log-length, with a sandwich variance "
        "over documents; it is drawn within the depths that were asked. Start is depth up to 0.2, end from "
        "0.8, middle 0.3 to 0.7. Distances from the end are tokens of filling text behind the fact.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned."
    )


# ── parts of the frame ──────────────────────────────────────────────────────────────────────────────


def _by_depth(study: Study) -> pd.DataFrame:
    """Position probes that ask for one anchor; in the paired design alone where the suite has one."""
    frame = study.family("position")
    single = frame[frame["task"] == "single"]
    return single if len(single) else frame[frame["task"].isin(_BY_DEPTH)]


def from_end(study: Study) -> pd.DataFrame:
    """The probes at stated distances from the end, told as depths; those by depth where there are none."""
    frame = study.family("position")
    placed = frame[frame["task"] == "from_end"]
    if placed.empty:
        return _by_depth(study)
    distance = placed["variant"].str.extract(r"^(\d+)")[0].astype("Float64")
    length = placed["length_tokens"].astype("Float64")
    depth = (1 - distance / length).to_numpy(dtype=float, na_value=np.nan)
    return placed.assign(depth=depth)


def _clipped(drawn: fits.RecallSurfaceFit, recall: fits.RecallFit) -> fits.RecallSurfaceFit:
    """The surface within the depths that were asked: outside them it would be a guess."""
    from dataclasses import replace

    first, last = min(recall.depths), max(recall.depths)
    return replace(drawn, points=tuple(p for p in drawn.points if first - 1e-9 <= p.depth <= last + 1e-9))


def _across(frame: pd.DataFrame, window: fits.WindowFit) -> str:
    """Recall nearer and farther than the window, in counts."""
    assert window.window is not None
    edge = window.window.value or window.window.probed_to
    length = frame["length_tokens"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    back = length * (1 - frame["depth"].to_numpy(dtype=float))
    groups = Groups(by=("side",))(frame.assign(side=np.where(back <= edge, "nearer", "farther")))
    parts = [
        f"{row.names[0]} to the end than that, recall is {row.score:.2f} [{row.low:.2f}, {row.high:.2f}] "
        f"(n = {row.n} of {row.asked})"
        for row in reversed(groups.rows)
        if row.score is not None
    ]
    text = "; ".join(parts).replace("farther to the end", "farther from the end")
    return f"{text[:1].upper()}{text[1:]}." if len(parts) == 2 else ""


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def _spoken(estimate: fits.Estimate | None, *, signed: bool = False) -> str:
    if estimate is None or estimate.value is None:
        return "not estimable"
    form = "+.2f" if signed else ".2f"
    low = "unbounded" if estimate.low is None else f"{estimate.low:{form}}"
    high = "unbounded" if estimate.high is None else f"{estimate.high:{form}}"
    return f"{estimate.value:{form}}\u00a0[{low},\u00a0{high}]"


def _contrast_why(fit: fits.RecallFit) -> str:
    return fit.reason or "the suite asks at no length both near an edge and in the middle"
