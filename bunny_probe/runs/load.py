"""The load table: latency, speed and errors by concurrency and prompt length, with intervals.

Prompts come from the caller and must not repeat, or the server's prefix cache is what is timed; the cached
share is told beside each row. Warm-up requests are made and left out.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bunny_probe.errors import UsageError
from bunny_probe.records import Attempt, Decoding, Outcome, Rendered
from bunny_probe.runs.scheduler import Answering

__all__ = ["LoadRow", "Quantile", "load_table", "quantile"]

_DONE = (Outcome.ANSWERED, Outcome.OUTPUT_BUDGET)  # the whole answer came, and was timed


@dataclass(frozen=True, slots=True)
class Quantile:
    """A sample quantile with its distribution-free 95 % interval. All None: n is too small to have one."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class LoadRow:
    """One cell. Seconds, over the requests that were answered with valid times."""

    prompt_tokens: int
    concurrency: int
    requests: int
    timed: int  # answered, with times that the client did not spoil
    errors: int
    ttft_mean: float | None
    ttft: dict[str, Quantile]  # "p50", "p95", "p99"
    latency_mean: float | None
    latency_mean_interval: tuple[float, float] | None  # 95 %, normal
    latency: dict[str, Quantile]
    answer_tokens_per_s: float | None  # of the whole server: all answer tokens over the wall time
    cached_share: float | None  # of the prompt tokens
    worst_lag_s: float

    @property
    def error_rate(self) -> float:
        return self.errors / self.requests


async def load_table(
    endpoint: Answering,
    prompt: Callable[[int, int], Rendered],
    *,
    lengths: Sequence[int] = (256, 1024, 4096),
    concurrencies: Sequence[int] = (1, 4, 8, 16, 20),
    requests: int = 40,
    warm_up: int = 2,
    decoding: Decoding | None = None,
    progress: Callable[[LoadRow], None] | None = None,
) -> list[LoadRow]:
    """Measure every cell, closed loop. `prompt(tokens, number)` gives the number-th prompt of so many tokens.

    Raises:
        UsageError: nothing is asked.
    """
    if requests < 1 or not lengths or not concurrencies:
        raise UsageError("a load table needs at least one request, one length and one concurrency")
    wanted = decoding or Decoding(max_tokens=64, top_logprobs=None)
    rows, number = [], 0
    for length in lengths:
        for concurrency in concurrencies:
            gate = asyncio.Semaphore(concurrency)

            async def one(index: int, length: int = length, gate: asyncio.Semaphore = gate) -> Attempt:
                async with gate:
                    rendered = await asyncio.to_thread(prompt, length, index)
                    while True:
                        exchanged = await endpoint.exchange(
                            rendered.messages, wanted, rendered.intended_tokens if rendered.exact else None
                        )
                        if not exchanged.refused:
                            return exchanged.attempt

            await asyncio.gather(*(one(number + index) for index in range(warm_up)))
            number += warm_up
            begun = time.perf_counter()
            attempts = await asyncio.gather(*(one(number + index) for index in range(requests)))
            number += requests
            row = _row(length, concurrency, attempts, time.perf_counter() - begun)
            rows.append(row)
            if progress is not None:
                progress(row)
    return rows


def quantile(values: Sequence[float], q: float) -> Quantile:
    """The q-quantile with the interval between two order statistics that holds it with at least 95 %.

    Binomial: P(X_(l) < x_q < X_(u)) = P(l <= B(n, q) < u). Where even the largest value is not beyond the
    quantile often enough (n < 368 for P99), there is no upper end, and nothing is told.
    """
    from scipy.stats import binom

    ordered, n = sorted(values), len(values)
    if not n:
        return Quantile(None, None, None)
    low = int(binom.ppf(0.025, n, q))  # 1-based rank of the lower end; 0: none
    high = int(binom.ppf(0.975, n, q)) + 1
    if low < 1 or high > n:
        return Quantile(None, None, None)
    return Quantile(ordered[max(0, math.ceil(q * n) - 1)], ordered[low - 1], ordered[high - 1])


def _row(length: int, concurrency: int, attempts: Sequence[Attempt], wall: float) -> LoadRow:
    timed = [a for a in attempts if a.outcome in _DONE and a.timing is not None and a.timing.valid]
    latency = [a.timing.end / 1e9 for a in timed if a.timing and a.timing.end is not None]
    ttft = [a.timing.first_content / 1e9 for a in timed if a.timing and a.timing.first_content is not None]
    answers = [a.usage.completion_tokens for a in attempts if a.usage.completion_tokens is not None]
    cached = [
        (a.usage.cached_tokens, a.usage.prompt_tokens) for a in attempts if a.usage.cached_tokens is not None
    ]
    prompts = sum(total or 0 for _, total in cached)
    interval = None
    if len(latency) > 1:
        half = 1.96 * statistics.stdev(latency) / math.sqrt(len(latency))
        interval = (statistics.fmean(latency) - half, statistics.fmean(latency) + half)
    levels = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return LoadRow(
        prompt_tokens=length,
        concurrency=concurrency,
        requests=len(attempts),
        timed=len(timed),
        errors=sum(a.outcome not in _DONE for a in attempts),
        ttft_mean=statistics.fmean(ttft) if ttft else None,
        ttft={name: quantile(ttft, q) for name, q in levels.items()},
        latency_mean=statistics.fmean(latency) if latency else None,
        latency_mean_interval=interval,
        latency={name: quantile(latency, q) for name, q in levels.items()},
        answer_tokens_per_s=sum(answers) / wall if answers and wall > 0 else None,
        cached_share=sum(hit for hit, _ in cached) / prompts if prompts else None,
        worst_lag_s=max((a.timing.client_lag or 0) / 1e9 for a in attempts if a.timing),
    )
