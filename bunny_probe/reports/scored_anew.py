"""The answers that a scorer audit rests on: gathered, scored by several scorers, edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from bunny_probe import fits
from bunny_probe.fits.audit import ScorerEditsFit, ScorerSwapsFit
from bunny_probe.reports.beside import run_paths

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.records import Observation, Probe
    from bunny_probe.reports.study import Study
    from bunny_probe.scores import Scorer

__all__ = ["EDITED", "OWN", "Audited", "audit"]

OWN = "the probe's own"
_JUDGED = ("anchor", "items", "number", "entities", "exact", "overlap")  # scorers that know a right answer
_DEFAULT = ("exact", "overlap")
EDITED = 40  # answers that are edited and scored again
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

    most = _EDITED_SLOWLY if scorer is not None and scorer.name == "embedding" else EDITED
    step = max(len(gathered) // most, 1)
    picked = list(gathered)[::step][:most]
    language = {probe.language for probe, _, _ in picked}
    spoken = language.pop() if len(language) == 1 else "en"

    def value(index: int, text: str) -> float:
        probe, observation, _ = picked[index]
        return _value(probe, replace(observation, attempt=replace(observation.attempt, text=text)), scorer)

    dresses = {name: partial(edit, name, language=spoken) for name in EDITS}
    return fits.ScorerEdits(edits=dresses)(value, [o.attempt.text for _, o, _ in picked])
