"""The bridge between one event loop and the one thread that computes. Implements `types.Engine`."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch

from bunny_engine.errors import OptionError
from bunny_engine.memory_choice import Tally
from bunny_engine.model import Model
from bunny_engine.policies import Policy
from bunny_engine.prefix import PrefixCache
from bunny_engine.scheduler import Request, Scheduler
from bunny_engine.types import EngineBusy, ModelInfo, PromptStart, SamplingParams, TokenStep

__all__ = ["EngineOptions", "LocalEngine"]

log = logging.getLogger("bunny_engine")

Item = PromptStart | TokenStep | Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How much runs at once. Raises OptionError."""

    context: int  # tokens a sequence may have
    slots: int = 32  # sequences that run at once
    queue: int = 256  # requests that may wait
    chunk: int = 256  # prompt tokens computed at once, and the grain of prefix reuse
    step_tokens: int = 256  # prompt tokens a step may compute before everyone gets a token
    memory_bytes: int = 4 << 30  # keys and values of running sequences
    prefix_bytes: int = 1 << 30  # keys and values kept for reuse
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        for name in ("context", "slots", "queue", "chunk", "step_tokens", "memory_bytes"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name.replace('_', '-')} must be at least 1")
        if self.prefix_bytes < 0:
            raise OptionError("prefix-bytes must not be negative")
        if self.policy.name != "full" and self.policy.block % self.chunk:
            raise OptionError(f"a block of {self.policy.block} tokens is not made of chunks of {self.chunk}")


class LocalEngine:
    """Runs one model on a thread of its own. `close` ends the thread; requests in flight then fail."""

    def __init__(self, model: Model, info: ModelInfo, eos_ids: frozenset[int], options: EngineOptions) -> None:
        self.info = info
        self._options = options
        policy = options.policy
        self.memory_note = policy.describe(model.config, model.device)  # for the log, at the start
        self._tally = Tally()
        self._prefixes = PrefixCache(options.chunk, options.prefix_bytes)
        self._scheduler = Scheduler(
            model,
            partial(policy.new, model, tally=self._tally),
            self._prefixes,
            eos_ids=eos_ids,
            slots=options.slots,
            token_budget=options.step_tokens,
            context=options.context,
            bytes_for=lambda tokens: policy.bytes_for(model.config, tokens, model.dtype),
            capacity=options.memory_bytes,
            grows=model.device.type == "cpu",  # pages are the process's own only once they are written
        )
        self._model = model
        self._inbox: queue.SimpleQueue[tuple[Literal["add", "cancel", "close"], Request | None]] = (
            queue.SimpleQueue()
        )
        self._sinks: dict[Request, Callable[[list[Item]], None]] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._prepared = threading.Event()
        self._broken: Exception | None = None
        self._rate = 500.0  # prompt tokens a second, learnt from what was measured
        self._thread = threading.Thread(target=self._work, name="bunny-engine", daemon=True)
        self._thread.start()

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams
    ) -> AsyncGenerator[PromptStart | TokenStep, None]:
        """PromptStart, then a TokenStep a token; the last has `finish`. With max_tokens 0: PromptStart alone.

        Raises EngineBusy when the queue is full, ValueError for a prompt that is empty, too long, or not of
        this vocabulary. Closing the iterator frees the slot.
        """
        request = Request(self._checked(prompt_ids, params.max_tokens), params)
        items: asyncio.Queue[Item] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def deliver(batch: list[Item]) -> None:
            for item in batch:
                items.put_nowait(item)

        def sink(batch: list[Item]) -> None:
            loop.call_soon_threadsafe(deliver, batch)

        self._enter(request, sink)
        try:
            while True:
                item = await items.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                if isinstance(item, TokenStep) and item.finish:
                    return
                if isinstance(item, PromptStart) and params.max_tokens == 0:
                    return
        finally:
            self._leave(request)

    def stats(self) -> dict[str, float]:
        """Gauges and totals, by the name that /metrics gives them."""
        scheduler = self._scheduler
        memories = [
            memory for r in (*scheduler.reading, *scheduler.writing) if (memory := r.memory) is not None
        ]
        return {
            "running": len(scheduler.reading) + len(scheduler.writing),
            "waiting": self._queued(),
            "resident_tokens": sum(memory.length for memory in memories),
            "resident_bytes": sum(memory.nbytes - memory.stored_nbytes for memory in memories),
            "stored_bytes": sum(memory.stored_nbytes for memory in memories),
            "prefix_tokens": len(self._prefixes) * self._options.chunk,
            "prefix_bytes": self._prefixes.nbytes,
            **self._tally.figures(),
            **{f"{name}_total": float(value) for name, value in scheduler.totals.items()},
        }

    def close(self) -> None:
        """End the worker; requests in flight fail with RuntimeError. Safe to call twice."""
        with self._lock:
            self._closed = True
        self._inbox.put(("close", None))
        self._thread.join(timeout=30)

    def _checked(self, prompt_ids: Sequence[int], max_tokens: int) -> list[int]:
        ids, context = list(prompt_ids), self._options.context
        if not ids:
            raise ValueError("the prompt holds no token")
        if max_tokens < 0 or len(ids) + min(max_tokens, 1) > context:
            raise ValueError(f"{len(ids)} prompt tokens and an answer do not fit a context of {context} tokens")
        if min(ids) < 0 or max(ids) >= self.info.vocab_size:
            raise ValueError(f"token ids lie between 0 and {self.info.vocab_size - 1}")
        return ids

    def _queued(self) -> int:
        return max(0, len(self._sinks) - len(self._scheduler.reading) - len(self._scheduler.writing))

    def _enter(self, request: Request, sink: Callable[[list[Item]], None]) -> None:
        with self._lock:
            if self._closed or not self._thread.is_alive():
                raise RuntimeError("the engine is closed")
            if len(self._sinks) >= self._options.slots + self._options.queue:
                ahead = sum(len(other.ids) for other in self._sinks)
                raise EngineBusy(retry_after=max(1.0, min(60.0, ahead / self._rate / 4)))
            self._sinks[request] = sink
        self._inbox.put(("add", request))

    def _leave(self, request: Request) -> None:
        with self._lock:
            known = self._sinks.pop(request, None)
        if known is not None:
            self._inbox.put(("cancel", request))

    def wait(self) -> None:
        """Block until the model is ready for its first request. Raises what kept it from that."""
        self._prepared.wait()
        if self._broken is not None:
            raise self._broken

    def _work(self) -> None:
        with torch.inference_mode():
            try:
                self._model.prepare()
            except Exception as error:  # no memory for the kernels' forms, say: nobody may wait for an answer
                log.exception("the model could not be prepared")
                self._broken = error
                with self._lock:
                    self._closed = True
                self._prepared.set()
                self._fail(error)
                return
            self._prepared.set()
            while self._listen():
                try:
                    self._deliver(self._scheduler.step())
                except Exception as error:  # a fault of ours: those it concerns are told, the thread lives on
                    log.exception("a step failed")
                    self._fail(error)
        self._fail(RuntimeError("the engine was closed"))

    def _listen(self) -> bool:
        """Take what came in; wait when there is nothing to do. False: it is time to end."""
        while True:
            try:
                what, request = self._inbox.get(block=not self._scheduler.busy)
            except queue.Empty:
                return True
            if what == "close" or request is None:
                return False
            if what == "add":
                self._scheduler.add(request)
            else:
                self._scheduler.cancel(request)

    def _deliver(self, events: Sequence[tuple[Request, Item]]) -> None:
        batches: dict[Request, list[Item]] = {}
        for request, item in events:
            if isinstance(item, Exception):
                log.error("a generation failed: %s: %s", type(item).__name__, item)
            elif isinstance(item, PromptStart) and item.prefill_s > 0:
                speed = (item.prompt_tokens - item.cached_tokens) / item.prefill_s
                self._rate = 0.8 * self._rate + 0.2 * max(speed, 1.0)
            batches.setdefault(request, []).append(item)
        for request, batch in batches.items():
            self._send(request, batch)

    def _send(self, request: Request, batch: list[Item]) -> None:
        sink = self._sinks.get(request)
        if sink is not None:
            try:
                sink(batch)
            except RuntimeError:  # its event loop is gone
                self._scheduler.cancel(request)

    def _fail(self, error: Exception) -> None:
        for request in list(self._sinks):
            self._scheduler.cancel(request)
            self._send(request, [error])
