"""Turns events into bytes, and bytes into writes, with the framing faults that were asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from bunny_probe.phantom.faults import Fault
from bunny_probe.phantom.steps import Step

__all__ = ["Framing"]


@dataclass(slots=True)
class Framing:
    eol: str = "\n"
    space: str = " "
    comments: bool = False
    bom: bool = False
    ids: bool = False
    many_lines: bool = False
    coalesce: int = 1
    split: int = 0  # bytes a write; 0: an event is one write
    byte_split: bool = False
    gzip: bool = False
    content_type: str = "text/event-stream; charset=utf-8"
    _packer: Any = None
    _events: int = 0

    @classmethod
    def under(cls, faults: Sequence[Fault]) -> Framing:
        framing = cls()
        for fault in faults:
            match fault.name:
                case "crlf":
                    framing.eol = "\r\n"
                case "cr":
                    framing.eol = "\r"
                case "comments":
                    framing.comments = True
                case "no-space":
                    framing.space = ""
                case "bom":
                    framing.bom = True
                case "ids":
                    framing.ids = True
                case "many-lines":
                    framing.many_lines = True
                case "coalesce":
                    framing.coalesce = max(1, int(fault.number))
                case "split":
                    framing.split = max(1, int(fault.number))
                case "byte-split":
                    framing.byte_split = True
                case "gzip":
                    framing.gzip = True
                case "unlabelled":
                    framing.content_type = "text/plain"
        return framing

    def event(self, step: Step) -> bytes:
        """The bytes of one event, with the empty line that ends it."""
        lines: list[str] = []
        if self.bom and not self._events:
            lines.append("")
        if self.comments:
            lines += [": ping", ""]
        if step.event is not None:
            lines.append(f"event:{self.space}{step.event}")
        if self.ids:
            lines += [f"id:{self.space}{self._events}", f"retry:{self.space}3000"]
        lines += [f"data:{self.space}{line}" for line in self._data(step)]
        text = self.eol.join([*lines, "", ""])
        if self.bom and not self._events:
            text = "\ufeff" + text.removeprefix(self.eol)
        self._events += 1
        return text.encode("utf-8", "surrogatepass")

    def comment(self) -> bytes:
        return f": ping{self.eol}{self.eol}".encode()

    def _data(self, step: Step) -> list[str]:
        if step.payload is None:
            return [step.raw or ""]
        options = orjson.OPT_INDENT_2 if self.many_lines else 0
        return orjson.dumps(step.payload, option=options).decode("utf-8").split("\n")

    def pack(self, data: bytes) -> bytes:
        """Compressed when asked, flushed so that each event can be read as it comes."""
        if not self.gzip:
            return data
        if self._packer is None:
            self._packer = zlib.compressobj(wbits=31)
        return bytes(self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH))

    def close(self) -> bytes:
        """The last bytes of a compressed body."""
        if not self.gzip:
            return b""
        packer = self._packer or zlib.compressobj(wbits=31)
        return bytes(packer.flush(zlib.Z_FINISH))

    def writes(self, data: bytes) -> Iterator[bytes]:
        """The writes that an event's bytes go out in."""
        if self.byte_split:
            start = 0
            for position, byte in enumerate(data):
                if 0x80 <= byte < 0xC0:  # inside a character
                    yield data[start:position]
                    start = position
            yield data[start:]
        elif self.split:
            for start in range(0, len(data), self.split):
                yield data[start : start + self.split]
        else:
            yield data

    @property
    def in_pieces(self) -> bool:
        return self.byte_split or self.split > 0
