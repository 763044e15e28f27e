"""From engine steps to pieces of text: one choice, and many choices of one request side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, cast

from bunny_engine.server.text import Detokenizer, StopMatcher, Vocabulary
from bunny_engine.types import Engine, PromptStart, SamplingParams, TokenStep

__all__ = ["Event", "Piece", "Work", "choice", "running"]


class EngineFault(RuntimeError):
    """The engine broke its word."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one engine step adds to a choice."""

    step: TokenStep | None  # None only where no token was asked for
    text: str  # that may be shown now; "" while a character or a possible stop string is unfinished
    offset: int  # character of the choice's own text at which the token begins
    finish: Literal["stop", "length"] | None = None


Event = tuple[int, PromptStart | Piece]  # the choice's index first


async def choice(
    engine: Engine, vocabulary: Vocabulary, prompt: Sequence[int], params: SamplingParams, stops: Sequence[str]
) -> AsyncGenerator[PromptStart | Piece, None]:
    """PromptStart, then pieces; the last one has `finish`. Closing it frees the engine's slot.

    A text that ends in the middle of a character ends before it: the bytes are in the log-probability entries.
    """
    characters, matcher = Detokenizer(), StopMatcher(stops)
    steps = cast(AsyncGenerator[PromptStart | TokenStep, None], engine.generate(prompt, params))
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, PromptStart):
                yield step
                if params.max_tokens == 0:  # only the prompt's scores were asked for
                    yield Piece(None, "", 0, "length")
                    return
                continue
            offset = characters.characters
            ended = step.finish == "stop"  # an end token, not text
            text = matcher.feed("" if ended else characters.feed(vocabulary.bytes_of(step.token_id)))
            finish = "stop" if matcher.hit is not None else step.finish
            if finish and matcher.hit is None:
                text += matcher.flush()
            yield Piece(step, text, offset, finish)
            if finish:
                return
    raise EngineFault("the engine ended a generation without a finish")


@dataclass(frozen=True, slots=True)
class Work:
    """All that one request generates: `n` choices for each prompt, indexed prompt by prompt."""

    prompts: Sequence[Sequence[int]]
    params: Sequence[SamplingParams]  # one a prompt
    n: int
    stops: Sequence[str]


@asynccontextmanager
async def running(
    engine: Engine, vocabulary: Vocabulary, work: Work, parallel: int
) -> AsyncIterator[AsyncIterator[Event]]:
    """Events of all choices as they come. Leaving the context ends every choice and frees its slot.

    The choices of one prompt wait until the first of them has its prompt in the cache. Each has a generator of
    its own, seeded with seed + its place among the prompt's choices: so an answer does not depend on which
    other prompts shared the request.
    """
    events: asyncio.Queue[Event | Exception] = asyncio.Queue()
    room = asyncio.Semaphore(parallel)
    ready = [asyncio.Event() for _ in work.prompts]

    async def pump(prompt: int, place: int) -> None:
        try:
            if place:
                await ready[prompt].wait()
            async with room:
                params = work.params[prompt]
                if params.seed is not None:
                    params = replace(params, seed=(params.seed + place) % 2**63)
                async with aclosing(
                    choice(engine, vocabulary, work.prompts[prompt], params, work.stops)
                ) as pieces:
                    async for piece in pieces:
                        events.put_nowait((prompt * work.n + place, piece))
                        ready[prompt].set()
        except Exception as fault:
            events.put_nowait(fault)

    async def arrivals() -> AsyncIterator[Event]:
        left = len(work.prompts) * work.n
        while left:
            event = await events.get()
            if isinstance(event, Exception):
                raise event
            yield event
            if isinstance(event[1], Piece) and event[1].finish:
                left -= 1

    pumps = [
        asyncio.create_task(pump(prompt, place))
        for prompt in range(len(work.prompts))
        for place in range(work.n)
    ]
    try:
        yield arrivals()
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
