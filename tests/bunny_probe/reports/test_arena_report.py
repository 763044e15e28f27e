"""The arena: several models in one run, blind votes that are kept, and a ranking that says what decides it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from report_pages import caught, frame_of, study_of

from bunny_probe.errors import UsageError
from bunny_probe.fits.bradley_terry import BradleyTerry
from bunny_probe.fits.ranking import Ranking
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.reports import arena, ballot

SUITE = """
name = "tiny"
description = "A few questions"
seed = 3
[[probe]]
family = "length"
task = "single"
lengths = [300]
samples = 16
params = { distractors = 2 }
"""
MODELS = ("phantom-good", "phantom-bad")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[arena.Arena]:
    """A good and a bad model, asked through the arena itself."""
    folder = tmp_path_factory.mktemp("arena")
    (folder / "tiny.toml").write_text(SUITE, "utf-8")
    with Phantom([Behaviour("good", recall=1.0), Behaviour("bad", recall=0.0, wrong_anchor=1.0)]) as phantom:
        yield arena.open_arena(
            endpoint=phantom.url, model=MODELS[0], rivals=[MODELS[1]], suite=str(folder / "tiny.toml"),
            run_path=str(folder / "run.db"), concurrency=8,
        )  # fmt: skip


def test_every_rival_is_asked_and_the_better_one_wins(
    case: arena.Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both models answer the same probes; quality names the good one; every section has its say."""
    assert tuple(case.frames) == MODELS
    assert all(len(frame) == 16 for frame in case.frames.values())
    by_quality = Ranking(weights=(0, 1, 0))(case.frames)
    assert by_quality.rows[0].name == "phantom-good"
    page = caught(monkeypatch, arena)
    for name in arena.__all__:
        if name not in {"Arena", "open_arena", "rivals_of"}:
            getattr(arena, name)(case)
    text = "\n".join(page)
    assert "n = 16 scored answers" in text
    assert "nan" not in text


def test_a_radar_is_drawn_when_it_is_asked_for(case: arena.Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by default; with it comes one picture more, whose words name every corner and warn of its area."""
    page = caught(monkeypatch, arena)
    arena.ranking(case)
    plain = [text for text in page if "Radar" in text]
    arena.ranking(case, radar=True)
    (drawn,) = [text for text in page if "Radar" in text]
    assert plain == []
    assert all(f"{name}: speed " in drawn for name in MODELS)


def test_votes_are_blind_shuffled_and_kept(case: arena.Arena) -> None:
    """No model name is shown, sides change, a vote is in the run at once and its pair does not come again."""
    import ipywidgets as widgets

    run = case.study.run_path
    box = ballot.ballot_of(case.frames, run, count=100, seed=1)
    assert len(box.pairs) == 16
    assert {pair.left[0] for pair in box.pairs} == set(MODELS)
    drawn = ballot.show_ballot(box)
    text, sides, buttons = drawn.children
    for _ in range(10):
        seen = " ".join([text.value, *(side.value for side in sides.children)])
        assert not any(name in seen for name in MODELS)
        assert box.pair is not None
        wanted = "left" if box.pair.left[0] == "phantom-good" else "right"
        button: widgets.Button = next(b for b in buttons.children if wanted in b.description)
        button.click()
    buttons.children[1].click()  # equal
    buttons.children[3].click()  # skip
    votes = ballot.read_votes(run)
    assert len(votes) == 11
    fit = BradleyTerry()(votes)
    assert fit.standings[0].name == "phantom-good"
    assert fit.ties == 1
    assert fit.standings[0].wins == 10.5
    left = ballot.ballot_of(case.frames, run, count=100, seed=1)
    assert len(left.pairs) == 5
    while box.pair is not None:
        box.skip()
    box.vote("left")  # nothing is left to vote on
    assert len(ballot.read_votes(run)) == 11


def test_rivals_are_named_in_two_ways() -> None:
    """A model at the same endpoint, or at another; an empty one is refused."""
    here = "http://here/v1"
    assert arena.rivals_of(["a", "b @ http://there/v1"], here) == [(here, "a"), ("http://there/v1", "b")]
    with pytest.raises(UsageError, match="model @ url"):
        arena.rivals_of([" @ http://there"], here)
    with pytest.raises(UsageError, match="three numbers"):
        arena.open_arena(endpoint=here, weights=[1, 2])


def test_one_model_is_no_contest(case: arena.Arena, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a single model, or nothing at all, every section says so and none raises."""
    page = caught(monkeypatch, arena)
    monkeypatch.setattr(arena, "ballot_of", lambda *_, **__: ballot.Ballot([], tmp_path))
    for frame in (case.study.frame, frame_of([])):
        lone = arena.Arena(study_of(frame), {"m": frame}, BradleyTerry()([]), Ranking()({"m": frame}))
        for name in arena.__all__:
            if name not in {"Arena", "open_arena", "rivals_of"}:
                before = len(page)
                getattr(arena, name)(lone)
                assert len(page) > before, name
    assert "nobody to compare it with" in "\n".join(page)
