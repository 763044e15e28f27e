"""The load table: latency, speed and errors by prompt length and load, with intervals.

Load is so many requests at once (closed loop: the next one waits for an answer) or so many a second (open loop:
the next one waits for nobody). A closed loop asks less while the server is slow, and so never sees how long
others would have waited; in an open loop times count from the moment at which the clock wanted the request.
Prompts come from the caller and must not repeat, or the server's prefix cache is what is timed; the cached
share is told beside each row. Warm-up requests are made and left out.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bunny_probe.endpoints.client import until_taken
from bunny_probe.errors import UsageError
from bunny_probe.records import Attempt, Decoding, Outcome, Rendered, Timing
from bunny_probe.runs.scheduler import Answering
from bunny_probe.runs.schedules import constant

__all__ = ["LoadRow", "Quantile", "load_table", "quantile"]

_LEAD_NS = 20_000_000  # an open loop begins this long after its prompts are written
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
    concurrency: int | None  # requests in flight; None in an open loop
    rate: float | None  # requests a second of the clock; None in a closed loop
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
    rates: Sequence[float] = (),
    arrivals: Callable[[float], Iterator[float]] = constant,
    requests: int = 40,
    warm_up: int = 2,
    decoding: Decoding | None = None,
    progress: Callable[[LoadRow], None] | None = None,
) -> list[LoadRow]:
    """Measure every length at every concurrency, then at every rate. `prompt(tokens, number)` gives the
    number-th prompt of so many tokens. `arrivals`: a rate's moments of sending (see `schedules`).

    Raises:
        UsageError: nothing is asked.
    """
    if requests < 1 or not lengths or not (concurrencies or rates):
        raise UsageError("a load table needs at least one request, one length and one concurrency or rate")
    asking = _Asking(endpoint, prompt, decoding or Decoding(max_tokens=64, top_logprobs=None))
    rows = []
    for length in lengths:
        for concurrency, rate in (*((item, None) for item in concurrencies), *((None, item) for item in rates)):
            await asking.closed(length, warm_up, concurrency or max(1, warm_up))
            begun = time.perf_counter()
            if concurrency is not None:
                attempts = await asking.closed(length, requests, concurrency)
            else:
                assert rate is not None
                attempts = await asking.open(length, requests, arrivals(rate))
            row = _row(length, concurrency, rate, attempts, time.perf_counter() - begun)
            rows.append(row)
            if progress is not None:
                progress(row)
    return rows


class _Asking:
    """Asks prompts of which none repeats."""

    def __init__(self, endpoint: Answering, prompt: Callable[[int, int], Rendered], decoding: Decoding) -> None:
        self._endpoint, self._prompt, self._decoding = endpoint, prompt, decoding
        self._number = 0

    async def closed(self, length: int, count: int, concurrency: int) -> list[Attempt]:
        gate = asyncio.Semaphore(concurrency)

        async def one() -> Attempt:
            async with gate:
                return await self._ask(await self._render(length))

        return await asyncio.gather(*(one() for _ in range(count)))

    async def open(self, length: int, count: int, moments: Iterator[float]) -> list[Attempt]:
        # Written beforehand, so that no prompt is late for its moment.
        prompts = [await self._render(length) for _ in range(count)]
        begun = time.perf_counter_ns() + _LEAD_NS

        async def one(rendered: Rendered, moment: float) -> Attempt:
            scheduled = begun + int(moment * 1e9)
            await asyncio.sleep((scheduled - time.perf_counter_ns()) / 1e9)
            return await self._ask(rendered, scheduled)

        return await asyncio.gather(*(one(*item) for item in zip(prompts, moments, strict=False)))

    async def _render(self, length: int) -> Rendered:
        self._number += 1
        return await asyncio.to_thread(self._prompt, length, self._number - 1)

    async def _ask(self, rendered: Rendered, scheduled: int | None = None) -> Attempt:
        tokens = rendered.intended_tokens if rendered.exact else None
        return await until_taken(
            lambda: self._endpoint.exchange(rendered.messages, self._decoding, tokens, scheduled)
        )


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


def _row(
    length: int, concurrency: int | None, rate: float | None, attempts: Sequence[Attempt], wall: float
) -> LoadRow:
    timed = [a for a in attempts if a.outcome in _DONE and a.timing is not None and a.timing.valid]
    latency = _seconds([(a.timing, a.timing.end) for a in timed if a.timing])
    ttft = _seconds([(a.timing, a.timing.first_content) for a in timed if a.timing])
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
        rate=rate,
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


def _seconds(moments: Sequence[tuple[Timing, int | None]]) -> list[float]:
    """Seconds from the moment that the clock named, or from sending where there was no clock."""
    return [(at - (timing.scheduled or 0)) / 1e9 for timing, at in moments if at is not None]
