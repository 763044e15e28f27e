"""Counting at the endpoint: both kinds of server, few requests, no secret kept, clear words when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from bunny_probe.errors import BunnyError, EndpointError, EndpointUnreachable, ProtocolError, Unauthorised
from bunny_probe.records import Expectation, Filler, Insertion, Message, Probe, Recipe
from bunny_probe.text import EndpointCounter, FileCounter, render

Handler = Callable[[httpx.Request], httpx.Response]


def server(counter: FileCounter, *, lists: bool, seen: list[httpx.Request]) -> Handler:
    """A server that counts with a tokenizer file, and takes lists of texts or not."""

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        body = json.loads(request.content)
        if "messages" in body:
            messages = [Message(m["role"], m["content"]) for m in body["messages"]]
            return httpx.Response(200, json={"count": counter.chat(messages), "max_model_len": 9})
        if isinstance(body["prompt"], list):
            if not lists:
                return httpx.Response(400, json={"error": {"message": "prompt: not a string"}})
            return httpx.Response(200, json={"count": 0, "counts": counter.counts(body["prompt"])})
        return httpx.Response(200, json={"count": counter.counts([body["prompt"]])[0], "tokens": []})

    return answer


def remote(handler: Handler, **options: object) -> EndpointCounter:
    client = httpx.Client(transport=httpx.MockTransport(handler))
    return EndpointCounter("http://host:1/v1", "m", client=client, **options)  # type: ignore[arg-type]


def probe(length: int, seed: int = 1) -> Probe:
    recipe = Recipe(
        "Read this. A question follows.\n\n",
        "\n\nQuestion: What is the code?",
        Filler("haystack", "en", "operations", seed),
        (Insertion("The code is 48213.", 0.4),),
    )
    return Probe("length", "single", recipe, Expectation("anchor"), length)


@pytest.mark.parametrize("lists", [True, False])
def test_prompts_are_exact_with_both_kinds_of_server(counter: FileCounter, lists: bool) -> None:
    """Whether it takes lists or not, the server counts what was intended."""
    seen: list[httpx.Request] = []
    endpoint = remote(server(counter, lists=lists, seen=seen))
    for seed in range(3):
        rendered = render(probe(3000, seed), endpoint)
        assert counter.chat(rendered.messages) == rendered.intended_tokens == 3000
        assert rendered.exact


def test_few_requests_are_made(counter: FileCounter) -> None:
    """Lists: one request for thousands of sentences. Singly: one for 64, and what is known is not asked."""
    seen: list[httpx.Request] = []
    batched = remote(server(counter, lists=True, seen=seen))
    start = batched.requests
    render(probe(20_000), batched)
    assert batched.requests - start <= 12
    single = remote(server(counter, lists=False, seen=seen))
    start = single.requests
    rendered = render(probe(20_000), single)
    sentences = rendered.messages[-1].content.count(". ")
    assert single.requests - start <= sentences / 64 + 32 + 48
    start = single.requests
    render(probe(20_000), single)
    assert single.requests - start <= 33


def test_the_root_is_found_and_the_model_named(counter: FileCounter) -> None:
    """/tokenize lies at the root, beside /v1, and is told which model counts."""
    seen: list[httpx.Request] = []
    remote(server(counter, lists=True, seen=seen))
    assert {str(request.url) for request in seen} == {"http://host:1/tokenize"}
    assert all(json.loads(request.content)["model"] == "m" for request in seen)


def test_the_key_is_asked_for_each_time_and_never_kept(counter: FileCounter) -> None:
    """The header comes from the callable; the counter holds nothing of it."""
    seen: list[httpx.Request] = []
    endpoint = remote(
        server(counter, lists=True, seen=seen), auth=lambda: {"Authorization": "Bearer sk-hidden"}
    )
    assert all(request.headers["authorization"] == "Bearer sk-hidden" for request in seen)
    assert "sk-hidden" not in repr({k: v for k, v in vars(endpoint).items() if k != "_auth"})


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {}, Unauthorised),
        (403, {}, Unauthorised),
        (404, {}, EndpointError),
        (500, {}, ProtocolError),
        (200, {"count": "many"}, ProtocolError),
        (200, [1, 2], ProtocolError),
    ],
)
def test_a_server_that_does_not_count_is_told_apart(status: int, body: object, error: type[BunnyError]) -> None:
    """A refused key, a missing path and a reply that is no count each have their own error."""
    with pytest.raises(error) as caught:
        remote(lambda _: httpx.Response(status, json=body))
    assert "http://host:1/tokenize" in str(caught.value)


def test_a_reply_that_is_not_json_is_a_protocol_error() -> None:
    """An HTML page in place of a count ends in one line."""
    with pytest.raises(ProtocolError, match="name a tokenizer file instead"):
        remote(lambda _: httpx.Response(200, text="<html>"))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_server_that_counts_alike_whatever_the_text_is_refused(count: int) -> None:
    """A prompt of exact length would grow for ever."""

    def answer(request: httpx.Request) -> httpx.Response:
        prompt = json.loads(request.content)["prompt"]
        several = len(prompt) if isinstance(prompt, list) else 1
        return httpx.Response(200, json={"count": count, "counts": [count] * several})

    with pytest.raises(ProtocolError, match="for five hundred; name a tokenizer file instead"):
        remote(answer)


def test_no_answer_is_unreachable() -> None:
    """A refused connection says that nothing answers, without a traceback of the client library."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(EndpointUnreachable, match="does not answer"):
        remote(refuse)


@pytest.mark.parametrize("strict", [False, True])
def test_markers_are_counted_as_text_where_the_server_knows_how(strict: bool) -> None:
    """`parse_special: false` goes with every text, but not to a server that refuses the field."""
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        sent.append(body)
        if strict and "parse_special" in body:
            return httpx.Response(400, json={"error": {"message": "unknown field parse_special"}})
        texts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        counts = [len(text.split()) for text in texts]
        return httpx.Response(200, json={"count": sum(counts), "counts": counts})

    client = httpx.Client(transport=httpx.MockTransport(answer))
    counter = EndpointCounter("http://127.0.0.1:1/v1", "m", client=client)
    assert counter.counts(["one two", "three"]) == [2, 1]
    assert all(("parse_special" in body) is not strict for body in sent[1:])
    counter.close()
