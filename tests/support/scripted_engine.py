"""A real byte-level BPE tokenizer, and an engine that says what it is told beside a true distribution."""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tokenizers
from bunny_engine.types import EngineBusy, ModelInfo, PromptStart, SamplingParams, TokenStep

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKERS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CORPUS = (
    "The capital of France is Paris. A quick brown fox jumps over the lazy dog, and the dog does not mind.",
    "Keys and codes: 7461, 9983 and 1205 are in the vault. user assistant system",
    "长城是中国古代的伟大工程。今天天气很好，我们去公园散步。",
    "naïve café — “quotes” … \n\n\n  indented\n\ttabbed",
)


class BpeTokenizer:
    """The `Tokenizer` of `bunny_engine.types` over a `tokenizers.Tokenizer`."""

    def __init__(self, chat_template: str | None = CHATML, prefix: tuple[str, ...] = ()) -> None:
        source = _trained()
        self._control = tokenizers.Tokenizer.from_str(source)
        self._literal = tokenizers.Tokenizer.from_str(source)
        self._literal.encode_special_tokens = True
        self.special_tokens: Mapping[str, int] = {m: self._control.token_to_id(m) for m in MARKERS}
        self.eos_ids = frozenset({self.special_tokens["<|im_end|>"], self.special_tokens["<|endoftext|>"]})
        self.chat_template = chat_template
        self.prefix_ids = tuple(self.special_tokens[marker] for marker in prefix)
        self.size = self._control.get_vocab_size()

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        return list((self._control if special else self._literal).encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(e.ids) for e in self._literal.encode_batch(list(texts), add_special_tokens=False)]

    def token_bytes(self, token_id: int) -> bytes:
        if token_id in self.special_tokens.values():
            return b""
        token = self._control.id_to_token(token_id)
        if token is None:
            raise KeyError(token_id)
        return bytes(_bytes_of_characters()[character] for character in token)

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")

    def template_variables(self) -> dict[str, Any]:
        return {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}


@lru_cache(maxsize=1)
def _trained() -> str:
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(MARKERS),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS * 3, trainer)
    return str(made.to_str())


@lru_cache(maxsize=1)
def _bytes_of_characters() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes, turned around."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(shifted)}


class ScriptedEngine:
    """Gives `script(prompt, params)`'s ids, one step each, and notes what it was asked.

    The log-probabilities are those of a distribution that depends on everything before the token, the same for
    a token of the prompt and a token of the answer.
    """

    def __init__(
        self,
        tokenizer: BpeTokenizer,
        script: Callable[[Sequence[int], SamplingParams], Iterable[int]] | Sequence[int] = (),
        *,
        context: int = 256,
        pause: float = 0.0,
        busy: float | None = None,
        fault_at: int | None = None,
        padding: int = 8,
    ) -> None:
        self.info = ModelInfo("tiny", context, tokenizer.size + padding, "cpu", "fp32", 1_700_000_000)
        self.script = script if callable(script) else (lambda prompt, params: script)
        self.eos_ids = tokenizer.eos_ids
        self.pause, self.busy, self.fault_at = pause, busy, fault_at
        self.asked: list[tuple[tuple[int, ...], SamplingParams]] = []
        self.open = 0
        self.given = 0

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams
    ) -> AsyncIterator[PromptStart | TokenStep]:
        if self.busy is not None:
            raise EngineBusy(self.busy)
        prompt = tuple(prompt_ids)
        assert prompt, "an engine is never given an empty prompt"
        assert len(prompt) + params.max_tokens <= self.info.context_length
        self.asked.append((prompt, params))
        self.open += 1
        try:
            await asyncio.sleep(self.pause)
            scored = ()
            if params.prompt_logprobs:
                scored = (None, *(self.scored(prompt[:i], prompt[i], params) for i in range(1, len(prompt))))
            yield PromptStart(len(prompt), len(prompt) // 2, scored, queued_s=0.25, prefill_s=0.5)
            if params.max_tokens == 0:
                return
            text = prompt
            for position, token_id in enumerate(self.script(prompt, params)):
                if self.fault_at == position:
                    raise RuntimeError("a fault whose message holds the prompt: SECRET")
                await asyncio.sleep(self.pause)
                value, top = (None, ()) if params.top_logprobs is None else self.scored(text, token_id, params)
                text = (*text, token_id)
                finish = None
                if token_id in self.eos_ids and not params.ignore_eos:
                    finish = "stop"
                elif position + 1 == params.max_tokens:
                    finish = "length"
                self.given += 1
                yield TokenStep(token_id, value, top, finish)
                if finish:
                    return
        finally:
            self.open -= 1

    def scored(
        self, before: Sequence[int], token_id: int, params: SamplingParams
    ) -> tuple[float, tuple[tuple[int, float], ...]]:
        values = self.distribution(before)
        best = np.argsort(-values, kind="stable")[: params.top_logprobs or 0]
        return float(values[token_id]), tuple((int(i), float(values[i])) for i in best)

    def distribution(self, before: Sequence[int]) -> np.ndarray:
        seed = zlib.crc32(repr(tuple(before)).encode())
        logits = np.random.default_rng(seed).normal(0, 3, self.info.vocab_size)
        return logits - math.log(float(np.exp(logits).sum()))

    def stats(self) -> dict[str, float]:
        return {"running": float(self.open), "queue-depth": 0.0}

    def close(self) -> None: ...
