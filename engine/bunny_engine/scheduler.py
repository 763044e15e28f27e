"""Continuous batching: who runs, which chunk of whose prompt is next, one token for everyone.

Chunks lie on a fixed grid of positions and belong to one sequence each; a row's numbers do not depend on the
rows beside it. So what a request is answered depends on nobody, whatever the load and whatever is cached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from bunny_engine.admission import safe
from bunny_engine.memory import Memory
from bunny_engine.model import Model
from bunny_engine.prefix import PrefixCache
from bunny_engine.sampling import Sampler, prompt_scores
from bunny_engine.types import PromptStart, SamplingParams, TokenStep, TopTokens

__all__ = ["Event", "Request", "Scheduler"]

_AGING = 500.0  # tokens of prompt that one second of waiting is worth, so that a long prompt's turn comes

_STRIDE = 64  # tokens of memory that a sequence is granted at a time

Event = tuple["Request", PromptStart | TokenStep | Exception]


@dataclass(eq=False, slots=True)
class Request:
    """One generation on its way: `ids` are the prompt and then the answer."""

    ids: list[int]
    params: SamplingParams
    arrived: float = field(default_factory=time.monotonic)
    prompt: int = 0  # tokens
    limit: int = 0  # tokens that prompt and answer may have together
    granted: int = 0  # tokens that it may hold for now
    memory: Memory | None = None
    sampler: Sampler | None = None
    cached: int = 0
    scores: list[tuple[float, TopTokens] | None] = field(default_factory=list)
    started: float = 0.0

    @property
    def unread(self) -> int:
        """Prompt tokens that were not computed yet."""
        return self.prompt - (self.memory.length if self.memory else 0)


class Scheduler:
    """`step` is all: it runs what is due and returns what came of it. One thread calls; nothing here waits."""

    def __init__(
        self,
        model: Model,
        new_memory: Callable[[int], Memory],
        prefixes: PrefixCache,
        *,
        eos_ids: frozenset[int],
        slots: int,
        token_budget: int,
        context: int,
        bytes_for: Callable[[int], int],
        capacity: int,
        grows: bool,
    ) -> None:
        """`token_budget`: prompt tokens a step. `capacity`: bytes that running sequences may hold together,
        `bytes_for`: those of one, by its tokens. `grows`: whether memory is taken as it is written.
        """
        self._model, self._new_memory, self._prefixes = model, new_memory, prefixes
        self._eos, self._slots, self._budget = eos_ids, slots, token_budget
        self._context, self._bytes_for, self._capacity, self._grows = context, bytes_for, capacity, grows
        self.waiting: list[Request] = []
        self.reading: list[Request] = []  # their prompts
        self.writing: list[Request] = []  # their answers
        self.totals = {"prompt_tokens": 0, "cached_tokens": 0, "generated_tokens": 0, "requests": 0, "steps": 0}

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.reading or self.writing)

    def _grant(self, request: Request, tokens: int) -> bool:
        """Let a request have memory for so many tokens, if then everybody can still finish."""
        if tokens <= request.granted:
            return True
        tokens = min(-(-tokens // _STRIDE) * _STRIDE, request.limit) if self._grows else request.limit
        others = [other for other in (*self.reading, *self.writing) if other is not request]
        holdings = [
            (self._bytes_for(count), self._bytes_for(each.limit))
            for each, count in ((request, tokens), *((other, other.granted) for other in others))
        ]
        if others and not safe(self._capacity, holdings):
            return False
        request.granted = tokens
        return True

    def add(self, request: Request) -> None:
        request.prompt = len(request.ids)
        request.limit = min(request.prompt + request.params.max_tokens, self._context)
        self.waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Forget the request, wherever it stands; its memory is freed."""
        for queue in (self.waiting, self.reading, self.writing):
            if request in queue:
                queue.remove(request)
        request.memory = None

    def step(self) -> list[Event]:
        self.totals["steps"] += 1
        self._admit()
        events = self._read()
        events += self._write()
        return events

    def _admit(self) -> None:
        while self.waiting and len(self.reading) + len(self.writing) < self._slots:
            request = self.waiting[0]
            if not self._grant(request, request.prompt):
                return  # its turn comes when a sequence ends
            self.waiting.pop(0)
            request.started = time.monotonic()
            request.sampler = Sampler(request.params, request.ids)
            request.memory = self._new_memory(request.limit)
            if not request.params.prompt_logprobs:  # those need every position's logits
                for span in self._prefixes.match(request.ids):
                    request.memory.adopt(span)
            request.cached = request.memory.length
            self.reading.append(request)

    def _read(self) -> list[Event]:
        """Chunks of prompts, up to the budget: the shortest rest first, and waiting counts."""
        events: list[Event] = []
        room, now = self._budget, time.monotonic()
        while room > 0 and self.reading:
            request = min(self.reading, key=lambda r: r.unread - _AGING * (now - r.arrived))
            try:
                count, logits = self._read_chunk(request)
                room -= count
                if logits is not None:
                    self.reading.remove(request)
                    events += self._begin(request, logits)
            except Exception as error:
                self.cancel(request)
                events.append((request, error))
        return events

    def _read_chunk(self, request: Request) -> tuple[int, Tensor | None]:
        """Compute the prompt's next chunk. Returns its size and, after the last, the next token's logits."""
        memory, grid = request.memory, self._prefixes.chunk
        assert memory is not None
        start = memory.length
        stop = min(start + grid - start % grid, request.prompt)
        ids = torch.tensor(request.ids[start:stop], device=self._model.device)
        hidden = self._model.chunk(ids, memory, every=request.params.prompt_logprobs)
        if stop % grid == 0 and self._prefixes.wants(request.ids[:stop]):
            self._prefixes.add(request.ids[:stop], memory.export(start, stop))
        if request.params.prompt_logprobs:
            targets = torch.tensor(request.ids[start + 1 : min(stop + 1, request.prompt)], dtype=torch.long)
            logits = self._model.logits(hidden[: len(targets)]).cpu()
            request.scores += prompt_scores(logits, targets, request.params.top_logprobs or 0)
        if stop < request.prompt:
            return stop - start, None
        return stop - start, self._model.logits(hidden[-1:])[0].cpu()

    def _begin(self, request: Request, logits: Tensor) -> list[Event]:
        """The prompt is read: say so, and write the first token."""
        now = time.monotonic()
        self.totals["requests"] += 1
        self.totals["prompt_tokens"] += request.prompt
        self.totals["cached_tokens"] += request.cached
        start = PromptStart(
            prompt_tokens=request.prompt,
            cached_tokens=request.cached,
            prompt_logprobs=(None, *request.scores) if request.params.prompt_logprobs else (),
            queued_s=request.started - request.arrived,
            prefill_s=now - request.started,
        )
        request.scores = []
        if request.limit == request.prompt:  # only the prompt's scores were asked for
            self.cancel(request)
            return [(request, start)]
        self.writing.append(request)
        return [(request, start), *self._extend([request], logits[None])]

    def _write(self) -> list[Event]:
        """One token for everyone whose prompt is read, tile by tile."""
        events: list[Event] = []
        due = [
            r for r in self.writing if self._grant(r, len(r.ids))
        ]  # who is not granted more waits, and goes on
        for first in range(0, len(due), self._model.tile):
            tile = due[first : first + self._model.tile]
            try:
                memories = [request.memory for request in tile if request.memory is not None]
                logits = self._model.tokens([request.ids[-1] for request in tile], memories).cpu()
            except Exception as error:
                for request in tile:
                    self.cancel(request)
                    events.append((request, error))
                continue
            events += self._extend(tile, logits)
        return events

    def _extend(self, requests: Sequence[Request], logits: Tensor) -> list[Event]:
        events: list[Event] = []
        for request, row in zip(requests, logits, strict=True):
            assert request.sampler is not None
            try:
                token, logprob, top = request.sampler.pick(row)
            except ArithmeticError as error:
                self.cancel(request)
                events.append((request, error))
                continue
            request.ids.append(token)
            self.totals["generated_tokens"] += 1
            finish: Literal["stop", "length"] | None = None
            if token in self._eos and not request.params.ignore_eos:
                finish = "stop"
            elif len(request.ids) >= request.limit:
                finish = "length"
            events.append((request, TokenStep(token, logprob, top, finish)))
            if finish:
                self.cancel(request)
        return events
