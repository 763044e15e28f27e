"""A server that streams on a clock and remembers when it really wrote: the truth for `client.py`.

Nothing but a socket protocol, so that its own cost hardly shows. The request's headers say what to do:
`X-Tokens`, `X-Ttft` and `X-Gap` (seconds). `GET /truth` gives, by the text of the message, the moments at which
the request was read and each token was written: `perf_counter_ns`, which all processes of a machine share on
Linux.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import perf_counter_ns
from typing import ClassVar, cast

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Connection: keep-alive\r\n\r\n"
)
_SHELL = '{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"stream",'


def _chunk(payload: str) -> bytes:
    data = f"data: {payload}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_ROLE = _chunk(
    _SHELL + '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
)
_TOKEN = _chunk(
    _SHELL + '"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}'
)
_STOP = _chunk(_SHELL + '"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
_DONE = _chunk("[DONE]") + b"0\r\n\r\n"


def _usage(tokens: int) -> bytes:
    return _chunk(
        _SHELL + f'"choices":[],"usage":{{"prompt_tokens":20,"completion_tokens":{tokens},"total_tokens":9}}}}'
    )


class _Stream(asyncio.Protocol):
    truth: ClassVar[dict[str, list[int]]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        if len(rest) < int(headers.get("content-length", 0)):
            return
        self._data = b""
        if lines[0].startswith("GET"):
            body = json.dumps(self.truth).encode()
            self.truth.clear()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        name = json.loads(rest)["messages"][0]["content"]
        moments = self.truth.setdefault(name, [])
        moments[:] = [perf_counter_ns()]
        self._transport.write(_HEAD + _ROLE)
        tokens, gap = int(headers.get("x-tokens", 64)), float(headers.get("x-gap", 0.005))
        first = asyncio.get_running_loop().time() + float(headers.get("x-ttft", 0.05))
        self._next(first, gap, tokens, tokens, moments)

    def _next(self, due: float, gap: float, left: int, tokens: int, moments: list[int]) -> None:
        asyncio.get_running_loop().call_at(due, self._token, due, gap, left, tokens, moments)

    def _token(self, due: float, gap: float, left: int, tokens: int, moments: list[int]) -> None:
        if self._transport.is_closing():
            return
        moments.append(perf_counter_ns())
        self._transport.write(_TOKEN)
        if left > 1:
            self._next(due + gap, gap, left - 1, tokens, moments)
        else:
            self._transport.write(_STOP + _usage(tokens) + _DONE)


async def _main() -> None:
    server = await asyncio.get_running_loop().create_server(_Stream, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # ends when the parent closes the pipe, or dies


if __name__ == "__main__":
    import uvloop

    uvloop.run(_main())
