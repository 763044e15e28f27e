"""The outermost layer: a name for each request, the key, the last word on faults, the log line."""

from __future__ import annotations

import hmac
import time
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bunny_engine.server.errors import ApiError, as_api_error, failure
from bunny_engine.server.metrics import Metrics
from bunny_engine.server.trace import Trace

__all__ = ["Gate", "trace_of"]

_OPEN = frozenset({"/health", "/version"})  # a supervisor asks these without a key


def trace_of(scope: Scope) -> Trace:
    found = scope["bunny_engine.trace"]
    assert isinstance(found, Trace)
    return found


class Gate:
    """ASGI middleware. Nothing gets past it without the key, where one is set."""

    def __init__(self, app: ASGIApp, *, api_key: str | None, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics
        self._key = None if api_key is None else api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace = Trace("req-" + uuid4().hex, scope["method"], time.perf_counter())
        scope["bunny_engine.trace"] = trace

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                trace.status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", trace.id.encode())]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, named)
        except ClientDisconnect:
            trace.gone = True
        except Exception as fault:
            error = as_api_error(fault)
            if trace.status:
                trace.fault = error.kind  # too late to tell the client: the answer had begun
            else:
                await failure(error)(scope, receive, named)
        finally:
            trace.log()
            self._metrics.count(trace)

    def _check(self, scope: Scope) -> None:
        if self._key is None or scope["path"] in _OPEN:
            return
        kind, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        # compare_digest takes as long for a near miss as for a far one
        if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._key):
            return
        raise ApiError(
            401,
            "The API key is missing or wrong. Send it as 'Authorization: Bearer <key>'.",
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )
