"""Blind votes on pairs of answers: shuffled, unnamed, kept in the run file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bunny_probe.records import content_hash

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["META", "Ballot", "Choice", "Pair", "ballot_of", "read_votes", "show_ballot"]

META = "arena_votes"  # the key in the run's meta table
Choice = Literal["left", "right", "equal"]
_VALUES: Mapping[str, float] = {"left": 1.0, "right": 0.0, "equal": 0.5}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models' answers to one probe. The names are not for the voter."""

    probe_id: str
    question: str
    wanted: str
    left: tuple[str, str]  # model, answer
    right: tuple[str, str]


@dataclass(slots=True)
class Ballot:
    """Pairs in the order of showing; each vote is written at once."""

    pairs: Sequence[Pair]
    run_path: Path
    at: int = 0
    cast: int = field(default=0)

    @property
    def pair(self) -> Pair | None:
        """The pair to show; None when all were."""
        return self.pairs[self.at] if self.at < len(self.pairs) else None

    def vote(self, choice: Choice) -> None:
        """Keep the voter's choice in the run and go on. Raises RunError when another process writes to it."""
        pair = self.pair
        if pair is None:
            return
        from bunny_probe.runs import Store

        with Store(self.run_path) as store:
            kept = list(store.meta(META) or [])
            kept.append(
                {"probe": pair.probe_id, "left": pair.left[0], "right": pair.right[0], "chosen": choice}
            )
            store.set_meta(META, kept)
        self.cast += 1
        self.at += 1

    def skip(self) -> None:
        """Go on without a vote."""
        self.at += 1


def read_votes(run_path: Path) -> list[tuple[str, str, float]]:
    """(one model, other model, 1, 0 or 0.5) of every vote in the run, as `BradleyTerry` takes them."""
    from bunny_probe.runs import Store

    with Store(run_path, write=False) as store:
        kept: list[dict[str, Any]] = store.meta(META) or []
    return [(v["left"], v["right"], _VALUES[v["chosen"]]) for v in kept if v.get("chosen") in _VALUES]


def ballot_of(frames: Mapping[str, pd.DataFrame], run_path: Path, *, count: int = 20, seed: int = 0) -> Ballot:
    """Up to `count` pairs of different answers to one probe that nobody has voted on yet.

    Which pair comes when, and who stands on which side, is decided by a hash of pair and seed: the side
    tells nothing about the model.
    """
    from bunny_probe.runs import Store

    with Store(run_path, write=False) as store:
        probes = {probe.id: probe for probe in store.probes()}
        done = {(v["probe"], frozenset((v["left"], v["right"]))) for v in store.meta(META) or []}
    answers: dict[str, dict[str, str]] = {}
    for name, frame in frames.items():
        told = frame[frame["answered"].fillna(False)]
        for probe_id, text in zip(told["probe_id"], told["text"].fillna(""), strict=True):
            answers.setdefault(str(probe_id), {}).setdefault(name, str(text))
    found = []
    for probe_id, by_model in answers.items():
        names = sorted(by_model)
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                same = by_model[one].split() == by_model[other].split()
                if same or (probe_id, frozenset((one, other))) in done or probe_id not in probes:
                    continue
                mark = content_hash([seed, probe_id, one, other], length=16)
                first, second = (one, other) if int(mark[0], 16) % 2 else (other, one)
                expected = probes[probe_id]
                pair = Pair(
                    probe_id,
                    " ".join((expected.recipe.tail or expected.recipe.head).split())[-600:],
                    " / ".join(expected.expectation.answers),
                    (first, by_model[first]),
                    (second, by_model[second]),
                )
                found.append((mark[1:], pair))
    found.sort(key=lambda item: item[0])
    return Ballot([pair for _, pair in found[:count]], run_path)


def show_ballot(ballot: Ballot) -> Any:
    """The widget to vote with: two answers without names, four buttons. Raises MissingExtra."""
    from html import escape

    from bunny_probe.errors import MissingExtra

    try:
        import ipywidgets as widgets
    except ImportError as error:
        raise MissingExtra("ipywidgets", "notebooks", "voting") from error
    text = widgets.HTML()
    sides = [widgets.HTML(layout=widgets.Layout(width="50%", padding="0 12px")) for _ in range(2)]
    labels: dict[str, Choice | None] = {
        "The left one": "left", "They are equal": "equal", "The right one": "right", "Skip": None
    }  # fmt: skip
    buttons = [widgets.Button(description=label) for label in labels]

    def draw() -> None:
        pair = ballot.pair
        for button in buttons:
            button.disabled = pair is None
        if pair is None:
            text.value = f"<p><strong>Done: {ballot.cast} votes kept.</strong> Run the next cell.</p>"
            for side in sides:
                side.value = ""
            return
        wanted = f"<p>The right answer: <strong>{escape(pair.wanted)}</strong></p>" if pair.wanted else ""
        text.value = (
            f"<p>Pair {ballot.at + 1} of {len(ballot.pairs)}. Which answer is better?</p>"
            f"<p>{escape(pair.question)}</p>{wanted}"
        )
        for side, (_, answer) in zip(sides, (pair.left, pair.right), strict=True):
            side.value = f"<pre style='white-space:pre-wrap'>{escape(answer)}</pre>"

    def press(button: Any) -> None:
        choice = labels[button.description]
        if choice is None:
            ballot.skip()
        else:
            ballot.vote(choice)
        draw()

    for button in buttons:
        button.on_click(press)
    draw()
    return widgets.VBox([text, widgets.HBox(sides), widgets.HBox(buttons)])
