"""Decides what an answer says: right, another anchor's value, no answer, a made-up one, or a refusal."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Literal

from bunny_probe.phantom.ask import Ask
from bunny_probe.phantom.behaviour import Behaviour
from bunny_probe.phantom.draws import digest, uniform
from bunny_probe.phantom.truth import Truth
from bunny_probe.phantom.words import filler, word

__all__ = ["Answer", "decide", "made_up"]

Kind = Literal["hit", "wrong_anchor", "abstain", "miss", "refusal", "free"]


@dataclass(frozen=True, slots=True)
class Answer:
    kind: Kind
    text: str
    broken: bool = False  # the asked format is broken


def decide(
    ask: Ask,
    behaviour: Behaviour,
    truth: Truth,
    prompt_hash: str,
    prompt_tokens: int,
    draw: tuple[object, ...],
    *,
    slow: bool,
    lost: bool,
) -> Answer:
    """`draw` names the sample: greedy, seeded or counted. `lost`: the answer was cut off the prompt."""
    point = {
        "L": float(prompt_tokens),
        "depth": 0.5 if truth.depth is None else truth.depth,
        "T": ask.temperature,
        "slow": float(slow),
        "repetition_penalty": ask.repetition_penalty,
        "frequency_penalty": ask.frequency_penalty,
        "presence_penalty": ask.presence_penalty,
    }
    key: tuple[object, ...] = (behaviour.seed, prompt_hash, *draw)
    if draw != ("greedy",) and uniform("same", *key) < behaviour.value("consistency", **point):
        key = (behaviour.seed, prompt_hash, "greedy")
    rates = behaviour.rates(**point)
    if uniform("refusal", *key) < rates.refusal:
        return Answer("refusal", behaviour.refusal_text)
    broken = uniform("format", *key) < rates.format_break
    if truth.source == "none" and not truth.answers and truth.good is None:
        return Answer("free", "".join(filler(("free", *key), behaviour.free_tokens)))
    u = uniform("recall", *key)
    hit = u < rates.hit and not lost
    if truth.every and not broken:
        return _several(truth, behaviour, 0.0 if lost else rates.hit, key)
    if hit:
        right = truth.good if truth.good is not None else (truth.answers or ("",))[0]
        return Answer("hit", _said(right, behaviour, truth, broken), broken)
    if u < rates.hit + rates.wrong_anchor and truth.distractors and not lost:
        value = truth.distractors[int(uniform("which", *key) * len(truth.distractors))]
        return Answer("wrong_anchor", _said(value, behaviour, truth, broken), broken)
    if rates.hit + rates.wrong_anchor <= u < rates.hit + rates.wrong_anchor + rates.abstain:
        return Answer("abstain", behaviour.abstain_text)
    value = made_up((truth.answers or (truth.good or "",))[0], (*truth.answers, *truth.distractors), key)
    return Answer("miss", _said(value, behaviour, truth, broken), broken)


def _several(truth: Truth, behaviour: Behaviour, hit: float, key: tuple[object, ...]) -> Answer:
    """Where several items are wanted, each is given with the probability of recall."""
    given = [item for i, item in enumerate(truth.answers) if uniform("item", *key, i) < hit]
    if not given:
        return Answer("miss", behaviour.abstain_text)
    kind: Kind = "hit" if len(given) == len(truth.answers) else "miss"
    return Answer(kind, behaviour.answer_template.replace("{answer}", ", ".join(given)))


def _said(value: str, behaviour: Behaviour, truth: Truth, broken: bool) -> str:
    if broken:
        return truth.bad if truth.bad is not None else _broken(value)
    if value == truth.good:
        return value  # it is a whole answer already
    return behaviour.answer_template.replace("{answer}", value)


def _broken(text: str) -> str:
    """The answer as a model spoils it: talk before it, and the last closing sign gone."""
    trimmed = text.rstrip()
    if trimmed and trimmed[-1] in '}]>)`"':
        trimmed = trimmed[:-1]
    return f"Sure! Here is what you asked for:\n\n{trimmed}"


def made_up(answer: str, taken: tuple[str, ...], key: tuple[object, ...]) -> str:
    """A value of the same shape as the answer that contains none of the values in the prompt, nor is in one."""
    for attempt in range(64):
        value = _reshaped(answer, digest("made up", *key, attempt))
        low = value.casefold()
        if low and not any(t and (t.casefold() in low or low in t.casefold()) for t in taken):
            return value
    return word(*key, "made up")


def _reshaped(answer: str, chance: bytes) -> str:
    letters = []
    for i, character in enumerate(answer):
        pick = chance[i % len(chance)] ^ (i // len(chance) * 37 & 0xFF)
        if character in string.digits:
            letters.append(string.digits[pick % 10])
        elif character in string.ascii_uppercase:
            letters.append(string.ascii_uppercase[pick % 26])
        elif character in string.ascii_lowercase:
            letters.append(string.ascii_lowercase[pick % 26])
        elif "\u3400" <= character <= "\u9fff":
            letters.append("甲乙丙丁戊己庚辛壬癸"[pick % 10])
        else:
            letters.append(character)
    return "".join(letters)
