"""Scorers that ask another model: the part without I/O.

A remote scorer is a frozen dataclass of parameters. It is called with (probe, observation, prompt, call),
where `call` is an async function that does the asking and that the caller provides: scorers stay pure, the
requests, their retries, costs and budget stay with the campaign.

    score = await Judge(votes=3)(probe, observation, rendered.messages, ask)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from bunny_probe.records import Message, Observation, Outcome, Probe, Score
from bunny_probe.scores.base import configure
from bunny_probe.scores.text import answer_text

__all__ = ["Ask", "LogLikelihood", "Rate", "RemoteScorer"]

Call = TypeVar("Call")


class Ask(Protocol):
    """Asks a chat endpoint. None: it gave no answer."""

    async def __call__(self, messages: Sequence[Message], *, seed: int) -> str | None: ...


class LogLikelihood(Protocol):
    """Natural log-probability of each token of `continuation` behind the prompt. None: not offered."""

    async def __call__(self, messages: Sequence[Message], continuation: str) -> Sequence[float] | None: ...


class Rate(Protocol):
    """Sends a body to a path of a reward endpoint and gives its JSON. None: it gave no answer."""

    async def __call__(self, path: str, body: dict[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class RemoteScorer(ABC, Generic[Call]):
    """Base of scorers that ask another model."""

    name: ClassVar[str] = ""

    async def __call__(
        self, probe: Probe, observation: Observation, prompt: Sequence[Message], call: Call
    ) -> Score:
        """The score of one observation; `not_scored`, without a call, unless it was answered.

        Raises ValueError when the observation belongs to another probe.
        """
        if observation.probe_id != probe.id:
            raise ValueError(f"observation of probe {observation.probe_id} scored against probe {probe.id}")
        outcome = observation.attempt.outcome
        if outcome is not Outcome.ANSWERED:
            return self.unscored(f"the outcome is {outcome.value}, not an answer")
        return await self.judge(probe, answer_text(observation.attempt.text), prompt, call)

    @abstractmethod
    async def judge(self, probe: Probe, text: str, prompt: Sequence[Message], call: Call) -> Score:
        """The score of an answer's text."""

    def configured(self, params: Mapping[str, Any]) -> Self:
        """This scorer with parameters set. Raises `UsageError` naming what it does not know."""
        return configure(self, self.name, params)

    def result(self, value: float | None, label: str, reason: str, /, **details: Any) -> Score:
        return Score(self.name, value, label, reason, details)

    def unscored(self, reason: str, /, **details: Any) -> Score:
        return self.result(None, "not_scored", reason, **details)
