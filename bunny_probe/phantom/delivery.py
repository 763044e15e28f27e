"""Writes a response on its schedule, and ends it as the faults say.

Due times are absolute, so a late event does not push the ones after it; how late each went out is recorded.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from bunny_probe.phantom.faults import Fault
from bunny_probe.phantom.framing import Framing
from bunny_probe.phantom.spoil import Ending
from bunny_probe.phantom.stats import Served, Stats
from bunny_probe.phantom.steps import Step

__all__ = ["Delivery", "drop_connection", "for_ever", "sleep_until"]

STAMP_HEADER = "X-Phantom-Stamp"
_PIECE_PAUSE = 0.001  # seconds between the writes of one event, so that they are read apart


async def sleep_until(moment: float) -> float:
    """Sleeps until time.perf_counter() reaches the moment. How late it woke, in seconds; never early."""
    while (left := moment - time.perf_counter()) > 0:  # noqa: ASYNC110  a timer may fire a little early
        await asyncio.sleep(left)
    return -left


async def for_ever() -> None:
    """Waits until the client leaves or the phantom stops; both cancel the handler."""
    await asyncio.Event().wait()


def drop_connection(request: web.Request, *, reset: bool) -> None:
    """FIN, or RST, whatever of the response went out."""
    transport = request.transport
    if transport is None:
        return
    if reset:
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    else:
        transport.close()


@dataclass(slots=True)
class Delivery:
    """One response being written."""

    request: web.Request
    stats: Stats
    served: Served
    faults: Sequence[Fault]
    arrived: float  # time.perf_counter() at which due times count from
    headers: dict[str, str] = field(default_factory=dict)
    _content: Step | None = None  # the newest content event

    def fault(self, name: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.name == name), None)

    async def stream(self, steps: list[Step], ending: Ending, framing: Framing) -> web.StreamResponse:
        response = await self._open(framing)
        stamped = STAMP_HEADER in self.request.headers
        batch: list[Step] = []
        for position, step in enumerate(steps):
            batch.append(step)
            if len(batch) < framing.coalesce and position + 1 < len(steps):
                continue
            late = await sleep_until(self.arrived + batch[-1].due)
            if batch[-1].due > 0:
                self._note_lateness(late)
            if stamped:
                for item in batch:
                    if item.payload is not None:
                        item.payload["phantom_sent_ns"] = time.perf_counter_ns()
            await self._write(response, b"".join(framing.event(item) for item in batch), framing)
            for item in batch:
                self._note_sent(item)
            batch.clear()
        await self._end(response, ending, framing)
        return response

    async def whole(self, body: bytes, due: float, ending: Ending, framing: Framing) -> web.StreamResponse:
        """A body that is not a stream."""
        late = await sleep_until(self.arrived + due)
        if due > 0:
            self._note_lateness(late)
        packed = framing.pack(body) + framing.close()
        framing.content_type = "text/plain" if framing.content_type == "text/plain" else "application/json"
        broken = ending.how != "whole"
        response = await self._open(framing, length=None if ending.how.startswith("endless") else len(packed))
        data = packed[: len(packed) // 2] if broken else packed
        pieces = list(framing.writes(data))
        for piece in pieces:
            await response.write(piece)
            if len(pieces) > 1:
                await asyncio.sleep(min(_PIECE_PAUSE, 0.1 / len(pieces)))
        self.served.sent_tokens = self.served.planned_tokens
        self.served.sent_ttft_s = time.perf_counter() - self.arrived
        await self._end(response, ending, framing)
        return response

    async def _open(self, framing: Framing, length: int | None = None) -> web.StreamResponse:
        if (slow := self.fault("slow-headers")) is not None:
            await sleep_until(self.arrived + slow.number)
        headers = {"Content-Type": framing.content_type, "Cache-Control": "no-cache", **self.headers}
        if framing.gzip:
            headers["Content-Encoding"] = "gzip"
        response = web.StreamResponse(headers=headers)
        if self.fault("connection-close") is not None:
            response.force_close()
        if length is not None:
            response.content_length = length
        else:
            response.enable_chunked_encoding()
        self.served.status = 200
        await response.prepare(self.request)
        if self.fault("silence-body") is not None:
            await for_ever()
        if (slow := self.fault("slow-first-byte")) is not None:
            await sleep_until(time.perf_counter() + slow.number)
        return response

    async def _write(self, response: web.StreamResponse, data: bytes, framing: Framing) -> None:
        packed = framing.pack(data)
        if not framing.in_pieces:
            await response.write(packed)
            return
        pieces = [piece for piece in framing.writes(packed) if piece]
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(min(_PIECE_PAUSE, 0.02 / len(pieces)))

    async def _end(self, response: web.StreamResponse, ending: Ending, framing: Framing) -> None:
        if ending.half_event:
            await response.write(framing.pack(ending.half_event))
        match ending.how:
            case "whole":
                if not response.content_length and (rest := framing.close()):
                    await response.write(rest)
                await response.write_eof()
            case "fin":
                drop_connection(self.request, reset=False)
            case "reset":
                await asyncio.sleep(0.02)  # what was written must leave before the RST overtakes it
                drop_connection(self.request, reset=True)
            case "hang":
                await for_ever()
            case _:
                await self._endless(response, ending, framing)

    async def _endless(self, response: web.StreamResponse, ending: Ending, framing: Framing) -> None:
        if ending.how == "endless-line":
            await response.write(framing.pack(b'data: {"choices":[{"delta":{"content":"'))
            while True:
                await response.write(framing.pack(b"x" * max(1, int(ending.number))))
                await asyncio.sleep(_PIECE_PAUSE)
        again = self._content if ending.how == "endless" else None
        while True:
            data = framing.comment() if again is None else framing.event(again)
            await response.write(framing.pack(data))
            self.served.sent_tokens += again is not None
            await asyncio.sleep(ending.number)

    def _note_sent(self, step: Step) -> None:
        if step.kind in ("content", "reasoning") and step.token is not None:
            self._content = step
            self.served.sent_tokens += step.tokens
            if self.served.sent_ttft_s is None and step.kind == "content":
                self.served.sent_ttft_s = time.perf_counter() - self.arrived

    def _note_lateness(self, late: float) -> None:
        self.stats.late(late)
        self.served.latest_s = max(self.served.latest_s, late)
