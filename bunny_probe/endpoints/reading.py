"""Stamped reads → events → a `Reading`, by the dialect that was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from bunny_probe.endpoints.dialects import Dialect, Reading
from bunny_probe.endpoints.refusals import error_in
from bunny_probe.endpoints.sse import Event, EventSplitter

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
        self._body: list[bytes] | None = None  # set when the answer is one JSON body and no stream
        self._at = 0

    def take(self, reads: list[tuple[int, bytes]]) -> None:
        for at, chunk in reads:
            self._at = at
            if self._body is not None:
                self._body.append(chunk)
                continue
            if not self.reading.events and chunk.lstrip()[:1] in (b"{", b"["):
                self._body = [chunk]
                continue
            try:
                for event in self._splitter.feed(at, chunk):
                    self._event(event)
            except ValueError as error:
                self.malformed = self.malformed or str(error)

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
                self._event(last)
        return self.reading

    def _event(self, event: Event) -> None:
        reading = self.reading
        reading.events += 1
        if reading.first_event is None:
            reading.first_event = event.at
        if event.data.strip() == b"[DONE]":
            reading.done = True
            return
        try:
            value = decode(event.data)
            if event.name == b"error" or "error" in value:
                reading.error = reading.error or error_in(value) or error_in({"error": value})
            self._dialect.fold(reading, event.at, event.name, value)
        except _WRONG_SHAPE as error:
            if reading.error is None:
                self.malformed = self.malformed or _broken(event.data, error)

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


def _broken(data: bytes, error: Exception) -> str:
    shown = data[:80].decode("utf-8", "replace")
    return f"an event is not this dialect's JSON ({type(error).__name__}): {shown!r}"
