"""The tap behind the socket: true stamps, aiohttp's own idea of a body's end, a connection to use again."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.endpoints import EndpointSpec, Timeouts, open_endpoint, wire
from bunny_probe.endpoints.dialects import dialect
from bunny_probe.endpoints.reading import StreamReader
from bunny_probe.records import Attempt, Decoding, Message, Outcome

ASK = [Message("user", "count")]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def body(words: int, end: str = "\n") -> list[bytes]:
    """Events of a chat answer, one a piece."""

    def event(value: object) -> bytes:
        return f"data: {json.dumps(value)}{end}{end}".encode()

    deltas = [{"choices": [{"index": 0, "delta": {"content": f"w{i} "}}]} for i in range(words)]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [event(value) for value in (*deltas, last)]


def chunked(pieces: list[bytes], last: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]) + last


@asynccontextmanager
async def keeping(
    writes: Callable[[int], list[bytes]], pause: float = 0.001
) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that keeps connections; the n-th request gets `writes(n)`, one by one. Gives its URL and the
    connections made so far."""
    connections: list[int] = []
    asked = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        connections.append(len(connections))
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
                asked += 1
                for data in writes(asked - 1):
                    if not data:
                        writer.close()
                        return
                    writer.write(data)
                    await writer.drain()
                    await asyncio.sleep(pause)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", connections
    finally:
        server.close()


async def ask(url: str, times: int = 1, idle: float = 5.0) -> list[Attempt]:
    async with open_endpoint(EndpointSpec(url, "m", timeouts=Timeouts(5, 5, idle, 10))) as endpoint:
        return [await endpoint.attempt(ASK, Decoding()) for _ in range(times)]


def cuts(data: bytes, size: int) -> list[bytes]:
    return [data[a:b] for a, b in pairwise([*range(0, len(data), size), len(data)])]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [b"0\r\n\r\n", b"0\r\nX-Trailer: 1\r\n\r\n"])
@pytest.mark.parametrize("size", [2, 3, 7, 59, 10_000])
async def test_a_chunked_body_ends_wherever_its_last_bytes_are_cut(end: str, last: bytes, size: int) -> None:
    """The end is seen at once with any cut and with trailers, and the next request uses the same connection."""
    writes = [CHUNKED, *cuts(chunked(body(4, end), last), size)]
    async with keeping(lambda _: writes, 0.0) as (url, connections):
        attempts = await ask(url, 2)
    assert [a.outcome for a in attempts] == [Outcome.ANSWERED] * 2
    assert {a.text for a in attempts} == {"".join(f"w{i} " for i in range(4))}
    assert len(connections) == 1
    assert attempts[1].timing is not None
    assert attempts[1].timing.connection_reused


async def test_a_body_of_stated_length_and_one_that_ends_with_the_connection() -> None:
    """Both ends that no chunk marks are seen, the one by its bytes and the other by the connection's."""
    pieces = body(8)
    whole = b"".join(pieces)
    sized = [HEAD + b"Content-Length: %d\r\n\r\n" % len(whole), *pieces]
    closing = [HEAD + b"Connection: close\r\n\r\n", *pieces, b""]
    async with keeping(lambda asked: closing if asked else sized) as (url, connections):
        attempts = await ask(url, 2)
    assert [(a.outcome, len(set(a.trace.arrival))) for a in attempts] == [(Outcome.ANSWERED, 8)] * 2
    assert len(connections) == 1


async def test_what_is_no_http_is_told_before_its_silence_is() -> None:
    """A body that breaks the framing ends the attempt soon, though nothing was parsed while it came."""
    writes = [CHUNKED, chunked(body(3)[:-1], last=b""), b"no chunk size\r\n"]
    async with keeping(lambda _: writes) as (url, _):
        (attempt,) = await ask(url)
    assert attempt.timing is not None
    assert (attempt.timing.end or 0) < 4_000_000_000  # the silence would last five seconds
    assert attempt.outcome is Outcome.CUT_STREAM
    assert attempt.text == "w0 w1 w2 "


async def test_the_end_of_an_answer_is_its_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client does with an answer behind its end does not count as the server's latency."""
    slow = StreamReader.take

    def take(self: StreamReader, reads: list[tuple[int, bytes]]) -> None:
        until = asyncio.get_running_loop().time() + 0.2
        while asyncio.get_running_loop().time() < until:
            pass
        slow(self, reads)

    monkeypatch.setattr(StreamReader, "take", take)
    async with keeping(lambda _: [CHUNKED, *cuts(chunked(body(8)), 200)]) as (url, _):
        (attempt,) = await ask(url)
    timing = attempt.timing
    assert timing is not None
    assert timing.end is not None
    assert timing.last_content is not None
    assert timing.last_content <= timing.end < timing.last_content + 200_000_000


async def test_a_stream_cut_in_a_chunk_keeps_what_came() -> None:
    """What was read before the connection broke is the evidence, although nobody had parsed it yet."""
    writes = [CHUNKED, chunked(body(5), last=b"")[:-20], b""]
    async with keeping(lambda _: writes) as (url, _):
        (attempt,) = await ask(url)
    assert attempt.outcome is Outcome.CUT_STREAM
    assert attempt.text == "w0 w1 w2 w3 w4 "


_WORD = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_EDGES = st.sampled_from(
    ["content", "delta", "stop", '"', "\\", "\n", "\u2028", "\x00", "", "é", "漢", "\u00a0"]
)


@given(
    st.lists(_WORD | _EDGES, max_size=12),
    st.booleans(),
    st.sampled_from(["openai-chat", "openai-completions", "anthropic-messages"]),
    st.lists(st.sampled_from(["", "usage", "finish", "other", "error"]), max_size=12),
)
def test_a_repeated_event_means_what_its_bytes_say(
    words: list[str], ascii_only: bool, name: str, odd: list[str]
) -> None:
    """Reading events by what stands around their text gives what reading each in full gives."""
    odd += [""] * len(words)

    def event(word: str, kind: str) -> bytes:
        extra = {"usage": {"usage": {"completion_tokens": 3}}, "other": {"n": 1}, "error": {"error": "no"}}
        finish = "stop" if kind == "finish" else None
        value: dict[str, object]
        match name:
            case "openai-chat":
                value = {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": finish}]}
            case "openai-completions":
                value = {"choices": [{"index": 0, "text": word, "finish_reason": finish}]}
            case _:
                value = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": word}}
        value |= {"model": "m"} | extra.get(kind, {})
        text = json.dumps(value, ensure_ascii=ascii_only)
        return (f"event: {value['type']}\n" if "type" in value else "").encode() + f"data: {text}\n\n".encode()

    reads = [(at, event(word, kind)) for at, (word, kind) in enumerate(zip(words, odd, strict=False), 1)]
    together = StreamReader(dialect(name))
    together.take([(0, b": hello\n\n"), *reads])
    apart = StreamReader(dialect(name))
    for at, data in [(0, b": hello\n\n"), *reads]:  # cut in two, so that no read holds an event
        apart.take([(at, data[:3]), (at, data[3:])])
    assert together.finish() == apart.finish()
    assert together.malformed == apart.malformed


async def test_the_ordinary_way_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tap cannot be used, the answer, its tokens and its outcome are the same."""
    async with keeping(lambda _: [CHUNKED, *cuts(chunked(body(20)), 100)]) as (url, _):
        (tapped,) = await ask(url)
        monkeypatch.setattr(wire, "tap", lambda response, most: None)
        (plain,) = await ask(url)
    assert (tapped.outcome, tapped.text, tapped.trace.text) == (plain.outcome, plain.text, plain.trace.text)


def hostile(rng: random.Random) -> list[bytes]:
    """Writes of an answer framed, cut and broken in some way; b"" closes the connection."""
    pieces = body(rng.randint(0, 12), rng.choice(["\n", "\r\n"]))
    if rng.random() < 0.2:
        del pieces[-1]
    match rng.choice(["chunked", "length", "close"]):
        case "chunked":
            parts = cuts(b"".join(pieces), rng.randint(1, 150)) if rng.random() < 0.4 else pieces
            last = rng.choice([b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"0;x=1\r\n\r\n"])
            data, closes = CHUNKED + chunked([part for part in parts if part], last), rng.random() < 0.3
        case "length":
            whole = b"".join(pieces)
            data, closes = HEAD + b"Content-Length: %d\r\n\r\n" % len(whole) + whole, False
        case _:
            data, closes = HEAD + b"Connection: close\r\n\r\n" + b"".join(pieces), True
    if rng.random() < 0.25:
        data, closes = data[: rng.randint(60, max(61, len(data)))], True
    if rng.random() < 0.1:
        place = rng.randint(60, max(61, len(data) - 1))
        data, closes = data[:place] + bytes([rng.randint(0, 255)]) + data[place + 1 :], True
    return [*cuts(data, rng.choice([1, 3, 17, 64, 300, 5000])), *([b""] if closes else [])]


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_a_server_does_both_ways_of_reading_agree(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcome, text and tokens of a hostile answer, and of a sound one behind it, are plain aiohttp's."""
    writes = [hostile(random.Random(seed)), [CHUNKED, chunked(body(3))]]

    async def both() -> list[tuple[Outcome, str, tuple[str, ...]]]:
        async with keeping(lambda asked: writes[min(asked, 1)], 0.0) as (url, _):
            return [(a.outcome, a.text, a.trace.text) for a in await ask(url, 2, idle=0.5)]

    tapped = await both()
    monkeypatch.setattr(wire, "tap", lambda response, most: None)
    assert tapped == await both()
