"""Asks trials and keeps what comes: concurrency, retries, limits, a budget, and a clean stop.

    feed (renders late, in a thread) ──▶ queue ──▶ workers ──▶ exchange ──▶ record (durable, in a thread)

A trial is settled when an attempt counts. One whose prompt cannot be built (`LengthError`) is noted as unasked,
which is not fatal: it shows in the denominators, and the next run tries again. What is wrong with the endpoint
as a whole (the key, the model, nobody there) stops the run; everything finished is in the store.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from bunny_probe.errors import BudgetSpent, BunnyError, LengthError
from bunny_probe.records import Attempt, Decoding, Message, Outcome, Probe, Rendered, Trial
from bunny_probe.runs.budget import Budget
from bunny_probe.runs.health import Health
from bunny_probe.runs.limits import Limits
from bunny_probe.runs.pace import Progress
from bunny_probe.runs.reader import UNSETTLED
from bunny_probe.runs.recorder import Recorder
from bunny_probe.runs.rendering import Renderer
from bunny_probe.runs.reporting import Reporter
from bunny_probe.runs.retries import Retries
from bunny_probe.runs.store import Store
from bunny_probe.runs.summary import RunSummary

if TYPE_CHECKING:
    from bunny_probe.endpoints import EndpointSpec, Exchanged

__all__ = ["Answering", "RunSummary", "run_trials"]

# A counter that is not the server's own may be off by this fraction before its prompt counts as truncated.
_ESTIMATE_TOLERANCE = 0.1
# An open-loop schedule begins this long after the first prompt is ready, so that it does not begin late.
_LEAD_NS = 50_000_000
_RENDERED_AHEAD = 4  # prompts that wait for a worker


class Answering(Protocol):
    """What a run needs of an endpoint."""

    @property
    def spec(self) -> EndpointSpec: ...

    async def exchange(
        self,
        messages: Sequence[Message],
        decoding: Decoding,
        intended_tokens: int | None = None,
        scheduled_ns: int | None = None,
        *,
        tolerance: float = 0.0,
    ) -> Exchanged: ...


async def run_trials(
    store: Store,
    endpoint: Answering,
    trials: Sequence[Trial],
    render: Callable[[Probe], Rendered],
    *,
    concurrency: int = 1,
    retries: Retries | None = None,
    progress: Callable[[Progress], None] | None = None,
    budget: Budget | None = None,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    schedule: Iterable[float] | None = None,
    again: Collection[Outcome] = UNSETTLED,
    rng: random.Random | None = None,
) -> RunSummary:
    """Ask those of `trials` that `store` has not settled for this endpoint.

    `render` runs in a thread, one prompt at a time, shortly before it is sent. `schedule` gives seconds after
    the start at which to send, one a trial (open loop; `concurrency` is then the most that may be under way).
    `again`: outcomes of earlier observations that are asked once more.

    Cancelling (Ctrl-C, a notebook's stop button) drops what is under way and keeps what is finished.

    Raises:
        EndpointError: the endpoint as a whole cannot be used: key, model, nobody there, nothing but failures.
        BudgetSpent: the next exchange could exceed the budget.
        RunError: the store cannot be written.
    """
    run = _Run(
        store,
        endpoint,
        render,
        Limits(concurrency, requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute),
        retries or Retries(),
        progress,
        budget or Budget(),
        rng or random.Random(),
    )
    return await run.go(trials, again, None if schedule is None else iter(schedule))


@dataclass(slots=True)
class _Item:
    """A trial ready to be sent."""

    trial: Trial
    rendered: Rendered
    scheduled_ns: int | None
    in_flight: int | None = None  # when it was last sent, itself included


class _Stop(Exception):
    """Ends all workers at once; carries the error that the caller gets."""

    def __init__(self, error: BunnyError) -> None:
        self.error = error


class _Run:
    def __init__(
        self,
        store: Store,
        endpoint: Answering,
        render: Callable[[Probe], Rendered],
        limits: Limits,
        retries: Retries,
        progress: Callable[[Progress], None] | None,
        budget: Budget,
        rng: random.Random,
    ) -> None:
        self._store, self._endpoint = store, endpoint
        self._limits, self._retries, self._budget, self._rng = limits, retries, budget, rng
        self._progress = progress
        self._fingerprint = endpoint.spec.fingerprint
        self._health = Health(endpoint.spec, retries)
        self._recorder = Recorder(store, asyncio.get_running_loop())
        self._renderer = Renderer(render)
        self._queue: asyncio.Queue[_Item | None] = asyncio.Queue(min(limits.concurrency, _RENDERED_AHEAD))
        self._settled = asyncio.Event()  # some reservation of the budget has been settled
        self._spent: BudgetSpent | None = None

    async def go(
        self, trials: Sequence[Trial], again: Collection[Outcome], schedule: Iterator[float] | None
    ) -> RunSummary:
        self._start = time.perf_counter()
        self._summary = RunSummary(len(trials))
        try:
            await self._recorder.write(lambda: self._store.add_trials(trials, self._endpoint.spec))
            pending = await self._recorder.write(
                lambda: self._store.pending(trials, self._fingerprint, again=again)
            )
            self._summary.already = len(trials) - len(pending)
            self._reporter = Reporter(self._progress, self._summary, trials, pending, self._limits)
            self._reporter.report()
            async with asyncio.TaskGroup() as beside:
                reporting = beside.create_task(self._reporter.keep_reporting())
                async with asyncio.TaskGroup() as group:
                    workers = min(self._limits.concurrency, len(pending))
                    group.create_task(self._feed(pending, schedule, workers))
                    for _ in range(workers):
                        group.create_task(self._work())
                reporting.cancel()
            self._reporter.report(always=True)
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            # What is being written is finished: a cancelled worker's last attempt is durable too.
            self._renderer.close()
            self._summary.elapsed_s = time.perf_counter() - self._start
            if self._summary.attempts:
                noted = self._recorder.write(partial(self._store.note_client, self._of_the_client()))
                noted.add_done_callback(lambda done: done.cancelled() or done.exception())  # told already
            self._recorder.close()
        if self._spent is not None:
            raise self._spent
        return self._summary

    async def _feed(self, pending: Sequence[Trial], schedule: Iterator[float] | None, workers: int) -> None:
        """Render trials in order, a few ahead of the workers, so that few prompts are in memory at once."""
        begun, at = 0, 0
        while at < len(pending) and self._spent is None:
            some = await self._renderer.some(pending, at)
            for trial, rendered in zip(pending[at:], some, strict=False):
                if isinstance(rendered, LengthError):
                    await self._unasked(trial, str(rendered))
                    continue
                scheduled = None
                if schedule is not None:
                    offset = next(schedule, None)
                    if offset is None:
                        at = len(pending)
                        break
                    begun = begun or time.perf_counter_ns() + _LEAD_NS
                    scheduled = begun + int(offset * 1e9)
                await self._queue.put(_Item(trial, rendered, scheduled))
            at += len(some)
        for _ in range(workers):
            await self._queue.put(None)

    async def _work(self) -> None:
        while (item := await self._queue.get()) is not None:
            if self._spent is None:
                await self._ask(item)

    async def _ask(self, item: _Item) -> None:
        trial = item.trial
        made = 0
        began = time.monotonic()
        while True:
            if item.scheduled_ns is not None and not made:
                await asyncio.sleep(max(0.0, (item.scheduled_ns - time.perf_counter_ns()) / 1e9))
            exchanged = await self._exchange(item)
            if exchanged is None:
                return  # the budget does not allow it
            attempt, refused = exchanged
            self._count(trial, attempt)
            if refused:  # an optional field; without it, ask at once
                await self._record(item, attempt, counts=False)
                continue
            made += 1
            delay = self._retries.delay(attempt, made, self._rng)
            error = self._health.judge(attempt, began, last=delay is None)
            counts = delay is None and error is None
            await self._record(item, attempt, counts=counts)
            if error is not None:
                raise _Stop(error)
            if delay is None:
                self._settle(trial, attempt)
                return
            if attempt.retry_after is not None:
                self._limits.pause(attempt.retry_after)
            await asyncio.sleep(delay)

    async def _exchange(self, item: _Item) -> Exchanged | None:
        """One exchange within limits and budget; None when the budget does not allow it."""
        rendered, decoding = item.rendered, item.trial.decoding
        most = decoding.max_tokens + self._endpoint.spec.reasoning_tokens
        granted = await self._limits.acquire((rendered.intended_tokens or 0) + most)
        attempt: Attempt | None = None
        key = id(item)
        try:
            while (reservation := self._budget.reserve(rendered, most)) is None:
                if not self._budget.open:
                    self._spent = BudgetSpent(
                        f"the next call could exceed the budget ({self._budget.told()}): what came is kept, "
                        "raise the budget and run again to go on"
                    )
                    return None
                self._settled.clear()  # others are under way, and may cost less than feared
                await self._settled.wait()
            self._reporter.under_way[key] = time.perf_counter()
            item.in_flight = len(self._reporter.under_way)
            try:
                exchanged = await self._endpoint.exchange(
                    rendered.messages,
                    decoding,
                    rendered.intended_tokens,
                    item.scheduled_ns,
                    tolerance=0.0 if rendered.exact else _ESTIMATE_TOLERANCE,
                )
                attempt = exchanged.attempt
                return exchanged
            finally:
                del self._reporter.under_way[key]
                self._budget.settle(reservation, attempt, rendered)
                self._settled.set()
        finally:
            self._limits.release(granted, attempt)

    async def _record(self, item: _Item, attempt: Attempt, *, counts: bool) -> None:
        # Handed in without an await in between: a cancellation can no longer lose the attempt.
        await self._recorder.write(
            partial(
                self._store.record,
                item.trial,
                self._fingerprint,
                attempt,
                item.rendered,
                counts=counts,
                in_flight=item.in_flight,
            )
        )

    async def _unasked(self, trial: Trial, reason: str) -> None:
        await self._recorder.write(lambda: self._store.record_unasked(trial, self._fingerprint, reason))
        self._summary.unasked += 1
        self._reporter.settled(trial, asked=False)

    def _count(self, trial: Trial, attempt: Attempt) -> None:
        summary, timing = self._summary, attempt.timing
        summary.attempts += 1
        summary.prompt_tokens += attempt.usage.prompt_tokens or 0
        summary.completion_tokens += attempt.usage.completion_tokens or 0
        if attempt.usage.cost is not None:
            summary.cost = (summary.cost or 0.0) + attempt.usage.cost
        elif self._budget.price is not None:
            summary.cost = self._budget.spent_dollars
        if timing is not None:
            summary.invalid_timings += not timing.valid
            summary.worst_lag_s = max(summary.worst_lag_s, (timing.client_lag or 0) / 1e9)
        self._reporter.attempted(trial, attempt)

    def _settle(self, trial: Trial, attempt: Attempt) -> None:
        self._summary.asked += 1
        self._summary.outcomes[attempt.outcome] += 1
        if attempt.outcome is Outcome.OUTPUT_BUDGET and not attempt.text.strip():
            self._summary.spent_on_reasoning += bool(attempt.reasoning or attempt.usage.reasoning_tokens)
        self._reporter.settled(trial)

    def _of_the_client(self) -> dict[str, Any]:
        """What the run file keeps of this client's own part in the times."""
        summary = self._summary
        return {
            "at": time.time(),
            "elapsed_s": summary.elapsed_s,
            "attempts": summary.attempts,
            "concurrency": self._limits.concurrency,
            "worst_lag_s": summary.worst_lag_s,
            "invalid_timings": summary.invalid_timings,
        }


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.error if isinstance(error, _Stop) else error
