"""Scorers: what an answer is worth, as pure functions of (probe, observation).

    score(probe, observation)  the probe's own scorer with its own parameters
    SCORERS                    every scorer by name, with default parameters
    REMOTE_SCORERS             those that ask another model, through an async function that the caller gives

A failure of the endpoint is never a wrong answer: it is `not_scored`, with the outcome as the reason.
"""

from __future__ import annotations

from typing import Any

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.records import Expectation, Observation, Probe, Score
from bunny_probe.scores.absent import Absent
from bunny_probe.scores.anchor import Anchor
from bunny_probe.scores.base import Scorer
from bunny_probe.scores.choice import Choice
from bunny_probe.scores.conflict import Conflict
from bunny_probe.scores.embedding import Embedding
from bunny_probe.scores.entities import Entities
from bunny_probe.scores.exact import Exact
from bunny_probe.scores.format import Format
from bunny_probe.scores.injection import Injection
from bunny_probe.scores.items import Items
from bunny_probe.scores.judge import Judge
from bunny_probe.scores.likelihood import Likelihood
from bunny_probe.scores.negation import Negation
from bunny_probe.scores.number import Number
from bunny_probe.scores.overlap import Overlap
from bunny_probe.scores.remote import RemoteScorer
from bunny_probe.scores.repetition import Repetition
from bunny_probe.scores.reward import Reward

__all__ = ["REMOTE_SCORERS", "SCORERS", "RemoteScorer", "Scorer", "score", "scorer_for"]

REMOTE_SCORERS: dict[str, RemoteScorer[Any]] = {
    scorer.name: scorer for scorer in (Judge(), Likelihood(), Reward())
}

SCORERS: dict[str, Scorer] = {
    scorer.name: scorer
    for scorer in (
        Absent(),
        Anchor(),
        Choice(),
        Conflict(),
        Embedding(),
        Entities(),
        Exact(),
        Format(),
        Injection(),
        Items(),
        Negation(),
        Number(),
        Overlap(),
        Repetition(),
    )
}


def scorer_for(expectation: Expectation) -> Scorer:
    """The scorer that an expectation names, with its parameters. Raises `UsageError` with the choices."""
    if expectation.scorer not in SCORERS:
        raise UsageError(unknown_choice("scorer", expectation.scorer, SCORERS))
    return SCORERS[expectation.scorer].configured(expectation.params)


def score(probe: Probe, observation: Observation) -> Score:
    """The score of one observation by the probe's own scorer.

    Label `not_scored` and value None unless the outcome is `answered`. Raises `UsageError` for an unknown
    scorer or parameter.
    """
    return scorer_for(probe.expectation)(probe, observation)
