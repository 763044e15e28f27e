"""Log-probabilities as JSON: what an engine gives, made safe for clients that compute with it."""

from __future__ import annotations

import math

import pytest
from bunny_engine.server.generation import Piece
from bunny_engine.server.shapes import ChatShape, CompletionShape, logprob
from bunny_engine.server.text import Vocabulary
from bunny_engine.types import PromptStart, TokenStep
from scripted_engine import BpeTokenizer

START = PromptStart(1, 0)


def vocabulary() -> Vocabulary:
    tokenizer = BpeTokenizer()
    return Vocabulary(tokenizer, tokenizer.size)


def test_a_token_among_its_alternatives_has_their_float() -> None:
    """An engine that rounds twice must not make a greedy token look beaten: harnesses compare with `==`."""
    assert logprob(5, -0.1, ((5, math.nextafter(-0.1, 0)), (6, -2.0))) == math.nextafter(-0.1, 0)
    assert logprob(7, -3.0, ((5, -0.1), (6, -2.0))) == -3.0


def test_no_number_that_json_lacks() -> None:
    """Minus infinity is OpenAI's -9999.0; no number, or none where one was asked for, is the engine's fault."""
    assert logprob(5, -math.inf, ()) == -9999.0
    for bad in (math.nan, None):
        with pytest.raises(ValueError, match="no log-probability"):
            logprob(5, bad, ())


def test_no_more_alternatives_than_asked() -> None:
    """An engine that gives more is cut to what the client asked for, in both APIs."""
    piece = Piece(TokenStep(70, -0.1, ((70, -0.1), (71, -2.0), (72, -3.0)), "length"), "x", 0, "length")
    chat = ChatShape(vocabulary(), 2).whole(0, START, [piece])
    assert len(chat["logprobs"]["content"][0]["top_logprobs"]) == 2
    completion = CompletionShape(vocabulary(), 2, {}).whole(0, START, [piece])
    assert len(completion["logprobs"]["top_logprobs"][0]) == 2
    alone = CompletionShape(vocabulary(), 0, {}).whole(0, START, [piece])
    assert len(alone["logprobs"]["top_logprobs"][0]) == 1


def test_an_echo_needs_a_score_for_each_token() -> None:
    """An engine that scores fewer tokens than the prompt has is never papered over."""
    shape = CompletionShape(vocabulary(), 1, {0: (None, [70, 71, 72])})
    with pytest.raises(ValueError, match="shorter"):
        shape.opening(0, PromptStart(3, 0, (None, (-1.0, ()))))
