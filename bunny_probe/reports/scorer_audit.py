"""The sections of the scorer audit: is it the model that is bad, or the number that judges it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from bunny_probe import fits, plots
from bunny_probe.fits.audit import ScorerEditsFit, ScorerSwapsFit
from bunny_probe.fits.groups import Groups, GroupsFit
from bunny_probe.reports.beside import run_paths
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.wording import listed, opening, span, still_missing, tone_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from bunny_probe.records import Observation, Probe
    from bunny_probe.reports.study import Study
    from bunny_probe.scores import Scorer

__all__ = [
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

OWN = "the probe's own"
_JUDGED = ("anchor", "items", "number", "entities", "exact", "overlap")  # scorers that know a right answer
_DEFAULT = ("exact", "overlap")
_EDITED = 40  # answers that are edited and scored again
_EDITED_SLOWLY = 12  # by a scorer that runs an encoder: a third of a second an answer on a busy core


@dataclass(frozen=True, slots=True)
class Audited:
    """Every answer under every scorer, and what edits do to the scores."""

    study: Study
    scores: pd.DataFrame  # a row per answer and scorer: probe_id, model, scorer, score, cluster, text, answers
    swaps: ScorerSwapsFit
    edits: dict[str, ScorerEditsFit]
    answers: int
    models: tuple[str, ...]
    absent: tuple[str, ...]  # scorers that could not be used, and why


def audit(study: Study, others: str = "", scorers: str = "") -> Audited:
    """Score every answer that has a reference with several scorers, and again after counterfactual edits.

    `others`: further run files, parted by commas; `scorers`: names, parted by commas, beside each probe's
    own. Scores that are kept in the run by other scorers (a judge, a reward model) are audited as well.
    Raises UsageError for an unknown scorer and RunError for a file that is not a run.
    """
    import pandas as pd

    chosen, absent = _scorers(scorers)
    gathered = _gather(study, others)
    rows = [
        _score_row(probe, observation, model, name, scorer)
        for probe, observation, model in gathered
        for name, scorer in [(OWN, None), *chosen.items()]
    ]
    rows += _kept(study, others, gathered, {OWN, *chosen})
    columns = ["probe_id", "model", "scorer", "score", "cluster", "task", "text", "reference", "answered"]
    scores = pd.DataFrame(rows, columns=columns)
    return Audited(
        study=study,
        scores=scores,
        swaps=fits.ScorerSwaps()(scores),
        edits={name: _edit(gathered, scorer) for name, scorer in [(OWN, None), *chosen.items()]},
        answers=len(gathered),
        models=tuple(dict.fromkeys(model for _, _, model in gathered)),
        absent=absent,
    )


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
    shown.insert(1, "wanted", [_clip(about.loc[key, "reference"]) for key in gap.index])
    shown.insert(2, "said", [_clip(key[2]) for key in gap.index])
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
        f"does so under all scorers. Edits change the dress of up to {_EDITED} answers and not their "
        "substance; a scorer is moved by one when the whole 95 % interval of its mean shift lies beyond "
        "±0.05. Failures are no answers and are left out.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned."
    )


# ── gathering ───────────────────────────────────────────────────────────────────────────────────────

Gathered = Sequence[tuple["Probe", "Observation", str]]


def _scorers(names: str) -> tuple[dict[str, Scorer], tuple[str, ...]]:
    """(name → scorer, why some cannot be used). Raises UsageError for a name that is none."""
    from bunny_probe.errors import UsageError, unknown_choice
    from bunny_probe.scores import SCORERS
    from bunny_probe.scores.embedding import default_folder

    wanted = tuple(name.strip() for name in names.split(",") if name.strip()) or _DEFAULT
    chosen: dict[str, Scorer] = {}
    absent = []
    for name in wanted:
        if name not in SCORERS:
            raise UsageError(unknown_choice("scorer", name, SCORERS))
        if name == "embedding":
            try:
                default_folder()
            except UsageError as error:
                absent.append(str(error))
                continue
        chosen[name] = SCORERS[name]
    return chosen, tuple(absent)


def _gather(study: Study, others: str) -> Gathered:
    """The answered observations that have a reference, of every model in the runs."""
    from bunny_probe.records import Outcome
    from bunny_probe.runs import Store

    wanted = set(study.frame["probe_id"])
    found = []
    for path in run_paths(study, others):
        with Store(path, write=False) as store:
            models = {key: str(value["model"]) for key, value in store.endpoints().items()}
            for probe, observation in store.observations():
                expected = probe.expectation
                judged = probe.id in wanted and expected.answers and expected.scorer in _JUDGED
                if judged and observation.attempt.outcome is Outcome.ANSWERED:
                    found.append((probe, observation, models[observation.endpoint]))
    return found


def _value(probe: Probe, observation: Observation, scorer: Scorer | None) -> float:
    from bunny_probe.scores import score

    found = score(probe, observation) if scorer is None else scorer(probe, observation)
    return float("nan") if found.value is None else found.value


def _score_row(
    probe: Probe, observation: Observation, model: str, name: str, scorer: Scorer | None
) -> tuple[object, ...]:
    value = _value(probe, observation, scorer)
    return _row_of(probe, observation, model, name, value)


def _row_of(probe: Probe, observation: Observation, model: str, name: str, value: float) -> tuple[object, ...]:
    return (
        probe.id, model, name, value, probe.cluster or probe.id, probe.task, observation.attempt.text,
        " / ".join(probe.expectation.answers), True,
    )  # fmt: skip


def _kept(study: Study, others: str, gathered: Gathered, known: set[str]) -> list[tuple[object, ...]]:
    """Scores that the runs hold from scorers that were not asked here: a judge's, a reward model's."""
    from bunny_probe.runs import Store

    at = {(o.endpoint, p.id, o.decoding.id, o.repeat): (p, o, model) for p, o, model in gathered}
    rows = []
    for path in run_paths(study, others):
        with Store(path, write=False) as store:
            for endpoint, probe_id, decoding, repeat, scorer, value in store.scores():
                found = at.get((endpoint, probe_id, decoding, repeat))
                if found is None or scorer in known or value is None or scorer == found[0].expectation.scorer:
                    continue
                rows.append(_row_of(*found, scorer, value))
    return rows


def _edit(gathered: Gathered, scorer: Scorer | None) -> ScorerEditsFit:
    from bunny_probe.scores.edits import EDITS, edit

    most = _EDITED_SLOWLY if scorer is not None and scorer.name == "embedding" else _EDITED
    step = max(len(gathered) // most, 1)
    picked = list(gathered)[::step][:most]
    language = {probe.language for probe, _, _ in picked}
    spoken = language.pop() if len(language) == 1 else "en"

    def value(index: int, text: str) -> float:
        probe, observation, _ = picked[index]
        return _value(probe, replace(observation, attempt=replace(observation.attempt, text=text)), scorer)

    dresses = {name: partial(edit, name, language=spoken) for name in EDITS}
    return fits.ScorerEdits(edits=dresses)(value, [o.attempt.text for _, o, _ in picked])


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def _by_scorer(part: pd.DataFrame) -> GroupsFit:
    return Groups(by=("scorer",))(part)


def _dots(fit: GroupsFit, title: str, width: float) -> Axes:
    return plots.group_dots(fit, title=title, width=width)


def _or(value: float | None) -> str:
    return "…" if value is None else f"{value:.2f}"


def _clip(text: object, limit: int = 100) -> str:
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
