"""Decides what an answer says: right, another anchor's value, no answer, a made-up one, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bunny_probe.phantom.ask import Ask
from bunny_probe.phantom.behaviour import Behaviour
from bunny_probe.phantom.draws import uniform
from bunny_probe.phantom.truth import Truth
from bunny_probe.phantom.wording import broken, right, wrong
from bunny_probe.phantom.words import filler

__all__ = ["Answer", "decide", "point_of"]

Kind = Literal["hit", "wrong_anchor", "abstain", "miss", "refusal", "free"]


@dataclass(frozen=True, slots=True)
class Answer:
    kind: Kind
    text: str
    broken: bool = False  # the asked format is broken


def point_of(ask: Ask, truth: Truth, prompt_tokens: int, *, slow: bool) -> dict[str, float]:
    """The variables of `curves.VARIABLES` for one request."""
    return {
        "L": float(max(1, prompt_tokens)),
        "depth": 0.5 if truth.depth is None else truth.depth,
        "T": ask.temperature,
        "slow": float(slow),
        "repetition_penalty": ask.repetition_penalty,
        "frequency_penalty": ask.frequency_penalty,
        "presence_penalty": ask.presence_penalty,
    }


def decide(
    behaviour: Behaviour,
    truth: Truth,
    prompt_hash: str,
    point: dict[str, float],
    draw: tuple[object, ...],
    *,
    lost: bool,
) -> Answer:
    """`draw` names the sample: greedy, seeded or counted. `lost`: the fact was cut off the prompt."""
    key: tuple[object, ...] = (behaviour.seed, prompt_hash, *draw)
    if draw != ("greedy",) and uniform("same", *key) < behaviour.value("consistency", **point):
        key = (behaviour.seed, prompt_hash, "greedy")
    rates = behaviour.rates(**point)
    if uniform("refusal", *key) < rates.refusal:
        return Answer("refusal", behaviour.refusal_text)
    spoiled = uniform("format", *key) < rates.format_break
    if not truth.judged:
        return Answer("free", "".join(filler(("free", *key), behaviour.free_tokens)))
    if truth.every and not spoiled:
        return _several(truth, behaviour, 0.0 if lost else rates.hit, key)

    def said(kind: Kind, value: str) -> Answer:
        if spoiled:
            return Answer(kind, truth.bad if truth.bad is not None else broken(value), True)
        whole = value == truth.good  # a whole answer already
        return Answer(kind, value if whole else behaviour.answer_template.replace("{answer}", value))

    u = uniform("recall", *key)
    if u < rates.hit and not lost:
        return said("hit", right(truth, key))
    if u < rates.hit + rates.wrong_anchor and truth.distractors and not lost:
        return said("wrong_anchor", truth.distractors[int(uniform("which", *key) * len(truth.distractors))])
    if rates.hit + rates.wrong_anchor <= u < rates.hit + rates.wrong_anchor + rates.abstain:
        return Answer("abstain", behaviour.abstain_text)
    return said("miss", wrong(truth, key))


def _several(truth: Truth, behaviour: Behaviour, hit: float, key: tuple[object, ...]) -> Answer:
    """Where several items are wanted, each is given with the probability of recall."""
    given = [item for i, item in enumerate(truth.answers) if uniform("item", *key, i) < hit]
    if not given:
        return Answer("miss", behaviour.abstain_text)
    kind: Kind = "hit" if len(given) == len(truth.answers) else "miss"
    return Answer(kind, behaviour.answer_template.replace("{answer}", ", ".join(given)))
