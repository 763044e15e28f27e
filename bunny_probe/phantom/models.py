"""One served model: its behaviour, its tokenizer, its prefix cache and its slots."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bunny_probe.errors import UsageError
from bunny_probe.phantom.ask import Ask
from bunny_probe.phantom.behaviour import Behaviour
from bunny_probe.phantom.draws import digest
from bunny_probe.phantom.finder import find_truth
from bunny_probe.phantom.prefix import PrefixCache, block_hashes
from bunny_probe.phantom.reply import Prompt
from bunny_probe.phantom.tokens import Chat, FileTokenizer, Tokenizer, WordTokenizer, chat_tokens
from bunny_probe.phantom.truth import Key, Truth, prompt_hash

__all__ = ["Model", "serve_models"]


class Model:
    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.tokenizer: Tokenizer = (
            WordTokenizer() if behaviour.tokenizer == "words" else FileTokenizer(behaviour.tokenizer)
        )
        capacity = behaviour.prefix_cache_tokens
        self.cache = PrefixCache(capacity, behaviour.prefix_block) if capacity else None
        self.active = 0  # requests being answered
        self._allowance, self._refilled = float(behaviour.burst), time.monotonic()
        self.slots = asyncio.Semaphore(behaviour.slots) if behaviour.slots else None
        self.fingerprint = "phantom-" + digest(sorted(behaviour.settings().items())).hex()[:12]

    def admit(self) -> float:
        """0 when a request is within the rate limit, else the seconds until one would be."""
        rate = self.behaviour.requests_per_second
        if rate is None:
            return 0.0
        now = time.monotonic()
        self._allowance = min(float(self.behaviour.burst), self._allowance + (now - self._refilled) * rate)
        self._refilled = now
        if self._allowance >= 1:
            self._allowance -= 1
            return 0.0
        return (1 - self._allowance) / rate

    def count(self, ask: Ask) -> int:
        if ask.prompt is not None:
            return self.tokenizer.count(ask.prompt)
        return chat_tokens(self.tokenizer, ask.messages)

    def inspect(
        self, ask: Ask, key: Key, patterns: Sequence[re.Pattern[str]], truncate_at: int | None
    ) -> Prompt:
        """Counts the prompt, finds what is true of it, and asks the prefix cache. Long, so run off the loop."""
        digest_ = prompt_hash(ask.messages)
        sent = self.count(ask)
        counted = sent if truncate_at is None else min(sent, truncate_at)
        truth = key.find(ask.messages, digest_) or find_truth(ask.messages, patterns)
        truth = _located(truth, ask.messages)
        return Prompt(
            hash=digest_,
            tokens=counted,
            sent_tokens=sent,
            cached=self._cached(ask, counted),
            truth=truth,
            lost=_lost(truth, counted / sent if sent else 1.0, self.behaviour.truncate_keep),
        )

    def _cached(self, ask: Ask, prompt_tokens: int) -> int:
        if self.cache is None:
            return 0
        text = ask.prompt
        if text is None:
            text = "".join(f"\x02{role}\x03{content}\x04" for role, content in ask.messages)
        hit = self.cache.use(block_hashes(self.tokenizer, text, self.cache.block))
        return max(0, min(hit, prompt_tokens - 1))  # a server computes at least the last token


def serve_models(behaviours: Iterable[Behaviour]) -> dict[str, Model]:
    """Models by every name they answer to. Raises UsageError for a name given twice."""
    models: dict[str, Model] = {}
    for behaviour in behaviours:
        if behaviour.model in models:
            raise UsageError(f"two models are named {behaviour.model!r}")
        model = Model(behaviour)
        models[behaviour.model] = model
        models.setdefault(behaviour.name, model)
    if not models:
        raise UsageError("a phantom needs at least one model")
    return models


def _located(truth: Truth, messages: Chat) -> Truth:
    """The truth with a depth, found by looking where the answer stands, when the key gives none."""
    if truth.depth is not None or not truth.answers or not truth.answers[0]:
        return truth
    text = "\n".join(content for _, content in messages)
    at = text.find(truth.answers[0])
    return truth if at < 0 else replace(truth, depth=at / max(1, len(text)))


def _lost(truth: Truth, kept: float, keep: str) -> bool:
    if kept >= 1 or truth.depth is None:
        return False
    return truth.depth < 1 - kept if keep == "tail" else truth.depth > kept
