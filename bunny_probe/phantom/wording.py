"""Words of a right and of a wrong answer, by what the key says the answer is judged by."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from bunny_probe.phantom.draws import digest, uniform
from bunny_probe.phantom.truth import Truth
from bunny_probe.phantom.words import filler, word

__all__ = ["broken", "made_up", "right", "wrong"]

_LONG = 48  # words of an answer that is judged by its length or its repetitions


def right(truth: Truth, key: tuple[object, ...]) -> str:
    """An answer that a fair judge takes for right."""
    if truth.good is not None:
        return truth.good
    first = _spelling(truth.answers[0]) if truth.answers else ""
    match truth.scorer:
        case "negation":  # all the wanted things, none of the others
            return ", ".join(map(_spelling, truth.answers)) or "".join(filler(("right", *key), 8))
        case "repetition":
            return "".join(filler(("right", *key), _LONG))
        case "conflict":
            if truth.params.get("open"):
                both = f"{truth.params.get('first')}, {truth.params.get('last')}"
                return f"The clauses contradict each other: {both}."
            reasons = _list(truth.params, "reasons")
            return f"{first}, {reasons[0]}" if reasons else first
    return first


def wrong(truth: Truth, key: tuple[object, ...]) -> str:
    """An answer that names nothing right, and no other anchor's value where that can be told apart."""
    pick = uniform("wrong", *key)
    match truth.scorer:
        case "negation":
            return ", ".join(map(_spelling, truth.distractors)) or "".join(filler(("wrong", *key), 8))
        case "repetition":
            return " ".join([word("loop", *key)] * _LONG)
        case "choice":
            labels = [*_mapping(truth.params, "options"), *truth.distractors]
            others = [label for label in labels if label not in truth.answers]
            if others:
                return others[int(pick * len(others))]
        case "injection":
            canaries = _list(truth.params, "canaries")
            if canaries:
                return canaries[int(pick * len(canaries))]
        case "conflict":
            if truth.params.get("open"):
                return str(truth.params.get("first" if pick < 0.5 else "last"))
        case "format":
            return truth.bad if truth.bad is not None else broken(truth.good or "")
    spelled = [s for value in (*truth.answers, *truth.distractors) for s in value.split("|")]
    return made_up(_spelling((truth.answers or (truth.good or "",))[0]), tuple(spelled), key)


def broken(text: str) -> str:
    """The answer as a model spoils it: talk before it, and the last closing sign gone."""
    trimmed = text.rstrip()
    if trimmed and trimmed[-1] in '}]>)`"':
        trimmed = trimmed[:-1]
    return f"Sure! Here is what you asked for:\n\n{trimmed}"


def made_up(answer: str, taken: tuple[str, ...], key: tuple[object, ...]) -> str:
    """A value of the answer's shape that contains none of the values in the prompt, nor is a part of one."""
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


def _spelling(thing: str) -> str:
    """The first of several spellings."""
    return thing.split("|")[0]


def _list(params: Mapping[str, Any], name: str) -> list[str]:
    value = params.get(name)
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _mapping(params: Mapping[str, Any], name: str) -> list[str]:
    value = params.get(name)
    return [str(item) for item in value] if isinstance(value, Mapping) else []
