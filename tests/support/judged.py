"""Builds a probe and an answer to it, for the scorers' tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bunny_probe.records import (
    Anchor,
    Attempt,
    Decoding,
    Expectation,
    Observation,
    Outcome,
    Probe,
    Recipe,
    Score,
)
from bunny_probe.scores import score


def probe_of(
    scorer: str,
    answers: Sequence[str] = (),
    distractors: Sequence[str] = (),
    anchors: Sequence[Anchor] = (),
    language: str = "en",
    **params: Any,
) -> Probe:
    expectation = Expectation(scorer, tuple(answers), tuple(distractors), params)
    return Probe("f", "t", Recipe("", ""), expectation, None, language=language, anchors=tuple(anchors))


def answer_to(probe: Probe, text: str, outcome: Outcome = Outcome.ANSWERED, evidence: str = "") -> Observation:
    return Observation(probe.id, "e", Decoding(), 0, Attempt(outcome, evidence, text), 1, "", None)


def judged(scorer: str, text: str, answers: Sequence[str] = (), *rest: Any, **params: Any) -> Score:
    probe = probe_of(scorer, answers, *rest, **params)
    return score(probe, answer_to(probe, text))
