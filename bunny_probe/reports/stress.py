"""The sections of the stress report: what a model does when the input contradicts, forbids or breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe import fits, plots
from bunny_probe.fits.contrasts import Contrasts
from bunny_probe.fits.groups import GroupRow, Groups
from bunny_probe.reports.common import answers, outcomes
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.stress_conflict import ORDER, asked_lengths, conflict, of_task, order_tile, told
from bunny_probe.reports.wording import clip, listed, opening, still_missing, tone_of

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.reports.study import Study

__all__ = [
    "answers",
    "confidence",
    "conflict",
    "edges",
    "formats",
    "headline",
    "method",
    "negation",
    "outcomes",
    "perturbation",
]

_TWINS = (("do not mention minus mention", "with", "without"),)


def headline(study: Study) -> None:
    """Title, where the data come from, and the numbers to remember."""
    opening(study, f"How {study.endpoint} acts under stress")
    frame = study.family("stress")
    fit = Groups(by=("task",))(frame)
    order = Contrasts(ORDER)(of_task(study, "conflict"))
    tiles([_group_tile(row) for row in fit.rows] + [order_tile(order)])
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
    still_missing(study)


def formats(study: Study) -> None:
    """Instructions about form that a program checks: pass rate by kind."""
    frame = of_task(study, "format")
    if frame.empty:
        finding("This suite asks no format instructions.", tone="refused")
        return
    kinds = frame["variant"].str.split("/").str[0]
    fit = Groups(by=("kind",))(frame.assign(kind=kinds))
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    plot(lambda width: plots.group_dots(fit, width=width))
    chance = frame["chance"].astype(float).groupby(kinds.to_numpy()).mean()
    weak = [r for r in fit.rows if r.high is not None and r.high < 0.5]
    luck = [
        r.names[0]
        for r in fit.rows
        if r.low is not None and r.names[0] in chance.index and r.low <= float(chance[r.names[0]])
    ]
    finding(
        f"{fit.sentence()}"
        + (
            f" Not shown to be above a chance answer: {listed(luck)}."
            if luck
            else " All are above a chance answer."
        ),
        f"Check {listed(r.names[0] for r in weak)} by program before use, or ask again until it passes."
        if weak
        else "",
        tone="bad" if weak else "plain",
    )
    failed = frame[(frame["score"] == 0) & frame["answered"].fillna(False)]
    if len(failed):
        shown = failed.groupby(kinds[failed.index], sort=True).head(2)[["variant", "reason", "text"]]
        table(
            shown.assign(text=shown["text"].map(clip), reason=shown["reason"].map(clip)),
            "Instructions that were not followed, two of each kind",
            text_columns=["variant", "reason", "text"],
        )


def negation(study: Study) -> None:
    """Do not mention X, and its positive twin."""
    frame = of_task(study, "negation")
    if frame.empty:
        finding("This suite asks no negations.", tone="refused")
        return
    fit = Groups(by=("variant",))(frame)
    twins = Contrasts(_TWINS)(frame)
    pairs = _both(frame)
    rate = Groups(by=("pair",))(pairs) if len(pairs) else None
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    names = {"with": "told to mention it", "without": "told not to mention it"}
    said = "; ".join(f"{names.get(r.names[0], r.names[0])}: {told(r)}" for r in fit.rows if r.score is not None)
    both = ""
    if rate is not None and rate.rows and rate.rows[0].score is not None:
        both = f" Both twins of a document are right in {told(rate.rows[0])}: only that shows it obeys."
    row = twins.rows[0] if twins.rows else None
    hard = row is not None and row.high is not None and row.high < 0
    never = bool(rate and rate.rows and rate.rows[0].high is not None and rate.rows[0].high < 0.5)
    finding(
        f"{said[:1].upper()}{said[1:]}.{both}",
        "Say what to write in place of what must not be named: a ban alone puts the word in its mouth."
        if hard
        else "Do not rely on instructions to leave things out or to put them in: check the answer by program."
        if never
        else "",
        tone="bad" if hard or never else "plain",
    )
    finding(twins.sentence(), tone=tone_of(twins.status))


def edges(study: Study) -> None:
    """The ten kinds of broken or hostile input."""
    frame = of_task(study, "edges")
    if frame.empty:
        finding("This suite asks no edge kinds.", tone="refused")
        return
    fit = Groups(by=("variant",))(frame)
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    plot(lambda width: plots.group_dots(fit, width=width))
    hidden = frame[frame["variant"] == "hidden_instruction"]
    obeyed = hidden[hidden["label"] == "fail"]
    lost = [r for r in fit.rows if r.high is not None and r.high < 0.5]
    finding(
        fit.sentence().replace("_", " "),
        f"Filter or refuse such input before it reaches the model: {listed(_plain(r) for r in lost)}."
        if lost
        else "",
        tone="bad" if lost else tone_of(fit.status),
    )
    if len(hidden):
        scored = int(hidden["score"].notna().sum())
        low, high = (float(v) for v in fits.wilson(len(obeyed), max(scored, 1)))
        finding(
            f"An instruction hidden in the document was obeyed in {len(obeyed)} of {scored} answers "
            f"({len(obeyed) / max(scored, 1):.0%} [{low:.0%}, {high:.0%}], 95% interval).",
            "Never let text from outside reach it with the same authority as your own instructions."
            if len(obeyed)
            else f"With {scored} answers, a rate of up to {high:.0%} would not have been seen.",
            tone="bad" if len(obeyed) else "unsure",
        )


def perturbation(study: Study) -> None:
    """Typos, case, spacing, synonyms, order: how much damage costs how much score."""
    frame = of_task(study, "perturbation")
    names = sorted(
        (v for v in frame["variant"].dropna().unique() if v != "none/0"),
        key=lambda v: (str(v).split("/")[0], float(str(v).split("/")[-1])),
    )
    if not names:
        finding("This suite asks no damaged texts.", tone="refused")
        return
    fit = Contrasts(tuple((str(v), "none/0", str(v)) for v in names))(frame)
    if fit.status == "refused":
        finding(f"Sensitivity to damage is not estimable: {fit.reason}.", tone="refused")
        return
    plot(lambda width: plots.damage_curves(fit, width=width))
    sure = [r for r in fit.rows if r.high is not None and r.high < 0 and (r.p_adjusted or 1) < 1 - fit.level]
    kinds = list(dict.fromkeys(r.name.split("/")[0] for r in sure))
    halves = [(float(r.high) - float(r.low)) / 2 for r in fit.rows if r.low is not None and r.high is not None]
    finding(
        fit.sentence(),
        f"Clean {listed(kinds)} before it reaches the model."
        if sure
        else f"Losses under about {np.median(halves):.2f} could not have been seen: ask more documents.",
        tone="bad" if sure else "plain",
    )


def confidence(study: Study) -> None:
    """Where it stops knowing what to say: entropy by edge kind, and the length at which it collapses."""
    frame = study.family("stress")
    by_kind = fits.Entropy(by="variant", token="first")(of_task(study, "edges"))
    if by_kind.status == "refused":
        finding(by_kind.sentence(), "Ask an endpoint that returns log-probabilities.", tone="refused")
    else:
        plot(lambda width: plots.entropy_band(by_kind, width=width))
        unsure = sorted(by_kind.levels, key=lambda level: -level.low)[:3]
        said = "; ".join(f"{v.at}: {v.low:.2f} to {v.high:.2f} nats, n = {v.n}" for v in unsure)
        finding(
            f"{by_kind.sentence()} Least sure of the first word: {said}.",
            "A wrong answer given with low entropy is the dangerous one: low entropy is no sign of truth.",
        )
    at_length = frame[frame["task"].isin(("conflict",)) & frame["length_tokens"].isin(asked_lengths(frame))]
    collapse = fits.Collapse()(at_length)
    finding(
        collapse.sentence(),
        "" if collapse.status == "ok" else "Ask at longer prompts to look for an onset further out.",
        tone=tone_of(collapse.status),
    )


def method(study: Study) -> None:
    """How the numbers were made."""
    markdown(
        "Order bias, twins and damage are paired differences: the same document in two forms, documents as the "
        "unit, sign-flip p-values corrected by Holm over the contrasts of a section. Pass rates carry Wilson "
        "intervals. Every judgement is made by a program and told with its reason; nothing here is graded by "
        "another model. A right answer in one order of a contradiction may be luck of its place: only right in "
        "both shows that the rule was applied.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned."
    )


# ── parts ───────────────────────────────────────────────────────────────────────────────────────────


def _both(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a document: 1 where both twins passed."""
    scored = frame[frame["score"].notna() & frame["answered"].fillna(False)]
    grouped = scored.groupby("cluster", observed=True)
    both = grouped["score"].min()[grouped["variant"].nunique() == 2].reset_index()
    return both.assign(pair="both", answered=True)


def _plain(row: GroupRow) -> str:
    return " / ".join(row.names).replace("_", " ")


def _group_tile(row: GroupRow) -> Tile:
    name = f"{row.names[0].replace('_', ' ').capitalize()} passed"
    if row.score is None:
        return Tile(name, "not estimable", f"0 scored of {row.asked} asked")
    qualifier = f"95% interval {row.low:.0%} to {row.high:.0%}, n = {row.n} of {row.asked} asked"
    return Tile(name, f"{row.score:.0%}", qualifier)
