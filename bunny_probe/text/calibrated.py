"""A counter for an endpoint that neither counts tokens nor has a known tokenizer: learnt from a few answers.

A few requests of known text are sent, and the `usage.prompt_tokens` of their answers is read. For each
kind of text the tokens are taken as

    tokens = request + rate * bytes of UTF-8

with the rate fitted by least squares and the request's own part (chat template) shared by all kinds. The
error is stated: the largest relative residual over the calls that were left out of the fit in turn
(leave-one-out), at least one per cent. Prompts counted so are marked as not exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bunny_probe.errors import UsageError
from bunny_probe.records import Filler, Message, content_hash
from bunny_probe.text import haystack

__all__ = ["CalibratedCounter", "calibration_messages"]

_SIZES = (12, 40, 100)  # sentences in the calls of one language
_LEAST = 0.01  # relative error that is stated at the least


@dataclass(frozen=True, slots=True)
class _Fit:
    request: float  # tokens of a request without any text
    dense: float  # tokens a byte, in characters of scripts without spaces
    plain: float  # tokens a byte, in all others


def calibration_messages(languages: Sequence[str]) -> list[tuple[Message, ...]]:
    """The requests to send, one a call: for each language three lengths of haystack from all its domains.

    Ask for one token of answer with each: only `usage.prompt_tokens` is wanted.
    """
    return [(Message("user", text),) for language in languages for text in _texts(language)]


class CalibratedCounter:
    """Counts by the rates that `measured` shows: (messages, prompt tokens) of a few calls.

    `error` is the stated relative error of a prompt's count. Raises `UsageError` when fewer than three
    calls are given or when they do not fit a rate.
    """

    exact = False
    additive = True
    verify_below = 0
    guard = 0

    def __init__(self, measured: Sequence[tuple[Sequence[Message], int]]) -> None:
        if len(measured) < 3:
            raise UsageError(
                f"calibration needs at least 3 calls with usage.prompt_tokens; got {len(measured)}"
            )
        rows = [_row(messages) for messages, _ in measured]
        tokens = [count for _, count in measured]
        self._fit = _fitted(rows, tokens)
        self.error = max(_LEAST, *_left_out(rows, tokens))
        self.calls = len(measured)
        self.fingerprint = "calibrated:" + content_hash([rows, tokens], length=16)

    @classmethod
    def from_calls(
        cls, call: Callable[[tuple[Message, ...]], int], languages: Sequence[str] = ("en",)
    ) -> CalibratedCounter:
        """Makes the calls with `call`, which sends messages and returns `usage.prompt_tokens`."""
        return cls([(messages, call(messages)) for messages in calibration_messages(languages)])

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [max(1, round(self._rate(text))) if text else 0 for text in texts]

    def following(self, texts: Sequence[str]) -> list[int]:
        return [max(1, round(self._rate(" " + text))) for text in texts]

    def chat(self, messages: Sequence[Message]) -> int:
        return round(self._fit.request + sum(self._rate(message.content) for message in messages))

    def _rate(self, text: str) -> float:
        dense, plain = _bytes(text)
        return self._fit.dense * dense + self._fit.plain * plain


def _texts(language: str) -> Iterator[str]:
    streams = [
        islice(haystack.sentences(Filler("haystack", language, domain, 0)), 1)
        for domain in haystack.domains(language)
    ]
    mixed = [text for group in zip(*(next(stream) for stream in streams), strict=True) for text in group]
    start = 0
    for size in _SIZES:
        yield " ".join(mixed[start : start + size])
        start += size


def _bytes(text: str) -> tuple[int, int]:
    """(bytes in scripts without spaces, all other bytes)."""
    dense = sum(3 for character in text if "⺀" <= character <= "\U0003ffff")
    return dense, len(text.encode("utf-8", "surrogatepass")) - dense


def _row(messages: Sequence[Message]) -> list[int]:
    parts = [_bytes(message.content) for message in messages]
    return [1, sum(dense for dense, _ in parts), sum(plain for _, plain in parts)]


def _fitted(rows: Sequence[Sequence[int]], tokens: Sequence[int]) -> _Fit:
    """Least squares, weighted by 1 / tokens so that the relative error is what is made small.

    Calls in one language hardly tell its two kinds of characters apart: a weak prior (a twentieth of a
    call's weight) holds the two rates equal where the calls do not say otherwise.
    """
    weights = 1 / np.maximum(np.asarray(tokens, dtype=float), 1)
    design = np.asarray(rows, dtype=float) * weights[:, None]
    hold = 0.05 * design[:, 1:].sum(axis=1).mean()
    design = np.vstack([design, [0.0, hold, -hold]])
    target = np.append(np.asarray(tokens) * weights, 0.0)
    request, dense, plain = np.linalg.lstsq(design, target, rcond=None)[0].tolist()
    if min(plain, dense) <= 0:
        raise UsageError(
            "the calls' usage.prompt_tokens do not grow with their text: calibration is not possible"
        )
    return _Fit(request, dense, plain)


def _left_out(rows: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[float]:
    """The relative error at each call, from a fit to the others."""
    errors = []
    for index, count in enumerate(tokens):
        rest = [i for i in range(len(tokens)) if i != index]
        fit = _fitted([rows[i] for i in rest], [tokens[i] for i in rest])
        one, dense, plain = rows[index]
        guess = fit.request * one + fit.dense * dense + fit.plain * plain
        errors.append(abs(guess - count) / max(count, 1))
    return errors
