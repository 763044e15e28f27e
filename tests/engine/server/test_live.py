"""Over real sockets: clients that leave, tokens as they come, many streams at once."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import aclosing

import httpx
import orjson
import pytest
from bunny_engine.server import Settings, create_app
from bunny_engine.types import PromptStart
from http_harness import MODEL, events, live, parsed, saying, text_of
from scripted_engine import BpeTokenizer, ScriptedEngine

CHAT = "/v1/chat/completions"
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}


async def soon(condition: object, what: str, seconds: float = 5.0) -> None:
    """Wait until `condition()` holds; fail with `what` where it never does."""
    assert callable(condition)
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, what
        await asyncio.sleep(0.005)


@pytest.fixture
def slow() -> Iterator[tuple[str, ScriptedEngine]]:
    """A server whose engine takes 20 ms a step and has far more to say than any test waits for."""
    engine = saying("dog " * 50, pause=0.02, context=2000)
    with live(create_app(engine, BpeTokenizer())) as url:
        yield url, engine


@pytest.mark.parametrize("fields", [{"stream": True}, {"stream": False}, {"stream": True, "n": 3}, {"n": 3}])
async def test_a_client_that_leaves_frees_its_slots(
    slow: tuple[str, ScriptedEngine], fields: dict[str, object]
) -> None:
    """Streaming or not, one choice or many: the engine stops within moments of a cut connection."""
    url, engine = slow
    async with httpx.AsyncClient(base_url=url) as client:
        asking = asyncio.create_task(client.post(CHAT, json={**HELLO, **fields}))
        await soon(lambda: engine.given > 3, "no token was given")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await soon(lambda: engine.open == 0, "a slot leaked")
    given = engine.given
    await asyncio.sleep(0.1)
    assert engine.given == given


async def test_a_client_that_leaves_while_waiting_frees_its_slot() -> None:
    """Also before the first token, while its prompt is still read."""
    engine = saying("dog", pause=30)
    with live(create_app(engine, BpeTokenizer())) as url:
        async with httpx.AsyncClient(base_url=url) as client:
            for stream in (True, False):
                asking = asyncio.create_task(client.post(CHAT, json={**HELLO, "stream": stream}))
                await soon(lambda: engine.open == 1, "the request never reached the engine")
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                await soon(lambda: engine.open == 0, "a slot leaked")


async def test_a_client_that_leaves_while_sending_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """Half a body and a closed connection: nothing is asked of the engine, nothing is logged as an error."""
    engine = saying("dog")
    with live(create_app(engine, BpeTokenizer())) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as half:
            half.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{{".encode())
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/health")).status_code == 200
    assert not engine.asked
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_tokens_come_as_they_are_drawn(slow: tuple[str, ScriptedEngine]) -> None:
    """A chunk is with the client long before the answer is whole."""
    url, engine = slow
    body = {**HELLO, "stream": True, "max_tokens": 12}
    async with httpx.AsyncClient(base_url=url) as client, client.stream("POST", CHAT, json=body) as response:
        drawn = [engine.given async for line in response.aiter_lines() if "content" in line]
    assert len(drawn) > 8
    assert drawn[0] <= 3
    assert drawn[4] <= 8


async def test_twenty_streams_at_once() -> None:
    """Each client gets its own answer, whole, whatever the others do."""
    tokenizer = BpeTokenizer()
    engine = ScriptedEngine(
        tokenizer, lambda ids, params: [*tokenizer.encode(f"for {params.seed} 长"), 2], pause=0.002
    )
    with live(create_app(engine, tokenizer)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            bodies = [{**HELLO, "stream": True, "seed": seed} for seed in range(20)]
            answers = await asyncio.gather(*(client.post(CHAT, json=body) for body in bodies))
    assert [text_of(events(answer)) for answer in answers] == [f"for {seed} 长" for seed in range(20)]
    assert engine.open == 0


def test_one_request_does_not_take_every_slot() -> None:
    """Of many choices only some run at a time, and all are answered."""
    tokenizer = BpeTokenizer()
    most = 0

    class Counting(ScriptedEngine):
        async def generate(self, prompt_ids, params):  # type: ignore[no-untyped-def]
            nonlocal most
            async with aclosing(super().generate(prompt_ids, params)) as steps:
                async for step in steps:
                    most = max(most, self.open)
                    yield step

    engine = Counting(tokenizer, [*tokenizer.encode("dog"), 2], pause=0.001)
    with live(create_app(engine, tokenizer, Settings(parallel_choices=3))) as url:
        body = {"model": MODEL, "prompt": [f"{i}" for i in range(10)], "n": 2}
        answer = httpx.post(url + "/v1/completions", json=body).json()
    assert [choice["text"] for choice in answer["choices"]] == ["dog"] * 20
    assert most == 3


def test_choices_wait_for_the_prompt_to_be_cached() -> None:
    """The further choices of a prompt start once the first has its prompt read: it is computed once."""
    tokenizer = BpeTokenizer()
    order: list[str] = []

    class Noting(ScriptedEngine):
        async def generate(self, prompt_ids, params):  # type: ignore[no-untyped-def]
            order.append("asked")
            async for step in super().generate(prompt_ids, params):
                if isinstance(step, PromptStart):
                    order.append("read")
                yield step

    engine = Noting(tokenizer, [*tokenizer.encode("dog"), 2], pause=0.02)
    with live(create_app(engine, tokenizer)) as url:
        httpx.post(url + CHAT, json={**HELLO, "n": 3})
    assert order == ["asked", "read", "asked", "asked", "read", "read"]


def test_connections_are_kept() -> None:
    """Many requests go over one connection, refusals among them."""
    with live(create_app(saying("dog"), BpeTokenizer())) as url, httpx.Client(base_url=url) as client:
        ports = set()
        for body in (
            HELLO,
            {**HELLO, "temperature": 9},
            {**HELLO, "model": "x"},
            {**HELLO, "stream": True},
            HELLO,
        ):
            with client.stream("POST", CHAT, json=body) as response:
                ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
                response.read()
        assert len(ports) == 1


def test_a_cut_stream_is_no_whole_answer() -> None:
    """A fault over the wire: the client sees the error event, and the connection ends in good order."""
    with live(create_app(saying("The dog", fault_at=1), BpeTokenizer())) as url:
        response = httpx.post(url + CHAT, json={**HELLO, "stream": True})
    assert parsed(response.text)[-1]["error"]["type"] == "server_error"


def test_a_huge_upload_is_refused_while_it_comes() -> None:
    """413 for a body over the limit, over real HTTP, and the server lives on."""
    with live(create_app(saying("dog"), BpeTokenizer(), Settings(max_body_bytes=10_000))) as url:
        response = httpx.post(url + CHAT, content=orjson.dumps({"model": "x" * 2_000_000}))
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "request_too_large"
        assert httpx.get(url + "/health").status_code == 200
