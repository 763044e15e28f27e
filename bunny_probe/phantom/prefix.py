"""A prefix cache, as servers keep one: whole blocks of tokens, each known by all that stands before it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from itertools import pairwise
from threading import Lock

from bunny_probe.phantom.tokens import Tokenizer

__all__ = ["PrefixCache", "block_hashes"]


def block_hashes(tokenizer: Tokenizer, text: str, block: int) -> list[bytes]:
    """A hash for each whole block of tokens; equal only where everything up to its end is equal."""
    starts = tokenizer.starts(text)
    borders = [*starts[::block].tolist()]
    # Where the last block is not full its border only ends the one before.
    whole = borders if len(starts) % block else [*borders, len(text)]
    running = hashlib.blake2b(digest_size=16)
    hashes: list[bytes] = []
    for start, end in pairwise(whole):
        running.update(text[start:end].encode("utf-8", "surrogatepass"))
        hashes.append(running.copy().digest())
    return hashes


class PrefixCache:
    """Least recently used blocks go first. Safe to share between threads."""

    def __init__(self, capacity_tokens: int, block: int) -> None:
        self.block = block
        self._most = capacity_tokens // block
        self._held: OrderedDict[bytes, None] = OrderedDict()
        self._lock = Lock()

    def use(self, hashes: list[bytes]) -> int:
        """Cached tokens of a prompt with these blocks, which are held from now on."""
        with self._lock:
            hit = 0
            while hit < len(hashes) and hashes[hit] in self._held:
                hit += 1
            for item in reversed(hashes[: self._most]):  # a prefix must outlive what stands on it
                self._held[item] = None
                self._held.move_to_end(item)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
            return hit * self.block

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
