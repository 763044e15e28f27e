"""The one path from what a client sent to token ids: /tokenize and the generating routes share it.

So a count by /tokenize equals `usage.prompt_tokens` to the token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from bunny_engine.server.chat import ChatTemplate, Segment
from bunny_engine.server.errors import bad_request, context_exceeded
from bunny_engine.server.messages import Prompt
from bunny_engine.server.text import Vocabulary
from bunny_engine.types import Tokenizer

__all__ = ["PromptEncoder"]

Rows = TypeVar("Rows", list[int], list[list[int]])

_INLINE = 4096  # characters that are encoded on the event loop; more goes to a thread


class PromptEncoder:
    """Raises ApiError (400) for a text that cannot fit `context` tokens, however it would be encoded."""

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: Vocabulary, context: int, now: Callable[[], datetime]
    ) -> None:
        self._tokenizer, self._vocabulary, self._context = tokenizer, vocabulary, context
        self._markers = tuple(tokenizer.special_tokens)
        self.template = ChatTemplate(
            tokenizer.chat_template, self._markers, tokenizer.template_variables(), now
        )

    async def chat(
        self, messages: Sequence[Mapping[str, str]], *, bounded: bool = True, **options: Any
    ) -> list[int]:
        """Ids of the rendered conversation. A marker written in a message stays text."""
        if bounded:
            if len(messages) > self._context:  # each is a token at least, and a million take long to render
                raise context_exceeded(self._context, len(messages), None, "messages", at_least=True)
            self._refuse_hopeless([message["content"] for message in messages], "messages")
        size = sum(len(message["content"]) for message in messages)
        return await _off_loop(size, lambda: self._chat(messages, options))

    async def prompts(
        self, prompts: Sequence[Prompt], *, prefix: bool = True, markers: bool = True, bounded: bool = True
    ) -> list[list[int]]:
        """Ids of plain prompts; those given as ids are checked and left as they are.

        `prefix`: begin with BOS where the model wants it, once. `markers`: read control markers in the text as
        control tokens, as servers do for a raw prompt. `bounded`: refuse what cannot fit the context.
        """
        given = dict(enumerate(prompts))
        texts = {index: prompt for index, prompt in given.items() if isinstance(prompt, str)}
        rows = {index: prompt for index, prompt in given.items() if not isinstance(prompt, str)}
        for index, ids in rows.items():
            self.check_ids(ids, "prompt" if len(given) == 1 else f"prompt[{index}]")
        if bounded:
            for text in texts.values():
                self._refuse_hopeless([text], "prompt")
        size = sum(map(len, texts.values()))
        encoded = await _off_loop(size, lambda: self._texts(list(texts.values()), prefix, markers))
        rows.update(zip(texts, encoded, strict=True))
        if bounded and (empty := next((index for index in given if not rows[index]), None)) is not None:
            raise bad_request(
                "The prompt is empty: this model needs at least one token.",
                f"prompt[{empty}]" if len(given) > 1 else "prompt",
            )
        return [rows[index] for index in given]

    def check_ids(self, ids: Sequence[int], param: str) -> None:
        """Raises ApiError (400) for an id outside the vocabulary."""
        size = self._vocabulary.size
        if ids and not (min(ids) >= 0 and max(ids) < size):
            wrong = next(token for token in ids if not 0 <= token < size)
            raise bad_request(f"{param}: token id {wrong} is not in the vocabulary (0 to {size - 1}).", param)

    def _chat(self, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]) -> list[int]:
        ids: list[int] = []
        for segment in self.template.render(messages, **options):
            ids += self._encode(segment)
        if not ids:
            raise bad_request("The chat template gave an empty prompt for these messages.", "messages")
        return ids

    def _encode(self, segment: Segment) -> list[int]:
        return self._tokenizer.encode(segment.text, special=segment.control)

    def _texts(self, texts: Sequence[str], prefix: bool, markers: bool) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in texts]
        marked = [index for index, text in enumerate(texts) if self.template.has_marker(text)]
        for index in marked:
            rows[index] = self._tokenizer.encode(texts[index], special=markers)
        # without a marker both readings agree, and a batch is twice as fast
        plain = sorted(set(range(len(texts))) - set(marked))
        for index, ids in zip(plain, self._tokenizer.encode_batch([texts[i] for i in plain]), strict=True):
            rows[index] = list(ids)
        start = list(self._tokenizer.prefix_ids)
        if prefix and start:
            rows = [ids if ids[: len(start)] == start else start + ids for ids in rows]
        return rows

    def _refuse_hopeless(self, texts: Sequence[str], param: str) -> None:
        """A hostile body of many megabytes is refused without the minute that encoding it would take."""
        size = sum(map(len, texts))  # characters: no more than bytes
        if size > self._context and size // self._vocabulary.longest() > self._context:
            raise context_exceeded(
                self._context, size // self._vocabulary.longest(), None, param, at_least=True
            )


async def _off_loop(size: int, work: Callable[[], Rows]) -> Rows:
    """Encoding a long text holds no lock that the event loop needs: keep streams flowing meanwhile."""
    return work() if size < _INLINE else await asyncio.to_thread(work)
