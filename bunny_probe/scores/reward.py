"""A reward model's opinion, from a vLLM-style server: /score, /classify or /pooling.

Rewards have no scale of their own: value = 1 / (1 + exp(-(reward - centre) / spread)). `/score` and a
`/classify` of probabilities lie in [0, 1] already and are taken as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.records import Message, Probe, Score
from bunny_probe.scores.remote import Rate, RemoteScorer

__all__ = ["KINDS", "Reward", "request", "reward_of"]

KINDS = ("score", "classify", "pooling")


@dataclass(frozen=True, slots=True)
class Reward(RemoteScorer[Rate]):
    """`kind` names the endpoint's path. For /classify, `index` is the class whose probability counts."""

    name: ClassVar[str] = "reward"
    model: str = ""
    kind: str = "classify"
    index: int = 0
    centre: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(unknown_choice("kind of scorer 'reward'", self.kind, KINDS))
        if not self.spread > 0:
            raise UsageError(
                f"parameter 'spread' of scorer 'reward' is {self.spread!r}; it takes a number above 0"
            )

    async def judge(self, probe: Probe, text: str, prompt: Sequence[Message], call: Rate) -> Score:
        path, body = request(self.kind, self.model, prompt, text)
        response = await call(path, body)
        try:
            reward = reward_of(self.kind, response, self.index)
        except (LookupError, TypeError, ValueError) as error:
            return self.unscored(f"{path} gave no reward: {error}")
        if self.kind != "pooling" and 0.0 <= reward <= 1.0:
            value = reward
        else:
            value = _logistic((reward - self.centre) / self.spread)
        return self.result(value, "partial", f"{path} gives {reward:.4g}", reward=reward)


def request(kind: str, model: str, prompt: Sequence[Message], answer: str) -> tuple[str, dict[str, Any]]:
    """Path and body that ask for the reward of an answer."""
    if kind == "score":
        asked = "\n\n".join(message.content for message in prompt)
        return "/score", {"model": model, "text_1": asked, "text_2": answer}
    turns = [{"role": m.role, "content": m.content} for m in prompt]
    messages = [*turns, {"role": "assistant", "content": answer}]
    if kind == "pooling":
        return "/pooling", {"model": model, "messages": messages}
    return "/classify", {"model": model, "messages": messages}


def reward_of(kind: str, response: Any, index: int = 0) -> float:
    """The reward in a response. Raises LookupError, TypeError or ValueError when there is none."""
    item = response["data"][0]
    if kind == "score":
        found = item["score"]
    elif kind == "classify":
        found = item["probs"][index]
    else:  # one number, one a token (the last one counts), or one row a token
        found = item["data"]
        while isinstance(found, list):
            found = found[-1]
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise TypeError(f"{found!r} is not a number")
    if not math.isfinite(found):
        raise ValueError(f"{found!r} is not finite")
    return float(found)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
