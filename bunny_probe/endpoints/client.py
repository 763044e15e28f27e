"""An open endpoint: one aiohttp session for what is timed, one httpx client for what is not.

async with open_endpoint(spec) as endpoint:
    await endpoint.check()
    attempt = await endpoint.attempt(messages, decoding, intended_tokens=2048)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import orjson

from bunny_probe.endpoints.auth import credentials
from bunny_probe.endpoints.dialects import Request, dialect
from bunny_probe.endpoints.lag import LagMeter
from bunny_probe.endpoints.proxies import proxy_for
from bunny_probe.endpoints.reading import StreamReader
from bunny_probe.endpoints.refusals import refused_fields
from bunny_probe.endpoints.secrets import Redactor
from bunny_probe.endpoints.spec import EndpointSpec
from bunny_probe.endpoints.verdict import refusal_of, timing, verdict
from bunny_probe.endpoints.wire import exchange, open_session
from bunny_probe.records import Attempt, Decoding, Message, Outcome, TokenTrace

if TYPE_CHECKING:
    import httpx

__all__ = ["Endpoint", "Exchanged", "open_endpoint", "until_taken"]


class Exchanged(NamedTuple):
    """One exchange. `refused`: optional fields that the endpoint would not take; without them it may answer."""

    attempt: Attempt
    refused: tuple[str, ...] = ()


async def until_taken(exchange: Callable[[], Awaitable[Exchanged]]) -> Attempt:
    """Exchange until no optional field is refused any more: each time without those refused before."""
    while (exchanged := await exchange()).refused:
        pass
    return exchanged.attempt


class Endpoint:
    """An endpoint that can be asked. Made by `open_endpoint`; belongs to the loop that opened it."""

    def __init__(
        self, spec: EndpointSpec, session: aiohttp.ClientSession, headers: dict[str, str], redact: Redactor
    ) -> None:
        self.spec = spec
        self.redact = redact
        self.dialect = dialect(spec.dialect)
        self.dropped: set[str] = set()  # optional fields that the endpoint has refused
        self._session = session
        self._headers = headers
        self._proxy = proxy_for(spec.url, spec.proxy)
        self._operation = spec.join(self.dialect.path)
        self._turn = asyncio.Lock()
        self._lag = LagMeter(asyncio.get_running_loop())
        self._http: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<Endpoint {self.spec.name} ({self.spec.dialect})>"

    @property
    def fingerprint(self) -> str:
        return self.spec.fingerprint

    @property
    def name(self) -> str:
        return self.spec.name

    def auth_headers(self) -> dict[str, str]:
        """The headers that carry the credentials, for another client of the same server. Not to be kept."""
        return dict(self._headers)

    @property
    def http(self) -> httpx.AsyncClient:
        """For everything that is not timed: models, tokenise. Sends the credentials, follows no redirect."""
        if self._http is None:
            import httpx

            limits = self.spec.timeouts
            self._http = httpx.AsyncClient(
                headers=self._headers,
                proxy=self._proxy,
                trust_env=False,
                timeout=httpx.Timeout(min(60.0, limits.first_byte), connect=limits.connect),
            )
        return self._http

    async def models(self) -> list[str]:
        """Names that the server lists. Raises EndpointError; a server without a list gives ProtocolError."""
        from bunny_probe.endpoints.preflight import list_models

        return await list_models(self)

    async def check(self) -> None:
        """One cheap look: reachable, key accepted, model served.

        Raises:
            EndpointUnreachable, Unauthorised, ModelNotFound, ProtocolError: with one line that says what to do.
        """
        from bunny_probe.endpoints.preflight import check

        await check(self)

    async def attempt(
        self,
        messages: Sequence[Message],
        decoding: Decoding,
        intended_tokens: int | None = None,
        scheduled_ns: int | None = None,
        *,
        tolerance: float = 0.0,
    ) -> Attempt:
        """Ask once; ask again only where the endpoint refused an optional field, without that field.

        `intended_tokens`: what the server should count; fewer, beyond the fraction `tolerance`, is silent
        truncation. `scheduled_ns`: when an open-loop schedule wanted it sent, in `perf_counter_ns`.
        Never raises for what the endpoint does: that is the attempt's outcome.
        """
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
        """Exactly one HTTP exchange; see `attempt`. For callers that count or limit exchanges."""
        request, body = self._request(messages, decoding)
        encoded = _encode(body)
        reader = StreamReader(self.dialect)
        # One request a turn of the loop: sixty made in one turn would hold up every stream that runs.
        async with self._turn:
            await asyncio.sleep(0)
        with self._lag.watch() as lag:
            wire = await exchange(
                self._session,
                self._operation,
                encoded,
                self._headers,
                timeouts=self.spec.timeouts,
                max_bytes=self.spec.max_response_bytes,
                proxy=self._proxy,
                take=reader.take,
            )
        reading = reader.finish()
        if wire.status is not None and not 200 <= wire.status < 300 and wire.fault is None:
            attempt, error = refusal_of(wire, request.left_out, timing(wire, None, scheduled_ns, lag.worst))
            refused: tuple[str, ...] = ()
            if wire.status in (400, 422) and attempt.outcome is Outcome.BAD_REQUEST:
                refused = refused_fields(error, body, self.dialect.optional - self.spec.options.keys())
                self.dropped.update(refused)
            return Exchanged(self._clean(attempt), refused)
        attempt = verdict(
            wire,
            reading,
            reader.malformed,
            intended_tokens=intended_tokens,
            tolerance=tolerance,
            left_out=request.left_out,
            scheduled=scheduled_ns,
            lag_ns=lag.worst,
        )
        return Exchanged(self._clean(attempt))

    def _request(self, messages: Sequence[Message], decoding: Decoding) -> tuple[Request, dict[str, Any]]:
        """What is asked, and the whole body of it."""
        more, thoughts = self.spec.options, self.spec.reasoning_tokens
        if thoughts:
            decoding = replace(decoding, max_tokens=decoding.max_tokens + thoughts)
            more = {**self.dialect.reasoning(thoughts), **more}
        request = self.dialect.request(self.spec.model, messages, decoding, frozenset(self.dropped))
        return request, {**request.body, **more} if more else request.body

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    def _clean(self, attempt: Attempt) -> Attempt:
        """The attempt without our credentials, wherever a server may have put them."""
        known, trace = self.redact.known, attempt.trace
        if self.redact.holds_any and len(trace.text):
            told = (
                attempt.text,
                attempt.reasoning,
                "".join(trace.text),
                *(t for top in trace.top for t, _ in top),
            )
            raw = b"".join(trace.bytes_).decode("utf-8", "replace")
            if self.redact.holds_secret("\n".join((*told, raw))):
                trace = TokenTrace()
        return replace(
            attempt,
            evidence=self.redact(attempt.evidence)[:500],
            text=known(attempt.text),
            reasoning=known(attempt.reasoning),
            stop_reason=None if attempt.stop_reason is None else self.redact(attempt.stop_reason),
            error_code=None if attempt.error_code is None else self.redact(attempt.error_code),
            reported_model=None if attempt.reported_model is None else self.redact(attempt.reported_model),
            trace=trace,
        )


@asynccontextmanager
async def open_endpoint(spec: EndpointSpec) -> AsyncIterator[Endpoint]:
    """Open `spec` on the running loop; the key is read from the environment here and nowhere else.

    Raises:
        UsageError: the key's variable is unset or empty, or the key would travel in the clear to a public host.
    """
    own, secrets = credentials(spec)
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
        "User-Agent": f"space-bunny/{_version()}",
        **own,
    }
    async with open_session() as session:
        endpoint = Endpoint(spec, session, headers, Redactor(secrets))
        try:
            yield endpoint
        finally:
            await endpoint.aclose()


def _encode(body: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # half a surrogate pair, which some edge inputs are about: escaped, it can travel
        return json.dumps(body).encode("ascii")


def _version() -> str:
    try:
        return version("space-bunny")
    except PackageNotFoundError:
        return "0"
