"""Text to token ids and back, from what the model's own files say.

Control tokens such as <|im_start|> exist only where the caller asks for them: the same letters in a user's text
are encoded as letters, so that no message can open another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from bunny_engine.conversions import conversion_dir, written
from bunny_engine.errors import DamagedWeights
from bunny_engine.fetch import Source

__all__ = ["TextTokenizer", "TokenizerFacts", "load_tokenizer"]

_FILE, _FACTS = "tokenizer.json", "tokenizer-facts.json"


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What a tokenizer.json does not say, or only in a roundabout way."""

    eos_ids: list[int]
    control: dict[str, int]  # markers
    byte_level: bool  # tokens are spelled in byte-level BPE's letters; else in SentencePiece's
    bos_id: int | None = None  # put before a raw prompt, when the model wants one
    chat_template: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)  # bos_token, eos_token, …


class TextTokenizer:
    """Implements `types.Tokenizer`. `path` is the tokenizer.json that it was read from.

    A byte that the vocabulary has no token for (SmolLM2 lacks a few control characters) gives no token.
    """

    def __init__(self, path: Path, facts: TokenizerFacts) -> None:
        self.path = path
        self.eos_ids = frozenset(facts.eos_ids)
        self.chat_template = facts.chat_template
        self._facts = facts
        self._backend = _backend(path)
        self._backend.encode_special_tokens = True  # a marker in a text is text
        self.vocab_size: int = self._backend.get_vocab_size(with_added_tokens=True)
        self._added = {
            index: token.content for index, token in self._backend.get_added_tokens_decoder().items()
        }
        markers = sorted(facts.control, key=len, reverse=True)
        self._markers = re.compile("|".join(f"({re.escape(marker)})" for marker in markers) or "(?!)")

    @property
    def special_tokens(self) -> Mapping[str, int]:
        return self._facts.control

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        return () if self._facts.bos_id is None else (self._facts.bos_id,)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        if not special:
            return self.encode_batch([text])[0]
        pieces, control, at = [], [], 0
        for found in self._markers.finditer(text):
            pieces.append(text[at : found.start()])
            control.append(self._facts.control[found.group()])
            at = found.end()
        encoded = self.encode_batch([*pieces, text[at:]])
        ids = encoded[0]
        for marker, following in zip(control, encoded[1:], strict=True):
            ids += [marker, *following]
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def token_bytes(self, token_id: int) -> bytes:
        if (content := self._added.get(token_id)) is not None:
            return b"" if content in self._facts.control else self._spelled(content)
        token = self._backend.id_to_token(token_id)
        if token is None:
            return b""
        if self._facts.byte_level:
            return b"".join(_LETTER_BYTES.get(letter) or letter.encode() for letter in token)
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return bytes.fromhex(token[3:5])
        return self._spelled(token)

    def _spelled(self, token: str) -> bytes:
        return (token if self._facts.byte_level else token.replace("\u2581", " ")).encode()

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def template_variables(self) -> dict[str, Any]:
        return dict(self._facts.variables)


def load_tokenizer(source: Source) -> TextTokenizer:
    """The tokenizer of a model; built once and cached. Raises DamagedWeights, UnsupportedModel."""
    folder = conversion_dir(source)
    path, facts_path = folder / _FILE, folder / _FACTS
    if not (path.is_file() and facts_path.is_file()):
        if source.kind == "gguf":
            from bunny_engine.tokenizer_gguf import from_gguf

            text, facts = from_gguf(source.path)
        else:
            from bunny_engine.tokenizer_hf import from_folder

            text, facts = from_folder(source.path)
        with written(path) as part:
            part.write_text(text, "utf-8")
        with written(facts_path) as part:
            part.write_text(json.dumps({name: getattr(facts, name) for name in facts.__slots__}), "utf-8")
    try:
        facts = TokenizerFacts(**json.loads(facts_path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DamagedWeights(f"{facts_path} is damaged ({error}); delete it and it is made anew") from None
    return TextTokenizer(path, facts)


def _backend(path: Path) -> Backend:
    try:
        backend = Backend.from_file(str(path))
    except Exception as error:  # the binding raises bare Exception
        raise DamagedWeights(f"{path}: not a tokenizer file ({error})") from None
    backend.no_truncation()
    backend.no_padding()
    return backend


def byte_letters() -> list[str]:
    """The letter that byte-level BPE (GPT-2) writes for each byte: printable ones stand for themselves."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(0x100)]


_LETTER_BYTES = {letter: bytes([byte]) for byte, letter in enumerate(byte_letters())}
