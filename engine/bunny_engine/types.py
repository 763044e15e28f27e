"""What the server and the engine say to each other; nothing here needs torch.

    server ──(prompt ids, SamplingParams)──▶ Engine.generate ──▶ TokenStep, TokenStep, … (last one has `finish`)

The engine knows token ids only; text, stop strings, chat templates and JSON are the server's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = ["Engine", "EngineBusy", "ModelInfo", "PromptStart", "SamplingParams", "TokenStep", "Tokenizer"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    max_tokens: int
    temperature: float = 1.0  # 0: greedy
    top_p: float = 1.0
    seed: int | None = None  # None: drawn from the system's entropy; never shared between requests
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    top_logprobs: int | None = None  # None: no log-probabilities; 0..20: that many alternatives
    prompt_logprobs: bool = False  # log-probability of every prompt token, for `echo`
    ignore_eos: bool = False


TopTokens = tuple[tuple[int, float], ...]  # (token id, log-probability), best first


@dataclass(frozen=True, slots=True)
class PromptStart:
    """The first item of every generation: what became of the prompt."""

    prompt_tokens: int
    cached_tokens: int  # of these, how many came from the prefix cache
    prompt_logprobs: tuple[tuple[float, TopTokens] | None, ...] = ()  # None for the first token
    queued_s: float = 0.0
    prefill_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenStep:
    token_id: int
    logprob: float | None = None  # natural logarithm, of the unmodified distribution
    top: TopTokens = ()
    finish: Literal["stop", "length"] | None = None  # "stop": this token is an end token, not text


@dataclass(frozen=True, slots=True)
class ModelInfo:
    name: str
    context_length: int
    vocab_size: int
    device: str
    dtype: str
    created: int  # seconds since the epoch: when the weights were converted


class EngineBusy(Exception):
    """Admission limit reached. `retry_after` is in seconds."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__("the engine's queue is full")


class Engine(Protocol):
    """Thread-safe towards one event loop. Closing the returned iterator frees the request's slot and cache."""

    info: ModelInfo

    def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams
    ) -> AsyncIterator[PromptStart | TokenStep]: ...

    def stats(self) -> dict[str, float]: ...

    def close(self) -> None: ...


class Tokenizer(Protocol):
    eos_ids: frozenset[int]
    chat_template: str | None  # Jinja source

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Each control marker as it is written (<|im_start|>) and its id."""
        ...

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        """What a plain prompt must begin with: (BOS,) for models trained so, else ()."""
        ...

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Ids of `text`. `special`: whether markers such as <|im_start|> in it are read as control tokens."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...

    def token_bytes(self, token_id: int) -> bytes:
        """The token's true raw bytes; it may hold part of a character. Control tokens give b""."""
        ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def template_variables(self) -> dict[str, Any]:
        """bos_token, eos_token and what else the chat template reads."""
        ...
