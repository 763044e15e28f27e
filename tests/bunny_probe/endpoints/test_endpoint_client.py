"""The client against a raw server: what it sends, what it keeps, and what it never lets out."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from typing import Any

import pytest
from raw_server import DONE, ROLE, answer, delta, error_reply, event, head, serve, usage

from bunny_probe.endpoints import EndpointSpec, Redactor, Timeouts, open_endpoint, tapped, wire
from bunny_probe.endpoints.proxies import proxy_for
from bunny_probe.endpoints.secrets import Secret, read_secret
from bunny_probe.errors import (
    EndpointUnreachable,
    ModelNotFound,
    ProtocolError,
    Unauthorised,
    UsageError,
)
from bunny_probe.records import Decoding, Message, Outcome

ASK = [Message("user", "What colour is the sky?")]
CANARY = "sk-canary-0123456789-ABCDEF"


def spec(url: str, **more: object) -> EndpointSpec:
    return EndpointSpec(url, "m-1", **{"timeouts": Timeouts(2, 2, 2, 4), **more})  # type: ignore[arg-type]


# ── what is sent ────────────────────────────────────────────────────────────────────────────────────


async def test_only_what_was_asked_is_sent() -> None:
    """The body holds standard fields alone, and none that the decoding leaves out."""
    async with serve(answer()) as server, open_endpoint(spec(server.url)) as endpoint:
        await endpoint.attempt(ASK, Decoding(max_tokens=5, top_logprobs=None, stop=("\n",), top_p=0.5))
        assert server.seen[0].json == {
            "model": "m-1",
            "messages": [{"role": "user", "content": "What colour is the sky?"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 5,
            "temperature": 0.0,
            "top_p": 0.5,
            "stop": ["\n"],
        }


async def test_refused_fields_are_dropped_one_by_one_and_remembered() -> None:
    """Each 400 that names an optional field costs one exchange; later attempts do not send it again."""

    def strict(seen: object) -> list[bytes | float | str]:
        sent = seen.json  # type: ignore[attr-defined]
        for field in ("top_logprobs", "seed", "stream_options", "max_tokens"):
            if field in sent:
                return error_reply(
                    400, {"error": {"message": f"Unsupported parameter: '{field}'", "param": field}}
                )
        return answer()

    async with serve(strict) as server, open_endpoint(spec(server.url)) as endpoint:
        first = await endpoint.attempt(ASK, Decoding(seed=7))
        assert first.outcome is Outcome.ANSWERED
        assert set(first.dropped_fields) == {"top_logprobs", "seed", "stream_options", "max_tokens"}
        assert server.seen[-1].json["max_completion_tokens"] == 64  # the limit itself is never dropped
        made = len(server.seen)
        assert made == 5
        await endpoint.attempt(ASK, Decoding(seed=7))
        assert len(server.seen) == made + 1


async def test_half_a_surrogate_pair_can_be_sent() -> None:
    """An edge input that is no valid Unicode travels escaped instead of ending the run."""
    async with serve(answer()) as server, open_endpoint(spec(server.url)) as endpoint:
        attempt = await endpoint.attempt([Message("user", "a\ud800b")], Decoding())
        assert attempt.outcome is Outcome.ANSWERED
        assert server.seen[0].json["messages"][0]["content"] == "a\ud800b"


async def test_a_prompt_of_megabytes_is_sent_whole() -> None:
    """A body of several megabytes goes out in pieces, with its length stated."""
    text = "word " * 1_000_000
    async with serve(answer()) as server, open_endpoint(spec(server.url)) as endpoint:
        assert (await endpoint.attempt([Message("user", text)], Decoding())).outcome is Outcome.ANSWERED
        assert server.seen[0].json["messages"][0]["content"] == text


# ── what is read ────────────────────────────────────────────────────────────────────────────────────


async def test_tokens_carry_text_logprob_alternatives_bytes_and_arrival() -> None:
    """The trace has one entry a token in every column, timed by the read that brought it."""
    first = {
        "token": "bl",
        "logprob": -0.25,
        "bytes": [98, 108],
        "top_logprobs": [{"token": "bl", "logprob": -0.25}, {"token": "gr", "logprob": -2.0}],
    }
    second = {"token": "ue", "logprob": -0.5, "bytes": None, "top_logprobs": [{"token": "ue", "logprob": -0.5}]}
    script = [
        head(),
        ROLE,
        0.03,
        delta("bl", choice={"logprobs": {"content": [first]}}),
        0.03,
        delta("ue", choice={"logprobs": {"content": [second]}}),
        delta(finish="stop"),
        usage(10, 2, prompt_tokens_details={"cached_tokens": 4}, cost=0.5),
        DONE,
    ]
    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding(), 10)
    trace, timing = attempt.trace, attempt.timing
    assert (attempt.text, trace.text, trace.logprob) == ("blue", ("bl", "ue"), (-0.25, -0.5))
    assert trace.top == ((("bl", -0.25), ("gr", -2.0)), (("ue", -0.5),))
    assert trace.bytes_ == (b"bl", b"ue")
    assert trace.source == "logprobs"
    assert timing is not None
    assert timing.first_content == trace.arrival[0]
    assert timing.last_content == trace.arrival[1]
    assert trace.arrival[1] - trace.arrival[0] >= 25_000_000
    assert (timing.first_event or 0) < 25_000_000 <= (timing.first_content or 0)
    assert attempt.usage.cached_tokens == 4
    assert attempt.usage.cost == 0.5


async def test_reads_are_stamped_in_the_sockets_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    """With this aiohttp the stamps are taken before any task runs; the ordinary way gives the same answer."""
    script = [head(), ROLE, *[delta(f"w{i} ") for i in range(50)], delta(finish="stop"), usage(10, 50), DONE]
    taken: list[object] = []

    def watch(response: Any, most: int) -> object:
        taken.append(tapped.tap(response, most))
        return taken[-1]

    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        monkeypatch.setattr(wire, "tap", watch)
        fast = await endpoint.attempt(ASK, Decoding(), 10)
        monkeypatch.setattr(wire, "tap", lambda response, most: None)
        plain = await endpoint.attempt(ASK, Decoding(), 10)
    assert taken[0] is not None
    assert (fast.outcome, fast.text, fast.usage) == (plain.outcome, plain.text, plain.usage)
    assert fast.trace.text == plain.trace.text


@pytest.mark.parametrize("plainly", [False, True])
async def test_long_answers_are_parsed_in_parts(monkeypatch: pytest.MonkeyPatch, plainly: bool) -> None:
    """An answer of several megabytes comes out whole, by either way of reading."""
    pieces = [f"{i:05d}" + "x" * 995 for i in range(3000)]
    script = [head(), *[delta(piece) for piece in pieces], delta(finish="stop"), DONE]
    if plainly:
        monkeypatch.setattr(wire, "tap", lambda response, most: None)
    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding())
    assert attempt.outcome is Outcome.ANSWERED
    assert attempt.text == "".join(pieces)
    assert list(attempt.trace.arrival) == sorted(attempt.trace.arrival)


async def test_reasoning_is_kept_apart() -> None:
    """Reasoning text has its own place and its own first moment; its tokens are not the answer's."""
    token = {"token": "hm", "logprob": -1.0, "bytes": None, "top_logprobs": []}
    script = [
        head(),
        delta(delta={"reasoning_content": "hm"}, choice={"logprobs": {"content": [token]}}),
        0.03,
        delta("blue"),
        delta(finish="stop"),
        DONE,
    ]
    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding())
    assert (attempt.text, attempt.reasoning) == ("blue", "hm")
    assert attempt.trace.text == ("blue",)
    timing = attempt.timing
    assert timing is not None
    assert (timing.first_content or 0) - (timing.first_reasoning or 0) >= 25_000_000


@pytest.mark.parametrize("whole", [False, True])
async def test_thoughts_that_left_no_room_are_an_empty_answer(whole: bool) -> None:
    """Null content behind reasoning that ate the limit, streamed or not: the outcome names the budget."""
    if whole:
        message = {"content": None, "reasoning_content": "hm, let me see"}
        body = {"model": "m-1", "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
        script = [head(kind="application/json"), json.dumps(body).encode()]
    else:
        thought = delta(delta={"content": None, "reasoning_content": "hm, let me see"})
        script = [head(), thought, delta(finish="length"), DONE]
    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding())
    assert (attempt.text, attempt.reasoning, attempt.stop_reason) == ("", "hm, let me see", "length")
    assert attempt.outcome == Outcome.OUTPUT_BUDGET


async def test_an_answer_that_was_not_streamed_is_read() -> None:
    """A server that ignores `stream` gives one JSON body; it counts, with its finish reason."""
    body = {
        "model": "m-1",
        "choices": [{"index": 0, "message": {"content": "blue"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1},
    }
    script = [head(kind="application/json"), json.dumps(body).encode()]
    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding(), 10)
    assert (attempt.outcome, attempt.text, attempt.usage.prompt_tokens) == (Outcome.ANSWERED, "blue", 10)


@pytest.mark.parametrize(
    ("intended", "tolerance", "outcome"),
    [
        (None, 0.0, Outcome.ANSWERED),
        (100, 0.0, Outcome.ANSWERED),
        (99, 0.0, Outcome.ANSWERED),
        (101, 0.0, Outcome.PROMPT_TRUNCATED),
        (101, 0.05, Outcome.ANSWERED),
        (120, 0.05, Outcome.PROMPT_TRUNCATED),
    ],
)
async def test_truncation_is_one_missing_token(
    intended: int | None, tolerance: float, outcome: Outcome
) -> None:
    """With an exact count one missing token is truncation; a tolerance is for estimates only."""
    async with serve(answer(prompt=100)) as server, open_endpoint(spec(server.url)) as endpoint:
        assert (await endpoint.attempt(ASK, Decoding(), intended, tolerance=tolerance)).outcome is outcome


async def test_an_error_behind_a_finish_reason_is_an_error() -> None:
    """A stream that names a finish reason and then an error did not answer."""
    script = [head(), delta("blue"), delta(finish="stop"), event({"error": {"message": "lost a worker"}}), DONE]
    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding())
    assert attempt.outcome is Outcome.STREAM_ERROR
    assert "lost a worker" in attempt.evidence


async def test_a_connection_lost_behind_the_end_marker_loses_nothing() -> None:
    """Once the finish reason has come, a broken connection does not unmake the answer."""
    script = [head(), delta("blue"), delta(finish="stop"), 0.05, "reset"]
    async with serve(script) as server, open_endpoint(spec(server.url)) as endpoint:
        assert (await endpoint.attempt(ASK, Decoding())).outcome is Outcome.ANSWERED


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        (400, {"code": "context_length_exceeded", "message": "too big"}, Outcome.CONTEXT_REFUSED),
        (400, {"message": "This model's maximum context length is 8192 tokens."}, Outcome.CONTEXT_REFUSED),
        (400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}, Outcome.CONTEXT_REFUSED),
        (422, {"message": "input tokens exceed the configured limit"}, Outcome.CONTEXT_REFUSED),
        (413, {"message": "Request Entity Too Large"}, Outcome.CONTEXT_REFUSED),
        (500, {"code": "context_length_exceeded", "message": "x"}, Outcome.CONTEXT_REFUSED),
        (400, {"message": "max_tokens is too large: 9999", "param": "max_tokens"}, Outcome.BAD_REQUEST),
        (400, {"message": "API key not valid. Please pass a valid API key."}, Outcome.UNAUTHORISED),
        (402, {"message": "Insufficient credits"}, Outcome.UNAUTHORISED),
        (400, {"code": "content_filter", "message": "filtered"}, Outcome.CONTENT_FILTER),
        (404, {"message": "The model `x` does not exist"}, Outcome.NOT_FOUND),
        (408, {"message": "timeout"}, Outcome.TIMEOUT),
        (529, {"message": "Overloaded"}, Outcome.SERVER_ERROR),
        (418, {"message": "teapot"}, Outcome.BAD_REQUEST),
    ],
)
async def test_statuses_mean_what_their_bodies_say(status: int, error: object, outcome: Outcome) -> None:
    """A status is read together with the error's code and message."""
    async with serve(error_reply(status, {"error": error})) as server, open_endpoint(spec(server.url)) as e:
        exchanged = await e.exchange(ASK, Decoding(top_logprobs=None))
        assert exchanged.attempt.outcome is outcome
        assert exchanged.attempt.status == status


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────


async def test_an_endless_answer_ends_by_size() -> None:
    """A response beyond the size limit is cut, told as such, and never counts as an answer."""
    script = [head(), *[delta("x" * 1000)] * 2000, delta(finish="stop"), DONE]
    async with serve(script) as server, open_endpoint(spec(server.url, max_response_bytes=500_000)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding())
    assert attempt.outcome is Outcome.CUT_STREAM
    assert "cut by the client" in attempt.evidence


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([30.0], "no first byte within 0.2 s"),
        ([head(), 30.0], "no first byte within 0.2 s"),
        ([head(), delta("b"), 30.0], "no further byte within 0.3 s"),
        ([head(), *[b": ping\n\n", 0.1] * 100], "not over within 1 s"),
    ],
)
async def test_silence_ends_by_the_limit_that_passed(script: list[bytes | float | str], said: str) -> None:
    """Each limit ends the exchange by itself, and the evidence names it."""
    limits = Timeouts(connect=5, first_byte=0.2, idle=0.3, total=1.0)
    async with serve(script) as server, open_endpoint(spec(server.url, timeouts=limits)) as endpoint:
        attempt = await endpoint.attempt(ASK, Decoding())
    assert attempt.outcome is Outcome.TIMEOUT
    assert said in attempt.evidence


# ── safety ──────────────────────────────────────────────────────────────────────────────────────────


async def test_the_key_is_sent_and_nowhere_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that echoes the key into every field cannot get it into a record, a message or a log."""
    monkeypatch.setenv("CANARY_KEY", CANARY + "\n")
    caplog.set_level("DEBUG")
    half = len(CANARY) // 2
    echo = [
        head(),
        delta(CANARY[:half], model=CANARY),
        delta(CANARY[half:], delta={"reasoning": CANARY}),
        delta(finish=CANARY),
        event({"error": {"message": f"bad {CANARY}", "code": CANARY}}),
        DONE,
    ]
    refuse = error_reply(
        401, {"error": {"message": f"Incorrect API key provided: {CANARY[:9]}***. {CANARY}", "code": CANARY}}
    )
    kept: list[str] = []
    async with serve(echo, refuse) as server:
        async with open_endpoint(spec(server.url, key_env="CANARY_KEY")) as endpoint:
            attempts = [await endpoint.attempt(ASK, Decoding()) for _ in range(2)]
            kept += [json.dumps(asdict(attempt), default=repr) for attempt in attempts]
            for call in (endpoint.models, endpoint.check):
                with pytest.raises(Unauthorised) as caught:
                    await call()
                kept += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
            kept += [
                repr(endpoint),
                repr(endpoint.spec),
                repr(endpoint.redact),
                json.dumps(asdict(endpoint.spec)),
            ]
        assert all(seen.headers["Authorization"] == f"Bearer {CANARY}" for seen in server.seen)
    assert "CANARY_KEY" in kept[2]
    for text in (*kept, caplog.text):
        assert CANARY not in text
        assert CANARY[:9] + "***" not in text


def test_a_secret_cannot_be_shown_or_pickled() -> None:
    """Formatting a secret shows a mask, pickling it fails."""
    secret = Secret(CANARY)
    assert CANARY not in f"{secret!r} {secret} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_redaction_covers_escaped_forms_and_look_alikes() -> None:
    """Percent-encoded and JSON-escaped keys, bearer headers, foreign keys and URL credentials are masked."""
    redact = Redactor([Secret('p@ss"word/1')])
    told = redact('p%40ss%22word%2F1 p@ss\\"word/1 Bearer abcdefghijk sk-abcdef123 http://u:secret@h/ fine')
    assert told == "[redacted] [redacted] [redacted] [redacted] http://[redacted]@h/ fine"


@pytest.mark.parametrize("value", ["", "   ", "two words", "naïve\x00"])
def test_a_key_that_cannot_be_one_names_its_variable(value: str) -> None:
    """An empty or impossible key is told by the variable's name, not by its value."""
    with pytest.raises(UsageError, match="SOME_KEY") as caught:
        read_secret("SOME_KEY", {"SOME_KEY": value})
    assert not value.strip() or value not in str(caught.value)


async def test_a_redirect_never_carries_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect is not followed, with the key or without: the message names the new place."""
    monkeypatch.setenv("CANARY_KEY", CANARY)
    async with serve(answer()) as other:
        moved = [head(307, "text/plain", Location=f"{other.url}/chat/completions"), b"moved"]
        async with serve(moved) as server, open_endpoint(spec(server.url, key_env="CANARY_KEY")) as endpoint:
            attempt = await endpoint.attempt(ASK, Decoding())
            with pytest.raises(ProtocolError):
                await endpoint.models()
        assert other.seen == []
        assert attempt.outcome is Outcome.BAD_REQUEST
        assert other.url in attempt.evidence


@pytest.mark.parametrize("url", ["http://api.example.com/v1", "http://8.8.8.8/v1", "http://[2001:4860::1]/v1"])
async def test_a_key_is_not_sent_in_the_clear_to_a_public_host(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain http with a key is refused for public hosts, unless it is asked for; without a key it is fine."""
    monkeypatch.setenv("CANARY_KEY", CANARY)
    with pytest.raises(UsageError, match="in the clear"):
        async with open_endpoint(spec(url, key_env="CANARY_KEY")):
            pass
    with pytest.raises(UsageError, match="in the clear"):
        async with open_endpoint(spec(url, headers={"X-Key": "env:CANARY_KEY"})):
            pass
    async with open_endpoint(spec(url, key_env="CANARY_KEY", allow_insecure=True)), open_endpoint(spec(url)):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3", "[::1]", "gateway", "box.local"])
async def test_private_hosts_may_be_plain(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback, private networks and local names take a key over http."""
    monkeypatch.setenv("CANARY_KEY", CANARY)
    async with open_endpoint(spec(f"http://{host}:8000/v1", key_env="CANARY_KEY")):
        pass


async def test_the_proxy_is_used() -> None:
    """A stated proxy gets the request, with the absolute URL of the endpoint."""
    async with serve(answer()) as proxy:
        stated = f"http://127.0.0.1:{proxy.port}"
        async with open_endpoint(spec("http://model.internal/v1", proxy=stated)) as endpoint:
            assert (await endpoint.attempt(ASK, Decoding())).outcome is Outcome.ANSWERED
        assert proxy.seen[0].path == "http://model.internal/v1/chat/completions"


def test_the_environment_proxy_is_honoured_but_not_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """https_proxy and no_proxy count; 127.0.0.1 always goes direct."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inner.example.com")
    assert proxy_for("https://api.example.com/v1", None) == "http://proxy:3128"
    assert proxy_for("https://inner.example.com/v1", None) is None
    assert proxy_for("https://127.0.0.1:8000/v1", None) is None
    assert proxy_for("http://127.0.0.1:8000/v1", "http://mine:1") == "http://mine:1"


# ── what an endpoint is ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://H:1/v1/", "http://h:1/v1"),
        ("https://h/v1/chat/completions", "https://h/v1"),
        ("https://h/openai/v4?api-version=1", "https://h/openai/v4?api-version=1"),
    ],
)
def test_urls_come_down_to_their_base(given: str, base: str) -> None:
    """A bare host, a trailing slash and a full operation URL all name the same endpoint."""
    assert EndpointSpec(given, "m").url == base
    assert EndpointSpec(given, "m").fingerprint == EndpointSpec(base, "m").fingerprint


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "localhost:8000"}, "not a URL"),
        ({"url": "ftp://h/v1"}, "not an http"),
        ({"url": "http://h:99999/v1"}, "not an http"),
        ({"url": "https://user:pw@h/v1"}, "carries credentials"),
        ({"model": ""}, "must be named"),
        ({"dialect": "openai-chatt"}, "Did you mean 'openai-chat'"),
        ({"headers": {"Authorization": "Bearer x"}}, "env:NAME"),
        ({"headers": {"X A": "x"}}, "not a header name"),
        ({"headers": {"X": "a\nb"}}, "no header can carry"),
        ({"max_response_bytes": 0}, "positive"),
    ],
)
def test_a_spec_that_cannot_be_says_why(changes: dict[str, object], said: str) -> None:
    """Each impossible part of a spec is named, without its credentials."""
    with pytest.raises(UsageError, match=said) as caught:
        EndpointSpec(**{"url": "http://h/v1", "model": "m", **changes})  # type: ignore[arg-type]
    assert "pw" not in str(caught.value)


async def test_check_tells_what_to_do() -> None:
    """Nobody there, a wrong model, a wrong key and a URL that is no API: one line each, with the way out."""
    listing = [head(kind="application/json"), b'{"data": [{"id": "m-2"}]}']
    with pytest.raises(EndpointUnreachable, match="is the server up"):
        async with open_endpoint(spec("http://127.0.0.1:1/v1")) as endpoint:
            await endpoint.check()
    missing = error_reply(404, {"error": {"message": "no such model", "code": "model_not_found"}})
    async with serve(listing, missing) as server, open_endpoint(spec(server.url)) as endpoint:
        with pytest.raises(ModelNotFound, match="Choices: m-2"):
            await endpoint.check()
    page = [head(kind="text/html"), b"<html>hello</html>"]
    async with serve(page) as server, open_endpoint(spec(server.url)) as endpoint:
        with pytest.raises(ProtocolError, match="check URL and dialect"):
            await endpoint.check()
    async with serve(listing, answer()) as server, open_endpoint(spec(server.url)) as endpoint:
        await endpoint.check()  # not listed, but it answers: lists are not always complete
