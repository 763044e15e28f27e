"""From token bytes to text that may be shown: never half a character, never the start of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from bunny_engine.types import Tokenizer

__all__ = ["Detokenizer", "StopMatcher", "Vocabulary"]


class Vocabulary:
    """Each token id's raw bytes, and the name it goes by in log-probability entries."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self.size = size
        self._tokenizer = tokenizer
        self._markers = {token_id: marker for marker, token_id in tokenizer.special_tokens.items()}
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, str] = {}
        self._longest = 0

    def marker(self, token_id: int) -> str | None:
        """How a control token is written, or None for a token of text."""
        return self._markers.get(token_id)

    def bytes_of(self, token_id: int) -> bytes:
        """b"" for control tokens and for the ids that only pad a model's embedding."""
        found = self._bytes.get(token_id)
        if found is None:
            try:
                found = b"" if token_id in self._markers else self._tokenizer.token_bytes(token_id)
            except (LookupError, ValueError):
                found = b""
            self._bytes[token_id] = found
        return found

    def name_of(self, token_id: int) -> str:
        """The token's text; a control token's marker; `bytes:\\xe4\\xbd` where it holds part of a character.

        Distinct for distinct bytes, so that alternatives keyed by name cannot hide one another.
        """
        found = self._names.get(token_id)
        if found is None:
            raw = self.bytes_of(token_id)
            found = self._markers.get(token_id) or (f"<token {token_id}>" if not raw else None)
            if found is None:
                try:
                    found = raw.decode()
                except UnicodeDecodeError:
                    found = "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
            self._names[token_id] = found
        return found

    def longest(self) -> int:
        """Bytes of the longest token: no text of n bytes has fewer than n / longest tokens."""
        if not self._longest:
            markers = (len(marker.encode()) for marker in self._tokenizer.special_tokens)
            tokens = (len(self.bytes_of(token_id)) for token_id in range(self.size))
            self._longest = max(1, *markers, *tokens)
        return self._longest


class Detokenizer:
    """Bytes in, whole characters out. Bytes that can never be UTF-8 become U+FFFD; an unfinished tail waits."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.characters = 0  # given out so far: where the next token begins

    def feed(self, raw: bytes) -> str:
        text = self._decoder.decode(raw)
        self.characters += len(text)
        return text


class StopMatcher:
    """Finds the stop string that completes first, whatever the pieces the text comes in.

    Of two that complete at the same character the longer wins, so that less of it is shown.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.hit: str | None = None

    def feed(self, piece: str) -> str:
        """The text that may now be shown. After a hit: what came before the stop string, then nothing."""
        if not self._stops or self.hit is not None:
            return "" if self.hit is not None else piece
        text = self._held + piece
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            _, start, self.hit = min(found)
            self._held = ""
            return text[:start]
        keep = self._unfinished(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What was held back for a stop string that never came."""
        held, self._held = self._held, ""
        return held

    def _unfinished(self, text: str) -> int:
        """Length of the longest suffix of `text` that begins some stop string."""
        longest = max(len(stop) for stop in self._stops) - 1
        for size in range(min(longest, len(text)), 0, -1):
            tail = text[-size:]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0
