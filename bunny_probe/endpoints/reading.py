"""Stamped reads → events → a `Reading`, by the dialect that was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from bunny_probe.endpoints.dialects import Dialect, Reading
from bunny_probe.endpoints.refusals import error_in
from bunny_probe.endpoints.repeated import Repeated, marks
from bunny_probe.endpoints.sse import EventSplitter

__all__ = ["StreamReader", "decode"]

_WRONG_SHAPE = (LookupError, TypeError, AttributeError, ValueError)


def decode(data: bytes) -> Any:
    """JSON values from `data`, also where a server writes NaN, Infinity or half a surrogate pair.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data.decode("utf-8"), strict=False)


class StreamReader:
    """Reads one answer. Feed it in any number of parts; `malformed` says what could not be read."""

    def __init__(self, dialect: Dialect) -> None:
        self.reading = Reading()
        self.malformed: str | None = None
        self._dialect = dialect
        self._splitter = EventSplitter()
        self._repeated = Repeated()
        self._body: list[bytes] | None = None  # set when the answer is one JSON body and no stream
        self._begun = False  # the first byte has shown that it is a stream
        self._at = 0

    def take(self, reads: list[tuple[int, bytes]]) -> None:
        reading, repeated = self.reading, self._repeated
        idle = self._splitter.idle  # the next read begins an event
        place, many = 0, len(reads)
        while place < many:
            if idle and repeated.head and (texts := repeated.texts(reads, place)):
                reading.content += texts
                reading.content_at += [at for at, _ in reads[place : place + len(texts)]]
                reading.events += len(texts)
                place += len(texts)
                continue
            at, chunk = reads[place]
            place += 1
            before = marks(reading) if idle and repeated.wanted else None
            if idle and _is_one_event(chunk):
                self._event(at, b"", chunk[6:-2])
            else:
                self._slowly(at, chunk)
                idle = self._splitter.idle
            if before is not None and idle:
                repeated.learn(chunk, before, reading)
        if reads:
            self._at = reads[-1][0]

    def _slowly(self, at: int, chunk: bytes) -> None:
        if self._body is not None:
            self._body.append(chunk)
        elif not self._begun and chunk.lstrip()[:1] in (b"{", b"["):
            self._body = [chunk]
        else:
            self._begun = self._begun or bool(chunk.strip())
            for event in self._splitter.feed(at, chunk):
                self._event(*event)

    def finish(self) -> Reading:
        """Called once, when no more will come."""
        if self._body is not None:
            self._whole(b"".join(self._body))
        elif (last := self._splitter.rest(self._at)) is not None:
            # Behind the last blank line: a server that forgot to write it, or a stream cut inside an event.
            # Only what is complete in itself counts.
            try:
                complete = last.data.strip() == b"[DONE]" or isinstance(decode(last.data), Mapping)
            except ValueError:
                complete = False
            if complete:
                self._event(*last)
        return self.reading

    def _event(self, at: int, name: bytes, data: bytes) -> None:
        reading = self.reading
        reading.events += 1
        if reading.first_event is None:
            reading.first_event = at
        if data == b"[DONE]" or data.strip() == b"[DONE]":
            reading.done = True
            return
        try:
            value = decode(data)
            if name == b"error" or "error" in value:
                reading.error = reading.error or error_in(value) or error_in({"error": value})
            self._dialect.fold(reading, at, name, value)
        except _WRONG_SHAPE as error:
            if reading.error is None:
                self.malformed = self.malformed or _broken(data, error)

    def _whole(self, body: bytes) -> None:
        reading = self.reading
        reading.events, reading.first_event = 1, self._at
        try:
            value = decode(body)
            reading.error = error_in(value)
            if reading.error is None:
                self._dialect.whole(reading, self._at, value)
        except _WRONG_SHAPE as error:
            self.malformed = _broken(body, error)


def _is_one_event(chunk: bytes) -> bool:
    """Whether a read is one whole event of one line of data, which spares the splitter."""
    return (
        chunk.startswith(b"data: ")
        and chunk.find(b"\n") == len(chunk) - 2
        and chunk.endswith(b"\n\n")
        and b"\r" not in chunk
    )


def _broken(data: bytes, error: Exception) -> str:
    shown = data[:80].decode("utf-8", "replace")
    return f"an event is not this dialect's JSON ({type(error).__name__}): {shown!r}"
