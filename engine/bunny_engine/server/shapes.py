"""The JSON that OpenAI's clients read: chat and completion answers, whole or in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bunny_engine.server.generation import Piece
from bunny_engine.server.text import Detokenizer, Vocabulary
from bunny_engine.types import PromptStart, TokenStep

__all__ = ["ChatShape", "CompletionShape", "Shape", "Spelled", "logprob"]

_UNLIKELY = -9999.0  # what OpenAI gives for a probability too small to write; JSON has no -inf

Json = dict[str, Any]
TopTokens = Sequence[tuple[int, float]]
Spelled = tuple[str | None, Sequence[int]]  # a prompt as the client wrote it (None: as ids), and its ids


def logprob(token_id: int, value: float | None, top: TopTokens) -> float:
    """The token's log-probability: where it is among the alternatives, the very same float.

    Harnesses test for greedy answers by `==` with the largest alternative.
    """
    found = next((number for other, number in top if other == token_id), value)
    if found is None or found != found:
        raise ValueError("the engine gave no log-probability where one was asked for")
    return max(found, _UNLIKELY)


class Shape(Protocol):
    """How one API writes its answers. `index` is a choice's index."""

    kind: str  # the object's name, whole
    chunk_kind: str  # and streamed
    prefix: str  # of the answer's id

    def opening(self, index: int, start: PromptStart) -> Json | None:
        """The first chunk's choice, or None where the API has none."""
        ...

    def delta(self, index: int, piece: Piece) -> Json | None:
        """One piece's choice in a chunk, or None where it has nothing to say."""
        ...

    def closing(self, index: int, finish: str) -> Json: ...

    def whole(self, index: int, start: PromptStart, pieces: Sequence[Piece]) -> Json: ...


class ChatShape:
    kind, chunk_kind, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl-"

    def __init__(self, vocabulary: Vocabulary, top_logprobs: int | None) -> None:
        self._vocabulary, self._top = vocabulary, top_logprobs

    def opening(self, index: int, start: PromptStart) -> Json | None:
        return {"index": index, "delta": {"role": "assistant"}, "logprobs": None, "finish_reason": None}

    def delta(self, index: int, piece: Piece) -> Json | None:
        logprobs = self._logprobs([piece])
        if not piece.text and logprobs is None:
            return None
        return {"index": index, "delta": {"content": piece.text}, "logprobs": logprobs, "finish_reason": None}

    def closing(self, index: int, finish: str) -> Json:
        return {"index": index, "delta": {}, "logprobs": None, "finish_reason": finish}

    def whole(self, index: int, start: PromptStart, pieces: Sequence[Piece]) -> Json:
        message = {"role": "assistant", "content": "".join(piece.text for piece in pieces), "refusal": None}
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(pieces),
            "finish_reason": pieces[-1].finish,
        }

    def _logprobs(self, pieces: Sequence[Piece]) -> Json | None:
        if self._top is None:
            return None
        return {"content": [self._entry(piece.step) for piece in pieces if piece.step], "refusal": None}

    def _entry(self, step: TokenStep) -> Json:
        entry = self._token(step.token_id, logprob(step.token_id, step.logprob, step.top))
        entry["top_logprobs"] = [
            self._token(other, logprob(other, value, ())) for other, value in step.top[: self._top]
        ]
        return entry

    def _token(self, token_id: int, value: float) -> Json:
        raw = self._vocabulary.bytes_of(token_id)
        return {"token": self._vocabulary.name_of(token_id), "logprob": value, "bytes": list(raw)}


class CompletionShape:
    kind, chunk_kind, prefix = "text_completion", "text_completion", "cmpl-"

    def __init__(self, vocabulary: Vocabulary, top_logprobs: int | None, echoed: Mapping[int, Spelled]) -> None:
        """`echoed`: for each choice that repeats its prompt, the prompt."""
        self._vocabulary, self._top = vocabulary, top_logprobs
        self._echoes = {index: Echo(vocabulary, text, ids) for index, (text, ids) in echoed.items()}

    def opening(self, index: int, start: PromptStart) -> Json | None:
        echo = self._echoes.get(index)
        if echo is None:
            return None
        return self._choice(index, echo.text, self._lists(echo, start, ()), None)

    def delta(self, index: int, piece: Piece) -> Json | None:
        logprobs = self._lists(None, None, [piece], self._base(index))
        if not piece.text and (logprobs is None or piece.step is None):
            return None
        return self._choice(index, piece.text, logprobs, None)

    def closing(self, index: int, finish: str) -> Json:
        return self._choice(index, "", None, finish)

    def whole(self, index: int, start: PromptStart, pieces: Sequence[Piece]) -> Json:
        echo = self._echoes.get(index)
        text = (echo.text if echo else "") + "".join(piece.text for piece in pieces)
        return self._choice(index, text, self._lists(echo, start, pieces, self._base(index)), pieces[-1].finish)

    def _base(self, index: int) -> int:
        echo = self._echoes.get(index)
        return len(echo.text) if echo else 0

    def _choice(self, index: int, text: str, logprobs: Json | None, finish: str | None) -> Json:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def _lists(
        self, echo: Echo | None, start: PromptStart | None, pieces: Sequence[Piece], base: int = 0
    ) -> Json | None:
        """Four lists of one length; an echoed prompt's first token has no probability, so null."""
        if self._top is None:
            return None
        lists: Json = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        if echo is not None and start is not None:
            for token_id, offset, scored in zip(echo.ids, echo.offsets, start.prompt_logprobs, strict=True):
                self._add(lists, token_id, offset, scored)
        for piece in pieces:
            if piece.step:
                step = piece.step
                self._add(lists, step.token_id, base + piece.offset, (step.logprob, step.top))
        return lists

    def _add(
        self, lists: Json, token_id: int, offset: int, scored: tuple[float | None, TopTokens] | None
    ) -> None:
        lists["tokens"].append(self._vocabulary.name_of(token_id))
        lists["text_offset"].append(offset)
        if scored is None:
            lists["token_logprobs"].append(None)
            lists["top_logprobs"].append(None)
            return
        own = logprob(token_id, scored[0], scored[1])
        table = {
            self._vocabulary.name_of(other): logprob(other, value, ())
            for other, value in scored[1][: self._top]
        }
        # OpenAI gives the token itself beside the alternatives, where it is not one of them
        table.setdefault(self._vocabulary.name_of(token_id), own)
        lists["token_logprobs"].append(own)
        lists["top_logprobs"].append(table)


class Echo:
    """A prompt as text, and where in it each of its tokens begins (in characters)."""

    def __init__(self, vocabulary: Vocabulary, text: str | None, ids: Sequence[int]) -> None:
        self.ids = ids
        written = None if text is None else text.encode()
        spelled = bytearray()
        offsets = []
        characters = Detokenizer()
        for token_id in ids:
            offsets.append(characters.characters)
            raw = vocabulary.bytes_of(token_id)
            marker = (vocabulary.marker(token_id) or "").encode()
            # a BOS that the server put there is not in the text; a marker that the client wrote is
            if marker and (written is None or written.startswith(marker, len(spelled))):
                raw = marker
            spelled += raw
            characters.feed(raw)
        # a tokenizer that normalises spells the prompt its own way: then show that, so that offsets are true
        same = written is not None and bytes(spelled) == written
        self.text = text if same and text is not None else spelled.decode(errors="replace")
        self.offsets = offsets
