"""Refusals: the right status, OpenAI's shape, a message that names the field, no 5xx for a client's fault."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from bunny_engine.server import Settings, create_app, errors
from http_harness import ask, client_of, parsed, saying
from scripted_engine import BpeTokenizer

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error object, checked to be exactly the four fields that clients read."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return dict(body["error"])


BAD_BOTH: list[tuple[dict[str, Any], str]] = [
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": "0"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 1.01}, "top_p"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"n": 1.5}, "n"),
    ({"seed": 2**63}, "seed"),
    ({"seed": "x"}, "seed"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": 5}, "stop"),
    ({"stop": ["a", None]}, "stop[1]"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_use": True}}, "stream_options.include_use"),
    ({"stream": True, "stream_options": []}, "stream_options"),
    ({"frequency_penalty": 3}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 10**30}, "max_tokens"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"top_k": 40}, "top_k"),
    ({"temprature": 1}, "temprature"),
    ({"model": 5}, "model"),
    ({"model": None}, "model"),
]

BAD_CHAT: list[tuple[dict[str, Any], str]] = [
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
    ({"logprobs": 1}, "logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21, "stream": True}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": False, "top_logprobs": 0}, "top_logprobs"),
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": "x", "contents": 1}]}, "messages[0].contents"),
    ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"functions": [{}]}, "functions"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"audio": {}}, "audio"),
    ({"chat_template_kwargs": 5}, "chat_template_kwargs"),
    ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
]

BAD_COMPLETION: list[tuple[dict[str, Any], str]] = [
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": None}, "prompt"),
    ({"prompt": 5}, "prompt"),
    ({"prompt": {}}, "prompt"),
    ({"prompt": ["dog", ""]}, "prompt[1]"),
    ({"prompt": [[5], []]}, "prompt[1]"),
    ({"prompt": ["dog", 5]}, "prompt[1]"),
    ({"prompt": [5, 1.5]}, "prompt[1]"),
    ({"prompt": [[5], [6, "x"]]}, "prompt[1]"),
    ({"prompt": [True]}, "prompt[0]"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [10**9]}, "prompt"),
    ({"prompt": [[5], [10**40]]}, "prompt[1]"),
    ({"logprobs": 21}, "logprobs"),
    ({"logprobs": True}, "logprobs"),
    ({"best_of": 3}, "best_of"),
    ({"best_of": 2, "n": 1}, "best_of"),
    ({"suffix": "x"}, "suffix"),
    ({"echo": 1}, "echo"),
    ({"prompt": ["dog"] * 5, "n": 128}, "n"),
    ({"messages": []}, "messages"),
]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [(CHAT, *case) for case in BAD_BOTH + BAD_CHAT]
    + [(COMPLETION, *case) for case in BAD_BOTH + BAD_COMPLETION],
)
async def test_a_bad_field_is_named(path: str, body: dict[str, Any], param: str) -> None:
    """A wrong type, range, kind or name is a 400 that gives the field in `param` and in the message."""
    engine = saying("x")
    error = error_of(await ask(engine, path, body), 400)
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert param.split("[")[0] in error["message"]
    assert not engine.asked


async def test_an_unknown_field_gets_the_choices() -> None:
    """A misspelt field is refused with the nearest name and all there are."""
    error = error_of(await ask(saying("x"), CHAT, {"temprature": 1}), 400)
    assert "Did you mean 'temperature'?" in error["message"]
    assert "max_completion_tokens" in error["message"]
    assert error["code"] == "unknown_parameter"


@pytest.mark.parametrize(
    "body", [{"x" * 3_000_000: 1}, {"model": "x" * 3_000_000}, {"messages": [{"y" * 3_000_000: 1}]}]
)
async def test_a_huge_name_is_refused_in_few_words(
    body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Megabytes where a name belongs cost neither a slow comparison nor a long answer."""

    def compare(word: str, *rest: Any, **options: Any) -> list[str]:
        assert len(word) < 1000, "comparing this takes seconds"
        return []

    monkeypatch.setattr(errors, "get_close_matches", compare)
    response = await ask(saying("x"), CHAT, body)
    assert response.status_code in (400, 404)
    assert len(response.content) < 2000


@pytest.mark.parametrize(
    "body",
    [
        {"user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto"},
        {"temperature": None, "seed": None, "stop": None, "stream_options": None, "n": None},
        {"stop": [], "logit_bias": {}, "top_k": -1, "min_p": 0.0},
        {"n": 1.0, "max_tokens": 3.0},
    ],
)
async def test_what_asks_for_nothing_is_accepted(body: dict[str, Any]) -> None:
    """null is absent; neutral values and fields without bearing on the answer are no reason to refuse."""
    for path in (CHAT, COMPLETION):
        assert (await ask(saying("x"), path, body)).status_code == 200
    chat_only = {
        "tools": [],
        "response_format": {"type": "text"},
        "tool_choice": "auto",
        "modalities": ["text"],
    }
    assert (await ask(saying("x"), CHAT, {**body, **chat_only})).status_code == 200
    assert (await ask(saying("x"), COMPLETION, {**body, "best_of": 1, "suffix": ""})).status_code == 200


async def test_an_answers_own_message_can_be_sent_back() -> None:
    """The assistant's message, as this server wrote it, is accepted in the next turn."""
    first = (await ask(saying("x"), CHAT, {})).json()["choices"][0]["message"]
    messages = [
        {"role": "user", "content": "a"},
        {**first, "tool_calls": None},
        {"role": "user", "content": "b"},
    ]
    assert (await ask(saying("x"), CHAT, {"messages": messages})).status_code == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"5",
        b"\xff\xfe",
        b'{"model": "\xff"}',
        b'{"model": NaN}',
        b'{"model": "tiny", "temperature": Infinity}',
        b'{"model": "tiny", "temperature": 1e999}',
        b'{"model": "\\ud800"}',
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 100_000,
        b'{"model": "tiny"} x',
        b'\xef\xbb\xbf{"model": "tiny"}',
    ],
)
async def test_a_body_that_is_no_json_object(raw: bytes) -> None:
    """Broken, non-UTF-8, non-finite, lone surrogates, bottomless nesting: a 400 in the common shape."""
    for path in (CHAT, COMPLETION, "/tokenize", "/detokenize", "/v1/score"):
        error_of(await ask(saying("x"), path, raw), 400)


async def test_a_huge_body_is_413() -> None:
    """Past the limit, declared or not, the body is not read to its end."""
    small = Settings(max_body_bytes=1000)
    error = error_of(await ask(saying("x"), CHAT, b"x" * 1001, settings=small), 413)
    assert error["code"] == "request_too_large"
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 100
            yield b"x" * 100

    async with client_of(create_app(saying("x"), BpeTokenizer(), small)) as client:
        error_of(await client.post(CHAT, content=endless()), 413)
    assert read <= 1200


async def test_a_compressed_body_is_415() -> None:
    """No zip bomb gets in."""
    error_of(await ask(saying("x"), CHAT, b"x", headers={"content-encoding": "gzip"}), 415)


async def test_unknown_models_and_paths() -> None:
    """404 with code model_not_found and the names served; 404 and 405 elsewhere in the same shape."""
    app = create_app(saying("x"), BpeTokenizer(), Settings(aliases=("org/alias",)))
    async with client_of(app) as client:
        for path, body in (
            (CHAT, {"messages": [{"role": "user", "content": "x"}]}),
            (COMPLETION, {"prompt": "x"}),
        ):
            error = error_of(await client.post(path, json={"model": "gpt-9", **body}), 404)
            assert (error["code"], error["param"]) == ("model_not_found", "model")
            assert "tiny, org/alias" in error["message"]
            answer = (await client.post(path, json={"model": "org/alias", **body})).json()
            assert answer["model"] == "tiny"
        assert (await client.get("/v1/models/org/alias")).json()["id"] == "org/alias"
        error_of(await client.get("/v1/models/gpt-9"), 404)
        error_of(await client.get("/nothing"), 404)
        error_of(await client.get("/v1/models/"), 404)
        refused = await client.get(CHAT)
        error_of(refused, 405)
        assert "POST" in refused.headers["allow"]
        error_of(await client.delete("/health"), 405)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_over_the_context(stream: bool) -> None:
    """400 before any stream, the code clients look for, and both numbers in the message."""
    engine = saying("x", context=50)
    error = error_of(await ask(engine, COMPLETION, {"prompt": [5] * 61, "stream": stream}), 400)
    assert error["code"] == "context_length_exceeded"
    assert error["message"].startswith("This model's maximum context length is 50 tokens.")
    assert "61 tokens" in error["message"]
    body = {"messages": [{"role": "user", "content": "dog 1 2 3 " * 20}], "stream": stream}
    error = error_of(await ask(engine, CHAT, body), 400)
    counted = (await ask(engine, "/tokenize", {"messages": body["messages"]})).json()["count"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert f" {counted} tokens" in error["message"]


async def test_the_edge_of_the_context() -> None:
    """A named max_tokens must fit to the token; a prompt that fills the context leaves no room to answer."""
    engine = saying("x", context=50)
    assert (await ask(engine, COMPLETION, {"prompt": [5] * 45, "max_tokens": 5})).status_code == 200
    error = error_of(await ask(engine, COMPLETION, {"prompt": [5] * 45, "max_tokens": 6}), 400)
    assert error["message"].startswith("This model's maximum context length is 50 tokens.")
    assert "requested 51 tokens (45 in the prompt, 6 in the completion)" in error["message"]
    error_of(await ask(engine, COMPLETION, {"prompt": [5] * 50}), 400)
    assert (await ask(engine, COMPLETION, {"prompt": [5] * 49})).json()["usage"]["completion_tokens"] <= 1
    assert (await ask(engine, COMPLETION, {"prompt": [5] * 50, "max_tokens": 0})).status_code == 200


async def test_one_bad_prompt_of_a_list_refuses_the_request() -> None:
    """Nothing is generated for a list that holds a prompt too long."""
    engine = saying("x", context=50)
    error_of(await ask(engine, COMPLETION, {"prompt": [[5] * 10, [5] * 60]}), 400)
    assert not engine.asked


KEY = "sk-a-long-enough-key"


@pytest.mark.parametrize(
    "given",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", KEY, "Bearer \u00e9"],
)
async def test_a_wrong_key_is_401(given: str | None) -> None:
    """Missing, wrong or odd: 401 on every route but health and version, whatever the path, without an echo."""
    app = create_app(saying("x"), BpeTokenizer(), Settings(api_key=KEY))
    headers = {} if given is None else {"authorization": given.encode("latin-1")}
    async with client_of(app) as client:
        for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/nothing")):
            refused = await client.request(method, path, headers=headers)
            error = error_of(refused, 401)
            assert error["code"] == "invalid_api_key"
            assert "www-authenticate" in refused.headers
            assert "wrong" not in error["message"].replace("missing or wrong", "")
        assert (await client.get("/health", headers=headers)).status_code == 200
        assert (await client.get("/version", headers=headers)).status_code == 200


async def test_the_right_key_opens() -> None:
    """With the key all is as without one; the key is in no representation of the settings."""
    settings = Settings(api_key=KEY)
    async with client_of(create_app(saying("x"), BpeTokenizer(), settings), key=KEY) as client:
        assert (await client.get("/v1/models")).status_code == 200
    assert KEY not in repr(settings)
    with pytest.raises(ValueError, match="empty"):
        Settings(api_key=" ")


@pytest.mark.parametrize("body", [{}, {"stream": True}, {"n": 4, "stream": True}])
async def test_a_full_queue_is_429(body: dict[str, Any]) -> None:
    """429 with Retry-After, also for a stream: the status is not spent before the engine has taken it."""
    refused = await ask(saying("x", busy=2.6), CHAT, body)
    assert error_of(refused, 429)["type"] == "rate_limit_error"
    assert refused.headers["retry-after"] == "3"
    scored = await ask(saying("x", busy=0.1), "/v1/score", {"text_1": "a", "text_2": "b"})
    error_of(scored, 429)
    assert scored.headers["retry-after"] == "1"


async def test_a_fault_before_the_answer_is_500(caplog: pytest.LogCaptureFixture) -> None:
    """The engine's fault is the server's: 500, its text told to nobody, its kind and place logged."""
    with caplog.at_level(logging.INFO, "bunny_engine.server"):
        error = error_of(await ask(saying("The dog", fault_at=0), CHAT, {}), 500)
    assert error["type"] == "server_error"
    assert "SECRET" not in error["message"] + caplog.text
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("path", [CHAT, COMPLETION])
async def test_a_fault_in_a_stream_is_an_event(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """What came stays, then an error event in the common shape, and no [DONE]: the answer is not done."""
    with caplog.at_level(logging.INFO, "bunny_engine.server"):
        engine = saying("The dog", fault_at=2)
        response = await ask(engine, path, {"stream": True})
    assert response.status_code == 200
    *said, last = parsed(response.text)
    assert said
    assert set(last["error"]) == {"message", "type", "param", "code"}
    assert last["error"]["type"] == "server_error"
    assert "SECRET" not in response.text + caplog.text
    assert engine.open == 0
    assert '"fault":"server_error"' in caplog.text


async def test_an_engine_that_stops_short_is_a_fault() -> None:
    """An answer without a finish reason is never passed off as whole."""
    engine = saying("The dog", end=False)
    error_of(await ask(engine, CHAT, {"max_tokens": 100}), 500)


async def test_tokenize_refuses_what_cannot_be() -> None:
    """Neither or both of prompt and messages; ids outside the vocabulary."""
    engine = saying("x")
    assert error_of(await ask(engine, "/tokenize", {}), 400)["param"] == "prompt"
    both = {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}
    assert error_of(await ask(engine, "/tokenize", both), 400)["param"] == "prompt"
    assert error_of(await ask(engine, "/detokenize", {"tokens": [10**6]}), 400)["param"] == "tokens"
    assert error_of(await ask(engine, "/detokenize", {"tokens": "x"}), 400)["param"] == "tokens"
    assert error_of(await ask(engine, "/detokenize", {}), 400)["param"] == "tokens"


async def test_every_answer_has_its_own_request_id() -> None:
    """A person can find an answer's line in the log."""
    async with client_of(create_app(saying("x"), BpeTokenizer())) as client:
        ids = {(await client.get(path)).headers["x-request-id"] for path in ("/health", "/health", "/nothing")}
    assert len(ids) == 3
