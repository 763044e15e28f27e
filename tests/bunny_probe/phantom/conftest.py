"""A client of sockets alone: what the phantom puts on the wire is read as bytes, by nothing of ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from bunny_probe.phantom import Phantom

PROMPT = (
    "The harbour was quiet all week. The access code for Oslo is KX-4410-T. Nobody had slept well. "
    "The access code for Bergen is ZB-9982-Q. The ferry left at noon.\n\nWhat is the access code for Oslo?"
)


@dataclass
class Raw:
    """A response as it came: the head, each read of the body, and how it ended."""

    head: bytes = b""
    reads: list[bytes] = field(default_factory=list)
    ended: str = ""  # "whole", "fin" (before the body was whole), "reset", "open" (still open at the limit)
    fault: str = ""  # that was asked for
    first_byte_s: float = -1.0  # after sending; -1: none came
    body_byte_s: float = -1.0
    seconds: float = 0.0  # to the end

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines) if k}

    @property
    def chunks(self) -> list[bytes]:
        """The HTTP chunks of the body, one a write; the terminating one is left out."""
        whole, chunks, at = b"".join(self.reads), [], 0
        while (border := whole.find(b"\r\n", at)) >= 0:
            length = int(whole[at:border], 16)
            at = border + 2 + length
            if not length or at > len(whole):
                break
            chunks.append(whole[border + 2 : at])
            at += 2
        return chunks

    @property
    def body(self) -> bytes:
        if self.headers.get("transfer-encoding") == "chunked":
            return b"".join(self.chunks)
        return b"".join(self.reads)

    @property
    def data(self) -> list[str]:
        """The data of each event."""
        text = self.body.decode().replace("\r\n", "\n")
        events = [block.split("\n") for block in text.split("\n\n") if block]
        joined = ["\n".join(x[5:].lstrip(" ") for x in lines if x.startswith("data:")) for lines in events]
        return [data for data in joined if data]

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [json.loads(data) for data in self.data if data != "[DONE]"]

    @property
    def text(self) -> str:
        deltas = [c["delta"] for p in self.payloads for c in p.get("choices", [])]
        return "".join(delta.get("content") or "" for delta in deltas)


async def exchange(
    phantom: Phantom, body: Any = None, fault: str = "", path: str = "/v1/chat/completions", limit: float = 5.0
) -> Raw:
    """One POST (or GET without a body) on a connection of its own."""
    address = urlsplit(phantom.root)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    raw = Raw(fault=fault)
    try:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: phantom", "Connection: close"]
        head.append(f"Content-Length: {len(content)}")
        if fault:
            head.append(f"X-Phantom-Fault: {fault}")
        started = asyncio.get_running_loop().time()
        writer.write("\r\n".join([*head, "", ""]).encode() + content)
        try:
            async with asyncio.timeout(limit):
                await _read(reader, raw, started)
        except TimeoutError:
            raw.ended = "open"
        except (ConnectionResetError, BrokenPipeError):
            raw.ended = "reset"
        raw.seconds = asyncio.get_running_loop().time() - started
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return raw


async def _read(reader: asyncio.StreamReader, raw: Raw, started: float) -> None:
    clock = asyncio.get_running_loop().time
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        part = await reader.read(65536)
        if not part:
            raw.head, raw.ended = buffer, "fin"
            return
        if raw.first_byte_s < 0:
            raw.first_byte_s = clock() - started
        buffer += part
    raw.head, _, rest = buffer.partition(b"\r\n\r\n")
    if rest:
        raw.body_byte_s = clock() - started
        raw.reads.append(rest)
    while True:
        part = await reader.read(65536)
        if not part:
            break
        if raw.body_byte_s < 0:
            raw.body_byte_s = clock() - started
        raw.reads.append(part)
    whole = b"".join(raw.reads)
    if raw.headers.get("transfer-encoding") == "chunked":
        raw.ended = "whole" if whole.endswith(b"0\r\n\r\n") else "fin"
    else:
        raw.ended = "whole" if len(whole) == int(raw.headers.get("content-length", -1)) else "fin"


def chat(prompt: str = PROMPT, **more: Any) -> dict[str, Any]:
    """A streamed, greedy chat request that asks for usage."""
    body: dict[str, Any] = {
        "model": "reliable",
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **more,
    }
    if not body["stream"]:
        body.pop("stream_options")
    return body


@pytest.fixture(scope="session")
def reliable() -> Iterator[Phantom]:
    """A phantom that answers right at once."""
    with Phantom() as phantom:
        yield phantom


@pytest.fixture
def ask() -> Callable[..., Any]:
    return exchange


@pytest.fixture
def request_body() -> Callable[..., dict[str, Any]]:
    return chat
