"""/v1/score: log-likelihood of one text after another."""

from __future__ import annotations

import math

from http_harness import ask, saying
from scripted_engine import BpeTokenizer


async def test_the_score_is_the_sum_of_the_continuations_logprobs() -> None:
    """log p(text_2 | text_1), token by token, from the engine's own distribution."""
    engine, tokenizer = saying("x"), BpeTokenizer()
    first, seconds = "The capital of", [" France", " the dog"]
    answer = (await ask(engine, "/v1/score", {"text_1": first, "text_2": seconds})).json()
    start = len(tokenizer.encode(first))
    for row, second in zip(answer["data"], seconds, strict=True):
        ids = tokenizer.encode(first + second)
        values = [float(engine.distribution(tuple(ids[:i]))[ids[i]]) for i in range(start, len(ids))]
        assert math.isclose(row["score"], sum(values), rel_tol=1e-12)
        assert row["tokens"] == len(values)
        assert row["is_greedy"] is False
    assert answer["usage"]["completion_tokens"] == 0
    assert engine.open == 0


async def test_a_token_across_the_border_is_scored_whole() -> None:
    """Where the texts merge into one token, that token belongs to the continuation."""
    engine, tokenizer = saying("x"), BpeTokenizer()
    merged = tokenizer.encode("x dog")
    assert merged[:2] != tokenizer.encode("x d")
    answer = (await ask(engine, "/v1/score", {"text_1": "x d", "text_2": "og"})).json()
    [row] = answer["data"]
    assert row["tokens"] == len(merged) - 1
    ids = tokenizer.encode("x dog")
    values = [float(engine.distribution(tuple(ids[:i]))[ids[i]]) for i in range(1, len(ids))]
    assert math.isclose(row["score"], sum(values), rel_tol=1e-12)


async def test_a_greedy_continuation_is_told() -> None:
    """is_greedy where each token is the likeliest."""
    engine, tokenizer = saying("x", padding=0), BpeTokenizer()
    for first in ("The", "dog", "fox", "Keys", "user", "Paris", "lazy", "vault"):
        ids = tokenizer.encode(first)
        best = int(engine.distribution(tuple(ids)).argmax())
        second = tokenizer.decode([best])
        if tokenizer.encode(first + second) == [*ids, best]:
            [row] = (await ask(engine, "/v1/score", {"text_1": first, "text_2": second})).json()["data"]
            assert row["is_greedy"] is True
            return
    raise AssertionError("no example: change the list")


async def test_bad_pairs_are_refused() -> None:
    """Unequal numbers, empty texts, no fields: a 400 that names the field."""
    for body, param in (
        ({"text_1": ["a", "b"], "text_2": ["c"] * 3}, "text_1"),
        ({"text_1": "", "text_2": "dog"}, "text_1[0]"),
        ({"text_1": "dog", "text_2": ["x", ""]}, "text_2[1]"),
        ({"text_1": "dog"}, "text_2"),
        ({"text_1": "dog", "text_2": [5]}, "text_2"),
        ({"text_1": "dog", "text_2": "1 2 3 " * 100}, "text_2"),
    ):
        refused = await ask(saying("x"), "/v1/score", body)
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"] == param
