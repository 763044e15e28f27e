"""Two ways to ask an app: in-process, and over a real socket; and what an event stream holds."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import orjson
import uvicorn
from bunny_engine.server import Settings, create_app, http_config
from scripted_engine import BpeTokenizer, ScriptedEngine
from starlette.applications import Starlette

MODEL = "tiny"


def client_of(app: Starlette, key: str | None = None) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers)


def saying(
    text: str, *, tokenizer: BpeTokenizer | None = None, end: bool = True, **options: Any
) -> ScriptedEngine:
    """An engine that answers every prompt with `text`, and an end token after it."""
    tokenizer = tokenizer or BpeTokenizer()
    ids = tokenizer.encode(text)
    return ScriptedEngine(tokenizer, ids + [tokenizer.special_tokens["<|im_end|>"]] * end, **options)


async def ask(
    engine: ScriptedEngine,
    path: str,
    body: Mapping[str, Any] | bytes,
    *,
    tokenizer: BpeTokenizer | None = None,
    settings: Settings | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """One POST. A body without them gets the model's name, and a chat a message or a completion a prompt."""
    app = create_app(engine, tokenizer or BpeTokenizer(), settings)
    async with client_of(app) as client:
        return await client.post(path, content=filled(path, body), headers=dict(headers or {}))


def filled(path: str, body: Mapping[str, Any] | bytes) -> bytes:
    if isinstance(body, bytes):
        return body
    whole: dict[str, Any] = {"model": MODEL, **body}
    if path.endswith("chat/completions"):
        whole.setdefault("messages", [{"role": "user", "content": "Hello"}])
    elif path.endswith("/completions"):
        whole.setdefault("prompt", "Hello")
    return json.dumps(whole).encode()  # orjson writes no number past 64 bits, but a client might


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """The stream's chunks; it has to be well formed and to end with [DONE]."""
    assert response.headers["content-type"].startswith("text/event-stream"), response.text
    *chunks, last = parsed(response.text)
    assert last == "[DONE]"
    return chunks


def parsed(stream: str) -> list[Any]:
    assert stream.endswith("\n\n")
    found = []
    for block in stream[:-2].split("\n\n"):
        assert block.startswith("data: ")
        assert "\n" not in block
        data = block.removeprefix("data: ")
        found.append(data if data == "[DONE]" else orjson.loads(data))
    return found


def text_of(chunks: Sequence[Mapping[str, Any]], index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice.get("text", choice.get("delta", {}).get("content")) or "" for choice in choices)


@contextmanager
def live(app: Starlette) -> Iterator[str]:
    """The app over real HTTP on a free loopback port; the URL, without a path."""
    bound = socket.create_server(("127.0.0.1", 0))
    config = http_config(app)
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.005)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        bound.close()
        assert not thread.is_alive()
