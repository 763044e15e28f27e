"""Mutated requests: whatever a client sends, the answer is a 2xx or a 4xx in the common shape, and soon."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import random
from typing import Any

import pytest
from bunny_engine.server import Settings, create_app
from http_harness import MODEL, client_of, parsed, saying
from scripted_engine import MARKERS, BpeTokenizer, ScriptedEngine

USER = {"role": "user", "content": "Hello"}
SEEDS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"model": MODEL, "messages": [USER]}),
    (
        "/v1/chat/completions",
        {
            "model": MODEL,
            "messages": [{"role": "system", "content": [{"type": "text", "text": "Be brief"}]}, USER],
            "stream": True,
            "stream_options": {"include_usage": True},
            "n": 2,
            "stop": ["dog", "x"],
            "logprobs": True,
            "top_logprobs": 2,
            "max_tokens": 9,
            "seed": 1,
            "chat_template_kwargs": {"a": {"b": [1]}},
        },
    ),
    ("/v1/completions", {"model": MODEL, "prompt": ["The dog", "长城"], "echo": True, "logprobs": 1, "n": 2}),
    (
        "/v1/completions",
        {"model": MODEL, "prompt": [[5, 6], [7]], "stream": True, "max_tokens": 0, "echo": True},
    ),
    ("/v1/score", {"model": MODEL, "text_1": "The", "text_2": [" dog", " fox"]}),
    ("/tokenize", {"prompt": ["The dog", "x"], "return_token_strs": True}),
    ("/tokenize", {"messages": [USER], "add_generation_prompt": False}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
]
HOSTILE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, 2**31, 2**63, 2**64, -(2**70)),
    *("", " ", "x", "auto", "\x00", "\ud800", "\ufdd0", "\uffff" * 3, "�", "😀" * 50, "长", "a" * 5000),
    *(*MARKERS, "<|im_", "{{ 7 }}", "{% raise %}"),
    *([], [[]], [None], [0], [-1], [2**40], ["x", 1], [[5], "x"], [{}], [[[[[]]]]]),
    *({}, {"type": "text"}, {"role": "user"}, {"": ""}, {"include_usage": 5}, USER, [USER] * 3),
]
PLAUSIBLE: dict[str, list[Any]] = {
    "temperature": [0, 1, 2, None],
    "top_p": [0, 0.5, 1],
    "n": [1, 3],
    "stop": ["o", ["dog", "T"], [], None],
    "logprobs": [0, 5, True, False],
    "max_tokens": [0, 1, 7, 150, 1000],
    "stream": [True, False],
    "timings": [True],
    "echo": [True],
    "seed": [0, -1, 2**63 - 1],
    "user": ["someone", 5],
    "count_only": [True],
    "ignore_eos": [True],
    "continue_final_message": [True],
}
NAMES = ["tools", "best_of", "suffix", "logit_bias", "max_completion_tokens", "", "x" * 300, "\ud800"]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    keys = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    return [place for key in keys for place in [(value, key), *places(value[key])]]


def mutated(rng: random.Random, body: dict[str, Any]) -> bytes:
    body = copy.deepcopy(body)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        spots = places(body)
        container, key = rng.choice(spots) if spots else (body, "model")
        match rng.randrange(8):
            case 0 if isinstance(container, dict):
                container.pop(key, None)
            case 1:
                container[key] = [container[key]] if key in container or isinstance(container, list) else None
            case 2 if isinstance(container, list):
                container.extend(copy.deepcopy(container[:1]) * rng.choice((1, 20)))
            case 3 | 4:
                name = rng.choice(list(PLAUSIBLE))
                body[name] = rng.choice(PLAUSIBLE[name])
            case 5:
                body[rng.choice([*NAMES, *body])] = copy.deepcopy(rng.choice(HOSTILE))
            case _:
                container[key] = copy.deepcopy(rng.choice(HOSTILE))
    raw = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.15:
        spoilt = bytearray(raw)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(spoilt))
            spoilt[at : at + rng.randrange(3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
        raw = bytes(spoilt)
    return raw


@pytest.mark.parametrize("part", range(4))
async def test_no_request_is_a_5xx_or_a_hang(part: int) -> None:
    """500 mutated requests in each part: answered soon, and well formed whatever the answer."""
    rng = random.Random(part)
    tokenizer = BpeTokenizer()
    said = [*tokenizer.encode("The dog"), tokenizer.special_tokens["<|im_end|>"]]
    engine = ScriptedEngine(tokenizer, lambda prompt, params: itertools.cycle(said), context=200)
    seen: dict[int, int] = {}
    settings = Settings(max_body_bytes=100_000, max_choices=40)
    async with client_of(create_app(engine, tokenizer, settings)) as client:
        for number in range(500):
            path, seed = rng.choice(SEEDS)
            raw = mutated(rng, seed)
            async with asyncio.timeout(20):
                response = await client.post(path, content=raw)
            seen[response.status_code] = seen.get(response.status_code, 0) + 1
            where = f"part {part}, request {number}: {path} {raw[:2000]!r} → {response.text[:500]}"
            assert response.status_code in (200, 400, 404, 413), where
            if response.status_code != 200:
                assert set(response.json()["error"]) == {"message", "type", "param", "code"}, where
                assert len(response.text) < 3000, where
            elif response.headers["content-type"].startswith("text/event-stream"):
                assert parsed(response.text)[-1] == "[DONE]", where
            else:
                response.json()
            assert engine.open == 0, where
    assert seen[200] > 50, "the mutations hardly leave a request whole: the fuzz proves little"
    assert seen[400] > 150


async def test_odd_targets_and_headers() -> None:
    """Paths, methods, queries and headers that no client should send."""
    app = create_app(saying("x"), BpeTokenizer(), Settings(api_key="key"))
    async with client_of(app) as client:
        for target in (
            "/%00",
            "/v1/models/%ff%fe",
            "/v1/models/" + "x" * 3000,
            "//",
            "/v1//chat",
            "/v1/models/..%2f..",
            "/?" + "a" * 999,
        ):
            for method in ("GET", "POST", "PUT", "OPTIONS", "HEAD", "TRACE", "BREW"):
                for key in (b"Bearer key", b"Bearer \xff\xfe", b"bearer  key ", b"\x00"):
                    response = await client.request(method, target, headers={b"authorization": key})
                    assert 400 <= response.status_code < 500
        for host in (b"[", b"[::1", b"a b", b"\xff", b""):
            response = await client.get("/nothing", headers={b"host": host, b"authorization": b"Bearer key"})
            assert response.status_code == 404
        for length in ("-1", "x", "9" * 400, "1e3"):
            response = await client.post(
                "/v1/completions",
                content=b"{}",
                headers={"authorization": "Bearer key", "content-length": length},
            )
            assert 400 <= response.status_code < 500
