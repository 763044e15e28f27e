"""What a counter is, and when token counts may be added up.

Building a prompt of exact length costs one tokenisation only if counts add: if the tokens of two sentences
with a space between them are those of the one plus those of the other. Byte-level BPE behind a
pre-tokeniser has that property and so has a metaspace tokenizer, but they differ in how a sentence must be
held to be counted as it counts inside a text. `learn_border` finds the way that holds for a tokenizer by
trying each on the haystack's own sentences; where none holds, the counter is not additive and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from bunny_probe.records import Filler, Message
from bunny_probe.text import haystack

__all__ = ["BORDERS", "Counter", "bank_texts", "learn_border"]

Counts = Callable[[Sequence[str]], list[int]]

BORDERS: dict[str, str] = {
    "spaced": " ",  # byte-level BPE: the space belongs to the word behind it
    "bare": "",  # metaspace with a prefix: the tokenizer puts the space before a text itself
    "guarded": ". ",  # others: behind a full stop, whose own count is taken off
}


class Counter(Protocol):
    """Counts tokens as an endpoint does. Safe to use from several threads."""

    @property
    def fingerprint(self) -> str:
        """Names the tokenizer and the chat template: equal fingerprints give equal counts."""

    @property
    def exact(self) -> bool:
        """Whether counts are the server's own, and no estimate."""

    @property
    def additive(self) -> bool:
        """Whether `following` adds up. If not, a finished prompt is measured whole and corrected."""

    @property
    def verify_below(self) -> int:
        """Finished prompts of at most this many tokens are measured whole even where counts add up."""

    @property
    def guard(self) -> int:
        """Tokens encoded for each text of `following` beyond those it returns."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by itself, without markers at its beginning or end."""

    def following(self, texts: Sequence[str]) -> list[int]:
        """Tokens that each text adds to a text that it follows after one space."""

    def chat(self, messages: Sequence[Message]) -> int:
        """Prompt tokens of a chat request, with the chat template and the generation prompt."""


@lru_cache(maxsize=1)
def bank_texts() -> tuple[tuple[str, ...], ...]:
    """For each language: sentences of every domain, closing sentences and things that are planted."""
    planted = ("The code is 48,213-QX.", "7e0c9a54-1d2f-4b83-9c11-f0a6b1d7e2c4 is kept.", "It's 'x'?", "OK.")
    texts = []
    for language in haystack.languages():
        group: list[str] = []
        for domain in haystack.domains(language):
            group += next(haystack.sentences(Filler("haystack", language, domain, 1)))[:24]
        texts.append((*group, *haystack.bank(language, domain).closers, *planted, *group[:4]))
    return tuple(texts)


def learn_border(counts: Counts, limit: int | None = None) -> str | None:
    """The name of the border under which counts add up on the bank; None when there is none.

    `limit` is the number of texts tried in each language, where counting is slow; None: all of them.
    """
    groups = [group[-limit:] if limit else group for group in bank_texts()]
    whole = counts([" ".join(group) for group in groups])
    first = counts([group[0] for group in groups])
    for name, lead in BORDERS.items():
        off = counts([lead.rstrip()])[0] if name == "guarded" else 0
        rest = [sum(counts([lead + text for text in group[1:]])) - off * (len(group) - 1) for group in groups]
        if [a + b for a, b in zip(first, rest, strict=True)] == whole:
            return name
    return None
