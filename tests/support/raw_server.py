"""A raw asyncio HTTP server whose answers are bytes and pauses, written out by the test that uses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Step = bytes | float | str  # bytes to write, seconds to wait, "reset" to break the connection
Script = list[Step]


@dataclass
class Server:
    port: int = 0
    seen: list[Seen] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def head(status: int = 200, kind: str = "text/event-stream", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def delta(content: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    """A chat chunk."""
    extra = more.pop("choice", {})
    content_field = {} if content is None else {"content": content}
    return event(
        {
            "id": "c1",
            "model": "m-1",
            "choices": [
                {"index": 0, "delta": content_field | more.pop("delta", {}), "finish_reason": finish} | extra
            ],
            **more,
        }
    )


ROLE = delta(delta={"role": "assistant", "content": ""})
DONE = event(b"[DONE]")


def usage(prompt: int = 10, completion: int = 2, **more: Any) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}})


def answer(text: str = "blue", prompt: int = 10) -> Script:
    return [head(), ROLE, delta(text), delta(finish="stop"), usage(prompt), DONE]


def error_reply(status: int, value: Any, **headers: str) -> Script:
    return [head(status, "application/json", **headers), json.dumps(value).encode()]


@asynccontextmanager
async def serve(*scripts: Script | Callable[[Seen], Script]) -> AsyncIterator[Server]:
    """Serves the scripts one a request, in order; the last one for all that follow."""
    state = Server()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
            first, *lines = raw.decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines if line)
            length = int(headers.get("Content-Length", 0))
            body = await reader.readexactly(length)
            state.seen.append(Seen(first.split(" ")[1], headers, body))
            script = scripts[min(len(state.seen), len(scripts)) - 1]
            for step in script(state.seen[-1]) if callable(script) else script:
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                elif isinstance(step, str):
                    writer.transport.abort()
                    return
                else:
                    await asyncio.sleep(step)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=2**24)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
