"""One generating request, from the first engine step to the last byte: whole, or as server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson
from starlette.types import Message, Send

from bunny_engine.server.errors import as_api_error, error_object, failure, json_response
from bunny_engine.server.generation import Event, Piece, Work, running
from bunny_engine.server.shapes import Shape
from bunny_engine.server.text import Vocabulary
from bunny_engine.server.trace import Tally, Trace
from bunny_engine.server.watched import Watched, plain
from bunny_engine.types import Engine, PromptStart

__all__ = ["Answer", "Style"]

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How the client wants the answer written."""

    model: str
    fingerprint: str
    parallel: int  # choices that run at a time
    stream: bool
    include_usage: bool
    timings: bool


class Answer(Watched):
    """Generates while it is sent."""

    def __init__(
        self, engine: Engine, vocabulary: Vocabulary, work: Work, shape: Shape, style: Style, trace: Trace
    ) -> None:
        super().__init__(trace)
        self._engine, self._vocabulary, self._work = engine, vocabulary, work
        self._shape, self._style, self._trace = shape, style, trace
        self._tally = trace.tally = Tally(sum(map(len, work.prompts)), work.n, trace.began)
        self._head = {
            "id": shape.prefix + uuid4().hex,
            "object": shape.chunk_kind if style.stream else shape.kind,
            "created": int(time.time()),
            "model": style.model,
            "system_fingerprint": style.fingerprint,
        }

    async def send(self, send: Send) -> None:
        await (self._send_stream(send) if self._style.stream else self._send_whole(send))

    async def _send_whole(self, send: Send) -> None:
        try:
            async with self._events() as events:
                response = json_response(await self._whole(events))
        except Exception as fault:
            response = failure(fault)
        await plain(response, send)

    async def _send_stream(self, send: Send) -> None:
        started = False
        try:
            async with self._events() as events, aclosing(self._chunks(events)) as chunks:
                async for chunk in chunks:
                    # the status waits for the engine's first word, so that a full queue is a 429 and no stream
                    if not started:
                        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
                        started = True
                    await send(_body(chunk, more=True))
        except Exception as fault:
            error = as_api_error(fault)
            if not started:
                await plain(failure(error), send)
                return
            self._trace.fault = error.kind
            await send(_body(_event(error_object(error)), more=True))
        await send(_body(b"", more=False))

    def _events(self) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        return running(self._engine, self._vocabulary, self._work, self._style.parallel)

    async def _whole(self, events: AsyncIterator[Event]) -> dict[str, Any]:
        starts: dict[int, PromptStart] = {}
        pieces: dict[int, list[Piece]] = {}
        async for index, what in events:
            self._tally.note(index, what)
            if isinstance(what, PromptStart):
                starts[index] = what
            else:
                pieces.setdefault(index, []).append(what)
        answer = {
            **self._head,
            "choices": [self._shape.whole(index, starts[index], pieces[index]) for index in sorted(pieces)],
            "usage": self._tally.usage(),
        }
        if self._style.timings:
            answer["timings"] = self._tally.timings()
        return answer

    async def _chunks(self, events: AsyncIterator[Event]) -> AsyncGenerator[bytes, None]:
        rest: dict[str, Any] = {"usage": None} if self._style.include_usage else {}

        def chunk(said: dict[str, Any] | None) -> bytes:
            return b"" if said is None else _event({**self._head, "choices": [said], **rest})

        async for index, what in events:
            self._tally.note(index, what)
            if isinstance(what, PromptStart):
                sent = chunk(self._shape.opening(index, what))
            else:
                sent = chunk(self._shape.delta(index, what))
                if what.finish:
                    sent += chunk(self._shape.closing(index, what.finish))
            if sent:
                yield sent
        last: dict[str, Any] = {"usage": self._tally.usage()} if self._style.include_usage else {}
        if self._style.timings:
            last["timings"] = self._tally.timings()
        if last:
            yield _event({**self._head, "choices": [], **last})
        yield b"data: [DONE]\n\n"


def _event(content: object) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def _body(content: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}
