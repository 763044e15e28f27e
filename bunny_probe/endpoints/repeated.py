"""Events that differ from one already read in their text alone: what nearly every event of a stream is.

A server writes the same bytes around each piece of text. Where those bytes are known, and the text between
them is one plain JSON string, nothing is left to parse: the event means what the earlier one meant, with other
text. Anything else (a quote, an escape, a control character, another byte around it) is read in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import methodcaller

from bunny_probe.endpoints.dialects import Reading

__all__ = ["Repeated", "marks"]

Reads = Sequence[tuple[int, bytes]]
Marks = tuple[tuple[int, int], *tuple[object, ...]]

_WORTH_JOINING = 4  # reads
_TRIES = 4  # a server that writes something new around each piece is not asked again and again


class Repeated:
    """What stands around the text of an answer's plain events, once it is known."""

    __slots__ = ("_together", "_tries", "head", "skip", "tail")

    def __init__(self) -> None:
        self.head = self.tail = b""  # empty: not known
        self.skip = 0
        self._tries = _TRIES
        self._together = True  # nothing has come yet for which many could not be read at once

    @property
    def wanted(self) -> bool:
        return self._tries > 0 and not self.head

    def learn(self, chunk: bytes, before: Marks, reading: Reading) -> None:
        """Learn from `chunk`, which `reading` has taken and held `before`, if it was one plain event."""
        now = marks(reading)
        if now[1:] != before[1:] or now[0] != (before[0][0] + 1, before[0][1] + 1):
            return  # no event, several, or one that brought something else too
        self._tries -= 1
        text = reading.content[-1]
        if b"\\" in chunk or not _plain(text):
            return
        around = chunk.split(b'"' + text.encode() + b'"')
        if len(around) == 2:  # else it is not said which of them is the text
            self.head, self.tail = around[0] + b'"', b'"' + around[1]
            self.skip = -len(self.tail)

    def texts(self, reads: Reads, place: int) -> list[str]:
        """The texts of the reads from `place` on that repeat what is known, up to the first that does not."""
        if self._together:
            stop = len(reads)
            while stop > place and not self._repeats(reads[stop - 1][1]):
                stop -= 1  # what ends a stream
            if stop - place >= _WORTH_JOINING:
                if found := self._at_once([chunk for _, chunk in reads[place:stop]]):
                    return found
                self._together = False
        text = self._text(reads[place][1])
        return [] if text is None else [text]

    def _at_once(self, chunks: list[bytes]) -> list[str]:
        """The texts of all `chunks`, or nothing where one of them is not as the others."""
        whole = all(map(methodcaller("startswith", self.head), chunks))
        if not whole or not all(map(methodcaller("endswith", self.tail), chunks)):
            return []
        start, stop = len(self.head), self.skip
        pieces = [chunk[start:stop] for chunk in chunks]
        try:
            joined = b"\n".join(pieces).decode()
        except UnicodeDecodeError:
            return []
        texts = joined.split("\n")
        if len(texts) != len(pieces) or "" in texts or not _plain("".join(texts)):
            return []
        return texts

    def _repeats(self, chunk: bytes) -> bool:
        return chunk.startswith(self.head) and chunk.endswith(self.tail)

    def _text(self, chunk: bytes) -> str | None:
        """The text of an event that repeats what is known, or None: it is to be read in full."""
        if not self._repeats(chunk):
            return None
        try:
            text = chunk[len(self.head) : self.skip].decode()
        except UnicodeDecodeError:
            return None
        return text if _plain(text) else None


def _plain(text: str) -> bool:
    """Whether `text` stands in JSON as it is, and is not empty."""
    return text.isprintable() and '"' not in text and "\\" not in text and text != ""


def marks(reading: Reading) -> Marks:
    """What a reading holds: (events, pieces of content), and all else, lists by their lengths."""
    values = [getattr(reading, name) for name in _OTHERS]
    rest = tuple([len(value) if isinstance(value, list) else value for value in values])
    return (reading.events, len(reading.content)), *rest


_OTHERS = [item.name for item in fields(Reading) if item.name not in ("content", "content_at", "events")]
