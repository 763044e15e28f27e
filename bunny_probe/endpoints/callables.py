"""Other clients as endpoints: an `openai.AsyncOpenAI`, or any async callable that answers messages.

Their times are read behind the client and not off the socket, so each carries `includes_sdk`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from bunny_probe.endpoints.client import Exchanged, until_taken
from bunny_probe.endpoints.dialects import ApiError, Reading
from bunny_probe.endpoints.dialects.openai_chat import OpenAIChat
from bunny_probe.endpoints.lag import LagMeter
from bunny_probe.endpoints.refusals import error_in, outcome_of_status, refused_fields, retry_after_seconds
from bunny_probe.endpoints.secrets import Redactor, Secret
from bunny_probe.endpoints.spec import EndpointSpec
from bunny_probe.endpoints.verdict import verdict
from bunny_probe.endpoints.wire import Wire
from bunny_probe.records import Attempt, Decoding, Message, Outcome

if TYPE_CHECKING:
    import openai

__all__ = ["Answer", "CallableEndpoint", "from_callable", "from_openai"]

Answer = Callable[[list[dict[str, str]], Decoding], "Awaitable[str] | AsyncIterator[str]"]
"""Messages (role, content) and the decoding → the text, or its pieces as they come."""

_Events = AsyncIterator[dict[str, Any]]


def from_callable(answer: Answer, model: str, *, place: str | None = None) -> CallableEndpoint:
    """An async callable as an endpoint. `place` names it, in the identity of its observations too.

    Its proper end is its return; an exception is an attempt that failed. Cancelling is passed on to it.
    """
    name = place or f"callable {getattr(answer, '__qualname__', type(answer).__name__)}"

    async def events(messages: Sequence[Message], decoding: Decoding, _dropped: Collection[str]) -> _Events:
        result = answer([{"role": m.role, "content": m.content} for m in messages], decoding)
        if isinstance(result, AsyncIterator):
            async for piece in result:
                yield {"choices": [{"delta": {"content": piece}}]}
        else:
            yield {"choices": [{"delta": {"content": await result}}]}
        yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}

    return CallableEndpoint(EndpointSpec("http://localhost/v1", model, place=name), events)


def from_openai(client: openai.AsyncOpenAI, model: str) -> CallableEndpoint:
    """An OpenAI SDK client as an endpoint, with what it was configured to do. Its own retries are switched off:
    every attempt is to be seen."""
    dialect = OpenAIChat()
    once: Any = client.with_options(max_retries=0)

    async def events(messages: Sequence[Message], decoding: Decoding, dropped: Collection[str]) -> _Events:
        body = dialect.request(model, messages, decoding, dropped).body
        extra = {name: body.pop(name) for name in ("repetition_penalty",) if name in body}
        async for chunk in await once.chat.completions.create(**body, extra_body=extra or None):
            yield chunk.model_dump(exclude_none=True)

    return CallableEndpoint(EndpointSpec(str(client.base_url), model), events, dialect, client.api_key)


class CallableEndpoint:
    """What a run needs of an endpoint, over somebody else's client."""

    def __init__(
        self,
        spec: EndpointSpec,
        events: Callable[[Sequence[Message], Decoding, Collection[str]], _Events],
        dialect: OpenAIChat | None = None,
        key: str | None = None,
    ) -> None:
        self.spec = spec
        self.redact = Redactor([Secret(key)] if key else [])
        self.dropped: set[str] = set()
        self._events = events
        self._dialect = dialect  # None: the fields of the request are not ours to drop
        self._meter: LagMeter | None = None

    async def attempt(
        self,
        messages: Sequence[Message],
        decoding: Decoding,
        intended_tokens: int | None = None,
        scheduled_ns: int | None = None,
        *,
        tolerance: float = 0.0,
    ) -> Attempt:
        """As `Endpoint.attempt`."""
        return await until_taken(
            lambda: self.exchange(messages, decoding, intended_tokens, scheduled_ns, tolerance=tolerance)
        )

    async def exchange(
        self,
        messages: Sequence[Message],
        decoding: Decoding,
        intended_tokens: int | None = None,
        scheduled_ns: int | None = None,
        *,
        tolerance: float = 0.0,
    ) -> Exchanged:
        """As `Endpoint.exchange`."""
        self._meter = self._meter or LagMeter(asyncio.get_running_loop())
        sent = OpenAIChat().request(self.spec.model, messages, decoding, frozenset(self.dropped))
        with self._meter.watch() as lag:
            wire, reading, failure = await self._ask(messages, decoding)
        attempt = verdict(
            wire,
            reading,
            None,
            intended_tokens=intended_tokens,
            tolerance=tolerance,
            left_out=() if self._dialect is None else sent.left_out,
            scheduled=scheduled_ns,
            lag_ns=lag.worst,
        )
        refused: tuple[str, ...] = ()
        if failure is not None and wire.fault == "cut":
            attempt, error = _refusal(attempt, failure)
            if self._dialect is not None and attempt.outcome is Outcome.BAD_REQUEST:
                refused = refused_fields(error, sent.body, self._dialect.optional)
                self.dropped.update(refused)
        timing = None if attempt.timing is None else replace(attempt.timing, includes_sdk=True)
        evidence = self.redact(attempt.evidence)[:500]
        return Exchanged(replace(attempt, evidence=evidence, timing=timing), refused)

    async def _ask(
        self, messages: Sequence[Message], decoding: Decoding
    ) -> tuple[Wire, Reading, Exception | None]:
        now = perf_counter_ns()
        wire, reading = Wire(now, sent=now, started_at=time.time(), status=200), Reading()
        fold = OpenAIChat().fold
        failure: Exception | None = None
        try:
            async with asyncio.timeout(self.spec.timeouts.total):
                async for event in self._events(messages, decoding, frozenset(self.dropped)):
                    at = perf_counter_ns()
                    wire.first_read = wire.first_read or at
                    reading.first_event = reading.first_event or at
                    reading.events += 1
                    fold(reading, at, b"", event)
        except TimeoutError as error:
            failure = error
            wire.fault, wire.evidence = "timeout", f"not over within {self.spec.timeouts.total:g} s"
        except Exception as error:
            failure = error
            wire.fault, wire.evidence = "cut", f"{type(error).__name__}: {error}"
        wire.end = perf_counter_ns()
        return wire, reading, failure


def _refusal(attempt: Attempt, failure: Exception) -> tuple[Attempt, ApiError]:
    """What a client's exception stands for: it carries a status, or it never reached the server."""
    status, body = getattr(failure, "status_code", None), getattr(failure, "body", None)
    error = ApiError(str(failure))
    if isinstance(body, dict):
        error = error_in(body) or error_in({"error": body}) or error
    if isinstance(status, int):
        headers = getattr(getattr(failure, "response", None), "headers", {})
        refusal = replace(
            attempt,
            outcome=outcome_of_status(status, error),
            evidence=f"status {status}: {error.message}",
            status=status,
            error_code=error.code or error.kind,
            retry_after=retry_after_seconds(headers, time.time()),
        )
        return refusal, error
    if attempt.text or attempt.reasoning:
        return attempt, error  # broken off in the middle, which `verdict` has called by its name
    outcome = Outcome.TIMEOUT if "timeout" in type(failure).__name__.lower() else Outcome.TRANSPORT
    return replace(attempt, outcome=outcome, status=None), error
