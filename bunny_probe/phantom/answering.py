"""One request for an answer, from its body to the last byte of the response."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace

import orjson
from aiohttp import web

from bunny_probe.errors import UsageError
from bunny_probe.phantom.ask import ApiError, Ask, DialectName
from bunny_probe.phantom.delivery import Delivery, drop_connection, for_ever
from bunny_probe.phantom.dialects import DIALECTS
from bunny_probe.phantom.draws import digest, uniform
from bunny_probe.phantom.faults import Fault, parse_faults
from bunny_probe.phantom.framing import Framing
from bunny_probe.phantom.latency import Schedule, plan_times
from bunny_probe.phantom.models import Model
from bunny_probe.phantom.refusals import (
    context_error,
    json_response,
    no_such_model,
    rate_limit,
    refuse,
    unsupported,
)
from bunny_probe.phantom.reply import Choice, Prompt, Reply, Usage, compose, echoed
from bunny_probe.phantom.script import Script
from bunny_probe.phantom.spoil import WITHOUT_STREAM, Ending, spoil_choice, spoil_steps
from bunny_probe.phantom.stats import Served, Stats
from bunny_probe.phantom.steps import Dialect, Step
from bunny_probe.phantom.truth import Key

__all__ = ["Answering"]

FAULT_HEADER = "X-Phantom-Fault"
_OFF_THE_LOOP = 100_000  # bytes of body from which on a request is prepared in a thread
_MOST_ECHOED = 65_536  # prompt tokens that are echoed with log-probabilities


class Answering:
    """Serves the three answer paths for a set of models."""

    def __init__(
        self,
        models: dict[str, Model],
        stats: Stats,
        script: Script,
        key: Key,
        patterns: Sequence[re.Pattern[str]],
        api_key: str | None,
    ) -> None:
        self.models, self.stats, self.script = models, stats, script
        self.key, self.patterns, self.api_key = key, patterns, api_key

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self.serve(request, "chat")

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self.serve(request, "completions")

    async def messages(self, request: web.Request) -> web.StreamResponse:
        return await self.serve(request, "anthropic")

    async def serve(self, request: web.Request, name: DialectName) -> web.StreamResponse:
        arrived = time.perf_counter()
        served = self.stats.open(int(arrived * 1e9))
        served.dialect = name
        dialect = DIALECTS[name]
        try:
            response = await self._serve(request, dialect, served, arrived)
        except ApiError as error:
            response = json_response(dialect.error(error), error.status, error.headers)
            served.status = error.status
        except (ConnectionError, asyncio.CancelledError):
            served.gone = True
            raise
        finally:
            self.stats.close(served)
        return response

    async def _serve(
        self, request: web.Request, dialect: Dialect, served: Served, arrived: float
    ) -> web.StreamResponse:
        self.authorise(request)
        raw = await request.read()
        asks, model, prompts = await _off_loop(len(raw), lambda: self._prepare(raw, dialect))
        ask, prompt = asks[0], prompts[0]
        served.model = model.behaviour.model
        served.prompt_hash = prompt.hash
        served.prompt_tokens = sum(p.tokens for p in prompts)
        served.cached_tokens = sum(p.cached for p in prompts)
        served.count = self.stats.ask(prompt.hash)
        faults = self._faults(request, model, prompt, served.count)
        served.faults = tuple(f"{f.name}:{f.arg}" if f.arg else f.name for f in faults)
        if (refused := await self._refused(request, ask, prompt, faults)) is not None:
            served.status = refused.status if isinstance(refused, web.Response) else 0
            return refused
        self._check(ask, model, prompts)
        prompts = [_truncated(p, faults) for p in prompts]
        served.prompt_tokens = sum(p.tokens for p in prompts)
        asked = time.perf_counter()
        async with self._slot(model):
            if model.slots is not None:
                served.queued_s = time.perf_counter() - asked
                arrived += served.queued_s  # a queued request is served by the same law, later
            return await self._answer(request, dialect, served, arrived, asks, model, prompts, faults)

    def authorise(self, request: web.Request) -> None:
        if self.api_key is None:
            return
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        if given != self.api_key:
            message = "Incorrect API key provided." if given else "You didn't provide an API key."
            raise ApiError(401, message, code="invalid_api_key")

    def _prepare(self, raw: bytes, dialect: Dialect) -> tuple[list[Ask], Model, list[Prompt]]:
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise ApiError(400, "The request body is not valid JSON.") from None
        asks = dialect.parse(body)
        model = self.models.get(asks[0].model)
        if model is None:
            raise no_such_model(asks[0].model)
        cut = model.behaviour.truncate_at
        return asks, model, [model.inspect(ask, self.key, self.patterns, cut) for ask in asks]

    def _faults(self, request: web.Request, model: Model, prompt: Prompt, count: int) -> tuple[Fault, ...]:
        try:
            asked = parse_faults(",".join(request.headers.getall(FAULT_HEADER, [])))
        except UsageError as error:
            raise ApiError(400, str(error), param=FAULT_HEADER) from None
        behaviour = model.behaviour
        if count < len(behaviour.each_prompt):
            asked += parse_faults(behaviour.each_prompt[count])
        u = uniform("fault", behaviour.seed, prompt.hash, count)
        for name, rate in behaviour.fault_rates.items():
            if u < rate:
                asked += parse_faults(name)
                break
            u -= rate
        return asked + self.script.take()

    async def _refused(
        self, request: web.Request, ask: Ask, prompt: Prompt, faults: Sequence[Fault]
    ) -> web.StreamResponse | None:
        for fault in faults:
            match fault.name:
                case "silence-headers":
                    await for_ever()
                case "close" | "reset":
                    drop_connection(request, reset=fault.name == "reset")
                    return web.StreamResponse()
                case "garbage":
                    if request.transport is not None:
                        request.transport.write(b"\x16\x03\x01 phantom: this is not HTTP\r\n\r\n")
                        drop_connection(request, reset=False)
                    return web.StreamResponse()
            if (
                fault.kind.level == "status"
                and (response := refuse(fault, ask, prompt.sent_tokens)) is not None
            ):
                return response
        return None

    def _check(self, ask: Ask, model: Model, prompts: Sequence[Prompt]) -> None:
        behaviour = model.behaviour
        for name in behaviour.refuse_fields:
            if name in ask.fields:
                raise unsupported(name)
        if behaviour.logprobs == "reject" and ask.top is not None:
            raise unsupported("logprobs")
        limit = behaviour.context_limit
        for prompt in prompts:
            wanted = ask.max_tokens or 0
            if prompt.tokens + max(wanted, 0 if ask.max_tokens == 0 else 1) > limit:
                raise context_error(limit, prompt.tokens, wanted)
            if ask.echo and ask.top is not None and prompt.sent_tokens > _MOST_ECHOED:
                raise ApiError(
                    400, f"echo with logprobs takes {_MOST_ECHOED} prompt tokens at most", param="echo"
                )

    @asynccontextmanager
    async def _slot(self, model: Model) -> AsyncIterator[None]:
        if (wait := model.admit()) > 0:
            raise rate_limit(
                {"Retry-After": str(math.ceil(wait)), "retry-after-ms": str(math.ceil(wait * 1e3))}
            )
        full = model.slots is not None and model.slots.locked()
        if full and model.behaviour.over_slots == "429":
            raise rate_limit({})
        async with model.slots or nullcontext():
            model.active += 1
            try:
                yield
            finally:
                model.active -= 1

    async def _answer(
        self,
        request: web.Request,
        dialect: Dialect,
        served: Served,
        arrived: float,
        asks: Sequence[Ask],
        model: Model,
        prompts: Sequence[Prompt],
        faults: Sequence[Fault],
    ) -> web.StreamResponse:
        behaviour = model.behaviour
        ask = asks[0] if behaviour.logprobs == "on" else replace(asks[0], top=None)
        slow = uniform("slow", behaviour.seed, prompts[0].hash, served.count) < behaviour.latency.slow_rate
        choices: list[Choice] = []
        for each, prompt in zip(asks, prompts, strict=True):
            one = replace(each, top=ask.top)
            key = (behaviour.seed, prompt.hash, served.count)
            for choice in compose(one, behaviour, prompt, model.tokenizer, count=served.count, slow=slow):
                spoiled = spoil_choice(choice, faults, model.tokenizer, key)
                choices.append(echoed(spoiled, one, behaviour, model.tokenizer) if one.echo else spoiled)
        usage = _usage(choices, prompts, model)
        reply = Reply(
            id="phantom-" + digest(behaviour.seed, prompts[0].hash, served.number).hex()[:20],
            created=int(time.time()),
            model=behaviour.model,
            fingerprint=model.fingerprint,
            choices=tuple(choices),
            usage=usage,
            show_cost=behaviour.price.report,
        )
        schedule = plan_times(
            behaviour.latency,
            prompt_tokens=usage.prompt,
            cached_tokens=usage.cached,
            tokens=max(1, *(choice.spent for choice in choices))
            if len(choices) > 1
            else max(1, choices[0].spent),
            slow=slow,
            others=model.active - 1,
            key=(behaviour.seed, prompts[0].hash, served.count),
        )
        served.kinds = tuple(choice.kind for choice in choices)
        served.planned_tokens = usage.completion
        served.due_ttft_s = schedule.ttft
        delivery = Delivery(request, self.stats, served, faults, arrived, {"X-Request-Id": reply.id})
        try:
            if ask.stream:
                return await _stream(delivery, dialect, ask, reply, schedule)
            return await _whole(delivery, dialect, ask, reply, schedule)
        finally:
            _settle(served, model, usage)


async def _stream(
    delivery: Delivery, dialect: Dialect, ask: Ask, reply: Reply, schedule: Schedule
) -> web.StreamResponse:
    steps = dialect.steps(ask, reply)
    for step in steps:
        step.due = _due(step, schedule)
    steps, ending = spoil_steps(steps, delivery.faults, ask, reply, dialect)
    response = await delivery.stream(steps, ending, Framing.under(delivery.faults))
    delivery.served.answered = _is_whole(delivery.faults)
    return response


async def _whole(
    delivery: Delivery, dialect: Dialect, ask: Ask, reply: Reply, schedule: Schedule
) -> web.StreamResponse:
    body = dialect.body(ask, reply)
    step = Step("content", body, token=0)
    faults = [fault for fault in delivery.faults if fault.name in WITHOUT_STREAM]
    steps, ending = spoil_steps([step, Step("finish", None)], faults, ask, reply, dialect)
    if delivery.fault("cut") is not None:
        ending = Ending("fin")  # a JSON body that is cut cannot end whole
    if delivery.fault("usage-absent") is not None:
        body.pop("usage", None)
    raw = orjson.dumps(body)
    if (wrong := next((s for s in steps if s.kind in ("error", "raw") and s.token is None), None)) is not None:
        raw = orjson.dumps(wrong.payload) if wrong.payload is not None else (wrong.raw or "").encode()
    response = await delivery.whole(raw, schedule.end, ending, Framing.under(delivery.faults))
    delivery.served.answered = _is_whole(delivery.faults)
    return response


def _due(step: Step, schedule: Schedule) -> float:
    if step.token is None:
        return schedule.end if step.kind in ("usage", "done", "finish") else schedule.ttft
    return schedule.due[min(step.token, len(schedule.due) - 1)]


def _is_whole(faults: Sequence[Fault]) -> bool:
    """Whether what went out was a proper end, to be taken for the outcome that it states."""
    return all(fault.kind.answered for fault in faults)


def _usage(choices: Sequence[Choice], prompts: Sequence[Prompt], model: Model) -> Usage:
    prompt = sum(p.tokens for p in prompts)
    cached = sum(p.cached for p in prompts)
    completion = sum(choice.spent for choice in choices)
    return Usage(
        prompt=prompt,
        completion=completion,
        cached=cached,
        reasoning=sum(len(choice.reasoning) for choice in choices),
        cost=model.behaviour.price.cost(prompt, completion, cached),
    )


def _settle(served: Served, model: Model, usage: Usage) -> None:
    """Charges what was generated and sent, as providers do for streams that broke off."""
    served.cost = model.behaviour.price.cost(usage.prompt, served.sent_tokens, usage.cached)


def _truncated(prompt: Prompt, faults: Sequence[Fault]) -> Prompt:
    for fault in faults:
        if fault.name == "truncate":
            kept = min(prompt.tokens, max(1, int(fault.number)))
            depth = prompt.truth.depth
            lost = depth is not None and depth < 1 - kept / max(1, prompt.sent_tokens)
            return replace(prompt, tokens=kept, cached=min(prompt.cached, kept - 1), lost=lost)
    return prompt


async def _off_loop(
    size: int, work: Callable[[], tuple[list[Ask], Model, list[Prompt]]]
) -> tuple[list[Ask], Model, list[Prompt]]:
    return await asyncio.to_thread(work) if size >= _OFF_THE_LOOP else work()
