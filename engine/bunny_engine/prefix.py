"""Spans of context that several requests share: computed once, kept while there is room.

A span is one full chunk of a prompt on the fixed grid of chunks, so a request that adopts it and one that
computes it go on with the same bits. Keys chain: a span is found only after all the spans before it, and its
token ids are compared, so that nothing of another request's content can come back.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from bunny_engine.memory import Span

__all__ = ["PrefixCache"]


@dataclass(frozen=True, slots=True)
class _Entry:
    parent: bytes
    ids: array[int]
    span: Span
    nbytes: int


class PrefixCache:
    """At most `limit` bytes of spans of `chunk` tokens; the least recently used one goes first."""

    def __init__(self, chunk: int, limit: int) -> None:
        self.chunk, self.limit = chunk, limit
        self.nbytes = 0
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def match(self, ids: Sequence[int]) -> list[Span]:
        """The spans that `ids` begins with; at least one token is left to compute, for its logits."""
        found = []
        for parent, key, part in self._chain(ids, (len(ids) - 1) // self.chunk):
            entry = self._entries.get(key)
            if entry is None or entry.ids != part or entry.parent != parent:
                break
            self._entries.move_to_end(key)
            found.append(entry.span)
        return found

    def wants(self, ids: Sequence[int]) -> bool:
        """Whether the last chunk of `ids`, all full chunks, is worth exporting."""
        return self.limit > 0 and self._last(ids)[1] not in self._entries

    def add(self, ids: Sequence[int], span: Span) -> None:
        """Keep the span of the last chunk of `ids`, which are all full chunks."""
        parent, key, part = self._last(ids)
        nbytes = sum(tensor.nbytes for tensor in span)
        if nbytes > self.limit or key in self._entries:
            return
        while self.nbytes + nbytes > self.limit:
            self.nbytes -= self._entries.popitem(last=False)[1].nbytes
        self._entries[key] = _Entry(parent, part, span, nbytes)
        self.nbytes += nbytes

    def _last(self, ids: Sequence[int]) -> tuple[bytes, bytes, array[int]]:
        return self._chain(ids, len(ids) // self.chunk)[-1]

    def _chain(self, ids: Sequence[int], chunks: int) -> list[tuple[bytes, bytes, array[int]]]:
        """(parent's key, key, ids) of the first `chunks` chunks."""
        links, parent = [], b""
        for start in range(0, chunks * self.chunk, self.chunk):
            part = array("q", ids[start : start + self.chunk])
            key = hashlib.blake2b(parent + part.tobytes(), digest_size=16).digest()
            links.append((parent, key, part))
            parent = key
        return links
