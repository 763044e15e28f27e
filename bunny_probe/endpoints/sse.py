"""Server-sent events out of stamped socket reads, by the WHATWG rules, in bytes.

Works on bytes so that a character cut between two reads is whole again before it is decoded. An event's
arrival is the arrival of the read that completed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Event", "EventSplitter"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Event(NamedTuple):
    at: int  # ns: the read that completed it
    name: bytes  # the `event:` field, b"" when absent
    data: bytes


class EventSplitter:
    """Feed it reads in order; it yields whole events. `comments` counts `:` lines (keep-alives)."""

    __slots__ = ("_cr", "_newline", "_pending", "_started", "comments")

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._newline = False  # the last read ended in LF: a LF that follows ends the event
        self._cr = False  # the last read ended in CR: a LF that follows belongs to it
        self._started = False
        self.comments = 0

    def feed(self, at: int, chunk: bytes) -> Iterator[Event]:
        if self._cr or b"\r" in chunk:
            chunk = self._line_feeds(chunk)
        if b"\n\n" not in chunk and not (self._newline and chunk.startswith(b"\n")):
            # Only gathered: an event of a million reads is joined once, not a million times.
            self._pending.append(chunk)
            self._newline = chunk.endswith(b"\n") if chunk else self._newline
            return
        if self._pending:
            chunk = b"".join((*self._pending, chunk))
        *blocks, rest = chunk.split(b"\n\n")
        self._pending = [rest] if rest else []
        self._newline = rest.endswith(b"\n")
        if not self._started:
            self._started = True
            blocks[0] = blocks[0].removeprefix(_BYTE_ORDER_MARK)
        for block in blocks:
            # The shape that nearly every event has, told apart cheaply.
            if block.startswith(b"data: ") and b"\n" not in block:
                yield Event(at, b"", block[6:])
            elif (event := self._event(at, block)) is not None:
                yield event

    @property
    def idle(self) -> bool:
        """Whether nothing is held back: the next read begins an event."""
        # Not before the first event is out: it is told apart from a JSON body, and sets `first_event`.
        return self._started and not self._pending and not self._cr

    def rest(self, at: int) -> Event | None:
        """What stood behind the last blank line when the stream ended; the rules say to distrust it."""
        block, self._pending = b"".join(self._pending), []
        if not self._started:
            block = block.removeprefix(_BYTE_ORDER_MARK)
        return self._event(at, block)

    def _line_feeds(self, chunk: bytes) -> bytes:
        """CRLF and CR as LF, also where a CRLF lies across two reads."""
        if self._cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._cr = False
        if chunk.endswith(b"\r"):
            self._cr = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _event(self, at: int, block: bytes) -> Event | None:
        name = b""
        data: list[bytes] = []
        for line in block.split(b"\n"):
            key, _, value = line.partition(b":")
            if not key:
                self.comments += bool(line)
            elif key == b"data":
                data.append(value.removeprefix(b" "))
            elif key == b"event":
                name = value.removeprefix(b" ")
        return Event(at, name, b"\n".join(data)) if data else None
