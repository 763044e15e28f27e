"""Tokenizers of the phantom. The default one is so simple that every count can be known by hand.

A run of letters is one token, together with one space before it. Every other character is a token of its own:
a digit, a sign, a newline, a second space, a CJK character. A token therefore starts at every character but at
a letter that follows a letter or a space; counts add up wherever a text is cut before a space, and a prompt of
a million tokens is counted in tens of milliseconds, mostly outside the interpreter's lock.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bunny_probe.errors import UsageError

__all__ = ["Chat", "FileTokenizer", "Piece", "Tokenizer", "WordTokenizer", "chat_tokens"]

Chat = Sequence[tuple[str, str]]
"""(role, content) a message."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One token: its text, its number, its raw bytes (which may hold part of a character)."""

    text: str
    id: int
    raw: bytes

    @property
    def shown(self) -> str:
        """How log-probabilities name it: a part of a character as OpenAI writes it, bytes:\\xf0\\x9f."""
        whole = self.text.encode("utf-8", "surrogatepass")
        return self.text if whole == self.raw else "bytes:" + "".join(f"\\x{byte:02x}" for byte in self.raw)


class Tokenizer(Protocol):
    fingerprint: str

    def count(self, text: str) -> int: ...
    def pieces(self, text: str) -> list[Piece]: ...
    def starts(self, text: str) -> NDArray[np.int64]:
        """Character offset at which each token starts."""
        ...


def chat_tokens(tokenizer: Tokenizer, messages: Chat, *, generation_prompt: bool = True) -> int:
    """Prompt tokens of a chat: two marks a message (role, end) and one that opens the answer."""
    return sum(2 + tokenizer.count(content) for _, content in messages) + int(generation_prompt)


class WordTokenizer:
    """The default tokenizer; see the module."""

    fingerprint = "phantom-words-1"

    def __init__(self) -> None:
        _letters()  # the table is made now, not during the first request

    def count(self, text: str) -> int:
        if not text:
            return 0
        return len(text) - int(np.count_nonzero(_continues(text)))

    def starts(self, text: str) -> NDArray[np.int64]:
        if not text:
            return np.zeros(0, dtype=np.int64)
        return np.concatenate(([0], np.flatnonzero(~_continues(text)) + 1)).astype(np.int64)

    def pieces(self, text: str) -> list[Piece]:
        borders = [*self.starts(text).tolist(), len(text)]
        return [_word_piece(text[start:end]) for start, end in pairwise(borders)]


def _word_piece(text: str) -> Piece:
    raw = text.encode("utf-8", "surrogatepass")
    return Piece(text, int.from_bytes(hashlib.blake2b(raw, digest_size=4).digest(), "big") >> 1, raw)


def _continues(text: str) -> NDArray[np.bool_]:
    """For each character but the first: whether it carries on the token before it."""
    letter_of, space = _letters(), ord(" ")
    if text.isascii():
        codes: NDArray[Any] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    else:
        wide = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        codes = np.minimum(wide, 0xFFFF)
    letter = letter_of[codes]
    result: NDArray[np.bool_] = letter[1:] & (letter[:-1] | (codes[:-1] == space))
    return result


@cache
def _letters() -> NDArray[np.bool_]:
    """For each code point of the basic plane: whether it is a letter that joins its neighbours."""
    table = np.zeros(0x10000, dtype=np.bool_)
    for code in range(0x10000):
        category = unicodedata.category(chr(code))
        table[code] = category in ("Lu", "Ll", "Lt", "Lm", "Mn", "Mc") or (
            category == "Lo" and not _stands_alone(code)
        )
    return table


def _stands_alone(code: int) -> bool:
    """CJK ideographs, kana, hangul and bopomofo: written without spaces, so a token each."""
    return 0x2E80 <= code <= 0xA4CF or 0xAC00 <= code <= 0xD7FF or 0xF900 <= code <= 0xFAFF


class FileTokenizer:
    """A `tokenizer.json` read with the `tokenizers` package; no special tokens are added to a text."""

    def __init__(self, path: str | Path) -> None:
        from tokenizers import Tokenizer as Fast

        source = Path(path)
        if not source.is_file():
            raise UsageError(f"no tokenizer file at {source}")
        try:
            self._inner: Any = Fast.from_file(str(source))
        except Exception as error:  # the package raises bare Exception
            raise UsageError(f"{source} is not a tokenizer.json: {error}") from None
        self._inner.no_truncation()
        self._inner.no_padding()
        self.fingerprint = "phantom-file-" + hashlib.sha256(source.read_bytes()).hexdigest()[:12]

    def count(self, text: str) -> int:
        return len(self._inner.encode(text, add_special_tokens=False))

    def starts(self, text: str) -> NDArray[np.int64]:
        offsets = self._inner.encode(text, add_special_tokens=False).offsets
        return np.array([start for start, _ in offsets], dtype=np.int64)

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a text. Of tokens that share a character, the last one carries its text."""
        if not text:
            return []
        encoded = self._inner.encode(text, add_special_tokens=False)
        ends = [start for start, _ in encoded.offsets[1:]] + [len(text)]
        raws = self._raw_bytes(encoded.tokens, text)
        result: list[Piece] = []
        written = 0
        for number, end, raw in zip(encoded.ids, ends, raws, strict=True):
            part = text[written : max(written, end)]
            written = max(written, end)
            result.append(
                Piece(part, int(number), part.encode("utf-8", "surrogatepass") if raw is None else raw)
            )
        return result

    @staticmethod
    def _raw_bytes(tokens: Sequence[str], text: str) -> list[bytes] | list[None]:
        """The bytes of byte-level BPE tokens; None for each where the tokenizer is of another kind."""
        table = _byte_alphabet()
        if all(character in table for token in tokens for character in token):
            raws = [bytes(table[character] for character in token) for token in tokens]
            if b"".join(raws) == text.encode("utf-8", "surrogatepass"):
                return raws
        return [None] * len(tokens)


@cache
def _byte_alphabet() -> dict[str, int]:
    """The characters by which byte-level BPE (Radford et al. 2019) writes bytes: printable ones as they are,
    the others in order from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
