"""Events that differ from one already read in their text alone: what nearly every event of a stream is.

A server writes the same bytes around each piece of text. Where those bytes are known, and the text between
them is one plain JSON string, nothing is left to parse: the event means what the earlier one meant, with other
text. Anything else (a quote, an escape, a control character, another byte around it) is read in full.
"""

from __future__ import annotations

from dataclasses import fields

from bunny_probe.endpoints.dialects import Reading

__all__ = ["Repeated", "marks"]

Marks = tuple[tuple[int, int], *tuple[object, ...]]

_TRIES = 4  # a server that writes something new around each piece is not asked again and again


class Repeated:
    """What stands around the text of an answer's plain events, once it is known."""

    __slots__ = ("_tries", "head", "skip", "tail")

    def __init__(self) -> None:
        self.head = self.tail = b""  # empty: not known
        self.skip = 0
        self._tries = _TRIES

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

    def text(self, chunk: bytes) -> str | None:
        """The text of an event that repeats what is known, or None: it is to be read in full."""
        if not chunk.startswith(self.head) or not chunk.endswith(self.tail):
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
