"""The sections of the scorer audit: is it the model that is bad, or the number that judges it?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bunny_probe import fits, plots
from bunny_probe.fits.groups import Groups, GroupsFit
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.scored_anew import EDITED, OWN, Audited, audit
from bunny_probe.reports.wording import clip, listed, opening, span, still_missing, tone_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "OWN",
    "Audited",
    "audit",
    "disagreements",
    "edits",
    "headline",
    "method",
    "scales",
    "swap_models",
    "swap_prompts",
    "swap_scorers",
]

# ── sections ────────────────────────────────────────────────────────────────────────────────────────


def headline(audited: Audited) -> None:
    """What was audited, and the numbers to remember."""
    opening(audited.study, f"Do the scorers of {audited.study.endpoint} hold?")
    swaps, agree = audited.swaps, audited.swaps.agreement
    fooled = {name: [s.edit for s in fit.shifts if s.fooled] for name, fit in audited.edits.items()}
    most = max(fooled, key=lambda name: len(fooled[name]), default="")
    asked = sum(s.shift is not None for fit in audited.edits.values() for s in fit.shifts)
    count = sum(map(len, fooled.values()))
    n = max((fit.n for fit in audited.edits.values()), default=0)
    tiles(
        [
            Tile(
                "Answers with a reference",
                f"{audited.answers:,}",
                f"of {len(audited.study.frame):,} observations",
            ),
            Tile(
                "Scorers whose scale collapsed",
                f"{len(swaps.collapsed)} of {audited.scores['scorer'].nunique()}",
                listed(swaps.collapsed) if swaps.collapsed else f"none, n = {swaps.n:,} scores",
            ),
            Tile(
                "Scorers rank answers alike",
                "not estimable" if agree is None or agree.value is None else f"{agree.value:.2f}",
                "under ten answers, or no scorer tells them apart"
                if agree is None
                else f"mean rank correlation, 95% interval {span(agree.low, agree.high)}, n = {agree.n:,}",
            ),
            Tile(
                "Edits that move a scorer",
                f"{count} of {asked}",
                f"most: {most}, n = {n} answers" if count else f"beyond ±0.05, n = {n} answers",
            ),
        ]
    )
    if not audited.answers:
        finding(
            "No answer of this suite has a reference that several scorers could judge.",
            "Take a suite of length or position probes.",
            tone="refused",
        )
    for why in audited.absent:
        finding(f"Not audited: {why}.", tone="unsure")
    still_missing(audited.study)


def swap_scorers(audited: Audited) -> None:
    """One set of answers under several scorers."""
    for model in audited.models:
        part = audited.scores[audited.scores["model"] == model]
        fit = _by_scorer(part)
        if fit.status == "refused":
            finding(f"{model}: {fit.sentence()}", tone="refused")
            continue
        title = f"One set of answers, {len(fit.rows)} scorers: {model}"
        plot(partial(_dots, fit, title))
        finding(f"{model}: {fit.sentence()}")
    if not audited.models:
        finding("There are no answers to put under several scorers.", tone="refused")
        return
    lone = len(audited.models) < 2 and audited.swaps.status == "ok" and not audited.swaps.collapsed
    finding(
        f"Every scorer keeps its scale over {audited.swaps.n:,} scores." if lone else audited.swaps.sentence(),
        "Never compare numbers of different scorers; compare models under one."
        if audited.swaps.status == "ok"
        else "",
        tone="bad" if audited.swaps.collapsed else tone_of(audited.swaps.status),
    )


def swap_models(audited: Audited) -> None:
    """One scorer over several models' answers."""
    if len(audited.models) < 2:
        finding(
            "One model's answers are in this run: whether a scorer tells models apart cannot be shown.",
            "Ask a second model with the same run_path, or name its run file in `others`.",
            tone="refused",
        )
        return
    import pandas as pd

    rows = []
    for name, part in audited.scores.groupby("scorer", observed=True, sort=False):
        fit = Groups(by=("model",))(part)
        row: dict[str, object] = {"scorer": str(name)}
        for r in fit.rows:
            row[r.names[0]] = "—" if r.score is None else f"{r.score:.2f}\u00a0[{r.low:.2f},\u00a0{r.high:.2f}]"
        rows.append({**row, "n": fit.counts.used})
    table(
        pd.DataFrame(rows), "Mean score by model, with 95 % intervals, a row a scorer", text_columns=["scorer"]
    )
    held = [s for s in audited.swaps.swaps if s.swap == "models"]
    orders = {tuple(name for name, _ in sorted(s.means, key=lambda m: -m[1])) for s in held}
    finding(
        f"The {len(held)} scorers put the models in "
        + ("the same order." if len(orders) == 1 else f"{len(orders)} different orders."),
        "Where scorers disagree on who is better, read the answers before you choose."
        if len(orders) > 1
        else "",
        tone="unsure" if len(orders) > 1 else "plain",
    )


def swap_prompts(audited: Audited) -> None:
    """One prompt over several models: where they part most."""
    import pandas as pd

    found = [s for s in audited.swaps.swaps if s.swap == "prompt"]
    if not found:
        finding("No prompt was answered by two models.", tone="refused")
        return
    tasks = audited.scores.drop_duplicates("probe_id").set_index("probe_id")["task"]
    rows = [
        {
            "task": str(tasks.get(s.held, "")),
            "prompt": s.held[:8],
            **{name: f"{mean:.2f}" for name, mean in s.means},
            "n": s.n,
        }
        for s in found[:10]
    ]
    table(
        pd.DataFrame(rows),
        "Prompts on which models part most: mean over scorers and repeats, single prompts, so no interval",
        text_columns=["task", "prompt"],
    )


def scales(audited: Audited) -> None:
    """How much of its scale each scorer uses on the same answers."""
    import pandas as pd

    rows = []
    for name, part in audited.scores.groupby("scorer", observed=True, sort=False):
        fit = fits.Distribution(quantities=("score",), q=(0.1, 0.5, 0.9))(part)
        if fit.status == "refused":
            continue
        values = part["score"].dropna()
        at = {
            f"P{p.q * 100:.0f}": f"{p.value:.2f}\u00a0[{_or(p.low)},\u00a0{_or(p.high)}]"
            for p in fit.percentiles
        }
        row = {"scorer": str(name), **at, "distinct values": int(values.round(3).nunique()), "n": len(values)}
        rows.append(row)
    if not rows:
        finding("No scorer gave a number.", tone="refused")
        return
    table(
        pd.DataFrame(rows), "Use of the scale, 95 % intervals; … where n is too small", text_columns=["scorer"]
    )
    finding(
        f"Collapsed: {listed(audited.swaps.collapsed)}. Other scorers spread the same answers, it does not."
        if audited.swaps.collapsed
        else "No scorer gives nearly the same number to answers that others tell apart.",
        "Replace it before you read any curve made with it." if audited.swaps.collapsed else "",
        tone="bad" if audited.swaps.collapsed else "plain",
    )


def edits(audited: Audited) -> None:
    """Answers dressed differently, their substance the same: what moves the score?"""
    usable = {name: fit for name, fit in audited.edits.items() if fit.status == "ok"}
    if not usable:
        finding("There is no answer to edit.", tone="refused")
        return
    plot(lambda width: plots.edit_shifts(usable, width=width))
    for name, fit in usable.items():
        fooled = [s for s in fit.shifts if s.fooled]
        finding(
            f"{name}: {fit.sentence().replace('_', ' ')}",
            f"It judges dress as well as substance ({listed(s.edit.replace('_', ' ') for s in fooled)}): "
            "keep it from free text, or strip such dress before it scores."
            if fooled
            else "",
            tone="bad" if fooled else "plain",
        )


def disagreements(audited: Audited, count: int = 10) -> None:
    """The answers on which scorers differ most: read them."""
    if audited.scores.empty:
        finding("There are no answers to read.", tone="refused")
        return
    keys = ["probe_id", "model", "text"]
    wide = audited.scores.pivot_table(index=keys, columns="scorer", values="score", aggfunc="mean")
    gap = (wide.max(axis=1) - wide.min(axis=1)).sort_values(ascending=False, kind="stable").head(count)
    about = audited.scores.drop_duplicates(keys).set_index(keys)
    shown = wide.loc[gap.index].reset_index()
    shown.insert(0, "task", [str(about.loc[key, "task"]) for key in gap.index])
    shown.insert(1, "wanted", [clip(about.loc[key, "reference"]) for key in gap.index])
    shown.insert(2, "said", [clip(key[2]) for key in gap.index])
    table(
        shown.drop(columns=keys),
        "Answers on which the scorers differ most",
        text_columns=["task", "wanted", "said"],
    )
    finding(
        f"The largest gap between two scorers on one answer is {float(gap.iloc[0]):.2f}, over "
        f"{len(wide):,} answers.",
        "A scorer that gives 0 where the answer holds the right value is too strict for free text.",
    )


def method(audited: Audited) -> None:
    """How the numbers were made."""
    study = audited.study
    markdown(
        "Three swaps: one answer set under several scorers, one scorer over several models' answers, one "
        "prompt over several models. A scorer's scale has collapsed when its scores spread by less than "
        "0.05 (standard deviation) on answers that another spreads by 0.15 or more; a model that collapses "
        f"does so under all scorers. Edits change the dress of up to {EDITED} answers and not their "
        "substance; a scorer is moved by one when the whole 95 % interval of its mean shift lies beyond "
        "±0.05. Failures are no answers and are left out.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned."
    )


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def _by_scorer(part: pd.DataFrame) -> GroupsFit:
    return Groups(by=("scorer",))(part)


def _dots(fit: GroupsFit, title: str, width: float) -> Axes:
    return plots.group_dots(fit, title=title, width=width)


def _or(value: float | None) -> str:
    return "…" if value is None else f"{value:.2f}"
