"""/v1/chat/completions and /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from bunny_engine.server.answers import Answer, Style
from bunny_engine.server.context import Context
from bunny_engine.server.errors import bad_request, context_exceeded
from bunny_engine.server.gate import trace_of
from bunny_engine.server.generation import Work
from bunny_engine.server.requests import Generate, read_chat, read_completion
from bunny_engine.server.shapes import ChatShape, CompletionShape, Shape, Spelled

__all__ = ["chat", "completion"]


async def chat(context: Context, request: Request) -> Response:
    wanted = read_chat(await context.body(request))
    context.require(wanted.model)
    ids = await context.encoder.chat(wanted.messages, **wanted.template)
    shape = ChatShape(context.vocabulary, wanted.sampling.top_logprobs)
    return _answer(context, request, wanted, shape, [ids], "messages", context.settings.chat_max_tokens)


async def completion(context: Context, request: Request) -> Response:
    wanted = read_completion(await context.body(request))
    context.require(wanted.model)
    prompts = await context.encoder.prompts(wanted.prompts)
    echoed: dict[int, Spelled] = {}
    if wanted.echo:
        for index, (prompt, ids) in enumerate(zip(wanted.prompts, prompts, strict=True)):
            text = prompt if isinstance(prompt, str) else None
            echoed.update(dict.fromkeys(range(index * wanted.n, (index + 1) * wanted.n), (text, ids)))
    shape = CompletionShape(context.vocabulary, wanted.sampling.top_logprobs, echoed)
    default = context.settings.completion_max_tokens
    return _answer(context, request, wanted, shape, prompts, "prompt", default)


def _answer(
    context: Context,
    request: Request,
    wanted: Generate,
    shape: Shape,
    prompts: Sequence[Sequence[int]],
    param: str,
    default: int | None,
) -> Response:
    choices = len(prompts) * wanted.n
    if choices > context.settings.max_choices:
        most = context.settings.max_choices
        raise bad_request(
            f"{len(prompts)} prompts with n = {wanted.n} ask for {choices} choices; at most {most}.", "n"
        )
    params = [
        replace(
            wanted.sampling, max_tokens=_room(context.info.context_length, len(ids), wanted, param, default)
        )
        for ids in prompts
    ]
    style = Style(
        model=context.info.name,
        fingerprint=context.fingerprint,
        parallel=context.settings.parallel_choices,
        stream=wanted.stream,
        include_usage=wanted.include_usage,
        timings=wanted.timings,
    )
    trace = trace_of(request.scope)
    trace.stream = wanted.stream
    work = Work(prompts, params, wanted.n, wanted.stop)
    return Answer(context.engine, context.vocabulary, work, shape, style, trace)


def _room(context: int, prompt: int, wanted: Generate, param: str, default: int | None) -> int:
    """How many tokens this prompt's answer may have; refused where a named number does not fit."""
    room = context - prompt
    if wanted.max_tokens is None:
        if room < 1:
            raise context_exceeded(context, prompt, None, param)
        return room if default is None else min(default, room)
    if room < wanted.max_tokens or room < 0:
        raise context_exceeded(context, prompt, None if room < 0 else wanted.max_tokens, param)
    return wanted.max_tokens
