"""What a scorer is: a frozen dataclass of parameters whose call maps (probe, observation) to a Score.

    score = Anchor(max_asides=2)(probe, observation)

A scorer is pure, judges one answer, and never sees an observation that is not an answer: a failure is
told as `not_scored`, with the outcome, and never as a score of 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.records import Observation, Outcome, Probe, Score
from bunny_probe.scores.text import answer_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Scorer", "clip", "configure"]

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Scorer(ABC):
    """Base of all scorers. Subclasses set `name` and implement `judge`."""

    name: ClassVar[str] = ""

    def __call__(self, probe: Probe, observation: Observation) -> Score:
        """The score of one observation; label `not_scored`, value None unless it was answered.

        Raises ValueError when the observation belongs to another probe.
        """
        if observation.probe_id != probe.id:
            raise ValueError(f"observation of probe {observation.probe_id} scored against probe {probe.id}")
        attempt = observation.attempt
        if attempt.outcome is not Outcome.ANSWERED:
            why = f": {attempt.evidence}" if attempt.evidence else ""
            return self.unscored(f"the outcome is {attempt.outcome.value}, not an answer{why}")
        return self.judge(probe, answer_text(attempt.text))

    @abstractmethod
    def judge(self, probe: Probe, text: str) -> Score:
        """The score of an answer's text."""

    def configured(self, params: Mapping[str, Any]) -> Self:
        """This scorer with an expectation's parameters. Raises `UsageError` naming what it does not know."""
        return configure(self, self.name, params)

    def result(self, value: float | None, label: str, reason: str, /, **details: Any) -> Score:
        return Score(self.name, value, label, reason, details)

    def unscored(self, reason: str) -> Score:
        return self.result(None, "not_scored", reason)


def configure(scorer: T, name: str, params: Mapping[str, Any]) -> T:
    """A scorer (a dataclass) with parameters set. Raises `UsageError` naming what it does not know."""
    known = {f.name: f for f in fields(scorer)}
    for key, value in params.items():
        if key not in known:
            raise UsageError(unknown_choice(f"parameter of scorer {name!r}", key, known))
        _check_kind(name, key, value, known[key].default)
    return replace(scorer, **{key: _frozen(value) for key, value in params.items()})


def _check_kind(scorer: str, key: str, value: Any, default: Any) -> None:
    """A parameter must have the kind of its default; a parameter without one, or with None, is free."""
    if default is MISSING or default is None:
        return
    kinds: tuple[type, ...] = (type(default),)
    if isinstance(default, bool):
        good = isinstance(value, bool)
    elif isinstance(default, float):
        good = isinstance(value, int | float) and not isinstance(value, bool)
    elif isinstance(default, tuple):
        good, kinds = isinstance(value, list | tuple), (list,)
    else:
        good = isinstance(value, kinds) and not (isinstance(default, int) and isinstance(value, bool))
    if not good:
        wanted = "/".join(kind.__name__ for kind in kinds)
        raise UsageError(f"parameter {key!r} of scorer {scorer!r} is {value!r}; it takes a {wanted}")


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def clip(text: str, limit: int = 60) -> str:
    """The text in one short line, for a reason."""
    flat = " ".join(text[: 4 * limit].split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
