"""One HTTP exchange as the socket saw it: every read stamped before anything looks into it.

Nothing here knows JSON or events. The stamps are `perf_counter_ns`; what they mean is `timing`'s business.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Literal

import aiohttp

from bunny_probe.endpoints.spec import Timeouts
from bunny_probe.endpoints.tapped import Tap, tap

__all__ = ["Wire", "exchange", "open_session"]

Fault = Literal["connect", "cut", "timeout", "too_large", "protocol"]
Take = Callable[[list[tuple[int, bytes]]], None]

# Reads held back before they are parsed although the stream still runs; bounds memory on endless answers.
_HOLD_BYTES = 256 * 1024
_ERROR_BYTES = 64 * 1024
_LARGE_BODY = 512 * 1024


@dataclass(slots=True)
class Wire:
    """What one exchange was. All moments are `perf_counter_ns`, None when not seen."""

    opened: int  # the request was handed to the HTTP client
    sent: int | None = None  # its first bytes were handed to the socket
    started_at: float = 0.0  # wall clock at `sent`, or at `opened` when nothing was sent
    connected: int | None = None
    reused: bool | None = None
    headers_at: int | None = None
    first_read: int | None = None
    last_read: int | None = None
    end: int = 0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    tap: Tap | None = None  # what reads the body, while it does
    error_body: bytes = b""  # of a response whose status is not 2xx
    fault: Fault | None = None
    evidence: str = ""  # what the fault was; not yet redacted


def open_session() -> aiohttp.ClientSession:
    """A session without cookies, pool limits or timeouts; it tells each `Wire` of its connection."""
    return aiohttp.ClientSession(
        connector=_Connector(limit=0, ttl_dns_cache=300),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


_asking: ContextVar[Wire] = ContextVar("wire")  # of the task that asks


class _Connector(aiohttp.TCPConnector):
    """Notes when a request got its connection. aiohttp's own tracing tells that too, and costs a tenth of all
    that a short answer costs."""

    async def connect(self, *args: Any, **more: Any) -> Any:
        wire = _asking.get()
        wire.reused = True
        connection = await super().connect(*args, **more)
        # The request is written when this task has gone on and the loop gets to the writer; right before, this
        # is called. Where many requests are made in one turn, that is milliseconds from now.
        asyncio.get_running_loop().call_soon(_stamp_sent, wire)
        return connection

    async def _create_connection(self, *args: Any, **more: Any) -> Any:
        wire = _asking.get()
        wire.reused = False
        protocol = await super()._create_connection(*args, **more)
        wire.connected = perf_counter_ns()
        return protocol


def _stamp_sent(wire: Wire) -> None:
    wire.sent, wire.started_at = perf_counter_ns(), time.time()


async def exchange(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeouts: Timeouts,
    max_bytes: int,
    proxy: str | None,
    take: Take,
) -> Wire:
    """POST `body` and read the answer. Whatever goes wrong is in the returned `Wire`; only cancellation raises.

    `take` gets stamped reads of a 2xx answer: all at once when it is over, or in parts when it is long.
    """
    wire = Wire(perf_counter_ns(), started_at=time.time())
    _asking.set(wire)
    deadline: _Deadline | None = None
    try:
        async with asyncio.timeout(None) as scope:
            deadline = _Deadline(wire, timeouts, scope)
            await _read(session, url, body, headers, wire, max_bytes, proxy, take)
    except TimeoutError:
        assert deadline is not None
        wire.fault, wire.evidence = "timeout", deadline.passed or "timed out"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        wire.fault, wire.evidence = _fault(error, wire)
    finally:
        if deadline is not None:
            deadline.stop()
    # The last byte ends an answer that is whole, not the client's own work behind it.
    wire.end = perf_counter_ns() if wire.fault or wire.last_read is None else wire.last_read
    return wire


async def _read(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    wire: Wire,
    max_bytes: int,
    proxy: str | None,
    take: Take,
) -> None:
    # A large body goes out in pieces, so that it does not hold up the streams that are being timed.
    data: Any = io.BytesIO(body) if len(body) > _LARGE_BODY else body
    async with session.post(url, data=data, headers=headers, proxy=proxy, allow_redirects=False) as response:
        wire.headers_at = perf_counter_ns()
        wire.status, wire.headers = response.status, response.headers
        if not 200 <= response.status < 300:
            async for chunk in response.content.iter_any():
                wire.error_body += chunk
                if len(wire.error_body) > _ERROR_BYTES:
                    break
            return
        wire.tap = tap(response, min(_HOLD_BYTES, max_bytes))
        if wire.tap is None:
            await _read_plainly(response, wire, max_bytes, take)
            return
        try:
            while await wire.tap.more():
                _hand_over(wire, wire.tap.take(), take)
                if wire.size > max_bytes:
                    _too_large(response, wire)
                    break
        finally:
            # Also when the stream broke: what came before it is evidence.
            wire.tap.close()
            _hand_over(wire, wire.tap.take(), take)
            wire.tap = None


async def _read_plainly(response: aiohttp.ClientResponse, wire: Wire, max_bytes: int, take: Take) -> None:
    async for chunk in response.content.iter_any():
        _hand_over(wire, [(perf_counter_ns(), chunk)], take)
        if wire.size > max_bytes:
            _too_large(response, wire)
            return


def _hand_over(wire: Wire, reads: list[tuple[int, bytes]], take: Take) -> None:
    """Give what has gathered to the parser."""
    if reads:
        wire.first_read = wire.first_read or reads[0][0]
        wire.last_read = reads[-1][0]
        wire.size += sum([len(data) for _, data in reads])
        take(reads)


def _too_large(response: aiohttp.ClientResponse, wire: Wire) -> None:
    wire.fault, wire.evidence = "too_large", f"cut by the client after {wire.size} bytes"
    response.close()


class _Deadline:
    """Ends an exchange by whichever limit passes first. One timer, re-armed lazily: no cost a read."""

    def __init__(self, wire: Wire, timeouts: Timeouts, scope: asyncio.Timeout) -> None:
        self._wire, self._timeouts, self._scope = wire, timeouts, scope
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self.passed: str | None = None  # which limit it was
        self._check()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _check(self) -> None:
        wire, limits = self._wire, self._timeouts
        if wire.tap is not None:
            wire.tap.look()  # what breaks the rules of HTTP is told before its silence is
        last_read = wire.last_read if wire.tap is None else wire.tap.last_read
        if wire.sent is None:
            since, limit, name = wire.opened, limits.connect, "no connection"
        elif last_read is None:
            since, limit, name = wire.sent, limits.first_byte, "no first byte"
        else:
            since, limit, name = last_read, limits.idle, "no further byte"
        due, name = since + int(limit * 1e9), f"{name} within {limit:g} s"
        if (whole := wire.opened + int(limits.total * 1e9)) < due:
            due, name = whole, f"not over within {limits.total:g} s"
        left = due - perf_counter_ns()
        if left <= 0:
            self.passed, self._handle = name, None
            self._scope.reschedule(self._loop.time())
        else:
            # A limit that starts to count before this timer fires may pass earlier: look often.
            self._handle = self._loop.call_later(min(left / 1e9, self._shortest), self._check)

    @property
    def _shortest(self) -> float:
        limits = self._timeouts
        return min(limits.connect, limits.first_byte, limits.idle, limits.total) / 4


def _fault(error: Exception, wire: Wire) -> tuple[Fault, str]:
    """What broke an exchange, in a line that a person can act on."""
    said = str(error) or type(error).__name__
    if wire.headers_at is not None:
        return "cut", f"the connection broke after {wire.size} bytes: {said}"
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return "connect", f"TLS failed: {said}"
        case aiohttp.ClientProxyConnectionError():
            return "connect", f"the proxy does not answer: {said}"
        case aiohttp.ClientHttpProxyError():
            return "connect", f"the proxy refused: {error.status} {error.message}"
        case aiohttp.ClientConnectorDNSError():
            return "connect", f"the host name is not known: {said}"
        case aiohttp.ClientConnectorError():
            return "connect", f"no connection: {error.strerror or said}"
        case aiohttp.ServerDisconnectedError():
            return "connect", "the server closed the connection without an answer"
        case aiohttp.ClientResponseError():
            return "protocol", f"the answer is not HTTP: {error.message}"
        case _:
            return "connect", f"the connection broke before an answer: {said}"
