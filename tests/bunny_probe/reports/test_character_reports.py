"""The fingerprint and the scorer audit on runs of phantoms whose character is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_pages import caught, frame_of, study_of

from bunny_probe.errors import UsageError
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.reports import beside, diagnose, fingerprint, open_study, scorer_audit
from bunny_probe.runs import Store

SUITE = """
name = "tiny"
description = "A few questions"
seed = 3
[[probe]]
family = "length"
task = "single"
lengths = [300]
samples = 24
params = { distractors = 2 }
"""


def test_a_character_is_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: heat 1 takes half of the score, penalty 1.5 a quarter; samples agree in half of the pairs."""
    rows = []
    for i in range(40):
        base = {"family": "decoding", "probe_id": f"t{i}", "cluster": str(i)}
        hot = {**base, "task": "temperature", "temperature": 1.0, "decoding_id": "hot"}
        rows += [{**base, "task": "temperature", "score": 1.0}, {**hot, "score": float(i % 2)}]
        base |= {"task": "repetition_penalty", "probe_id": f"p{i}", "repetition_penalty": 1.0}
        hard = {**base, "repetition_penalty": 1.5, "decoding_id": "hard", "score": float(i % 4 != 0)}
        rows += [{**base, "score": 1.0}, hard]
        for seed in (1, 2):
            sample = {"task": "self_consistency", "probe_id": f"c{i}", "decoding_seed": seed, "score": 1.0}
            text = "same" if i % 2 else f"other {seed}"
            rows.append({**base, **sample, "decoding_id": f"s{seed}", "text": text, "length_tokens": 512})
    study = study_of(frame_of(rows))
    models = fingerprint.Characters(
        study, {"m": study.frame}, {"m": fingerprint.agreement(study.frame)}
    )  # fmt: skip
    fit = models.agreement["m"]
    assert fit.resilience is not None
    assert fit.sensitivity is not None
    assert fit.consistency is not None
    assert fit.resilience.value == pytest.approx(0.5)
    assert fit.sensitivity.value == pytest.approx(0.5)
    assert fit.consistency.value == pytest.approx(0.5)
    page = caught(monkeypatch, fingerprint, diagnose)
    for name in fingerprint.__all__:
        if name not in {"Characters", "agreement", "answers", "compare", "outcomes"}:
            getattr(fingerprint, name)(models)
    text = "\n".join(page)
    assert "50%" in text
    assert "nan" not in text


def test_thin_fingerprints_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing asked twice, at one temperature: every section says so and none raises."""
    page = caught(monkeypatch, fingerprint, diagnose)
    study = study_of(frame_of([{"family": "length", "task": "single", "length_tokens": 512, "score": 1.0}]))
    models = fingerprint.Characters(study, {"m": study.frame}, {"m": fingerprint.agreement(study.frame)})
    for name in ("headline", "consistency", "heat", "penalty", "portrait", "determinism", "entropy", "method"):
        before = len(page)
        getattr(fingerprint, name)(models)
        assert len(page) > before, name


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of known recall in one run file."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "tiny.toml").write_text(SUITE, "utf-8")
    with Phantom([Behaviour("good", recall=1.0), Behaviour("bad", recall=0.0, wrong_anchor=1.0)]) as phantom:
        for model in ("phantom-bad", "phantom-good"):
            study = open_study(
                endpoint=phantom.url, model=model, suite=str(folder / "tiny.toml"), concurrency=8,
                run_path=str(folder / "run.db"),
            )  # fmt: skip
    assert len(study.frame) == 24
    return folder / "run.db"


def test_a_scorer_of_substance_is_told_from_one_of_dress(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The anchor scorer shrugs off every edit, the exact one falls for closings; both order the models."""
    from bunny_probe.runs import frame

    rows = frame(run)
    good = rows[rows["model"] == "phantom-good"].reset_index(drop=True)
    study = study_of(good, run)
    audited = scorer_audit.audit(study)
    shifts = {name: {s.edit: s for s in fit.shifts} for name, fit in audited.edits.items()}
    assert not any(s.fooled for s in shifts[scorer_audit.OWN].values())
    assert shifts["exact"]["add_closing"].fooled
    assert set(audited.models) == {"phantom-good", "phantom-bad"}
    assert not audited.swaps.collapsed
    page = caught(monkeypatch, scorer_audit)
    for name in scorer_audit.__all__:
        if name not in {"OWN", "Audited", "audit"}:
            getattr(scorer_audit, name)(audited)
    text = "\n".join(page)
    assert "put the models in the same order." in text
    assert "nan" not in text


def test_a_judges_scores_in_the_run_are_audited_too(run: Path) -> None:
    """Scores that another scorer kept in the run stand beside those made here, and a flat one has collapsed."""
    from dataclasses import replace

    from bunny_probe.records import Score

    with Store(run) as store:
        pairs = list(store.observations())
        store.save_scores([(o, Score("judge", 0.5, "partial", "always half")) for _, o in pairs])
        assert sum(row[4] == "judge" for row in store.scores()) == len(pairs)
    from bunny_probe.runs import frame

    study = replace(study_of(frame(run), run), endpoint="x")
    audited = scorer_audit.audit(study)
    assert "judge" in set(audited.scores["scorer"])
    assert audited.swaps.collapsed == ("judge",)


def test_unknown_scorers_are_named(run: Path) -> None:
    """A scorer that does not exist is refused with the choices."""
    from bunny_probe.runs import frame

    with pytest.raises(UsageError, match="anchor"):
        scorer_audit.audit(study_of(frame(run), run), scorers="exakt")


def test_models_beside_are_found_in_the_run(run: Path) -> None:
    """Both models of a run file are drawn, the study's own first, by model name."""
    from bunny_probe.runs import frame

    rows = frame(run)
    bad = rows[rows["model"] == "phantom-bad"].reset_index(drop=True)
    from dataclasses import replace

    study = replace(study_of(bad, run), endpoint=str(bad["endpoint"].iloc[0]))
    assert list(beside.beside(study)) == ["phantom-bad", "phantom-good"]
