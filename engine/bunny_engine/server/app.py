"""The app: which path is answered by which function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bunny_engine.server import about, completions, score, tokens
from bunny_engine.server.context import Context
from bunny_engine.server.errors import ApiError, failure
from bunny_engine.server.gate import Gate, trace_of
from bunny_engine.server.metrics import Metrics
from bunny_engine.server.settings import Settings
from bunny_engine.types import Engine, Tokenizer

__all__ = ["create_app"]

Handler = Callable[[Context, Request], Awaitable[Response]]

_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/v1/models", about.models),
    ("GET", "/v1/models/{name:path}", about.model),
    ("POST", "/v1/chat/completions", completions.chat),
    ("POST", "/v1/completions", completions.completion),
    ("POST", "/v1/score", score.score),
    ("POST", "/tokenize", tokens.tokenize),
    ("POST", "/v1/tokenize", tokens.tokenize),
    ("POST", "/detokenize", tokens.detokenize),
    ("POST", "/v1/detokenize", tokens.detokenize),
    ("GET", "/health", about.health),
    ("GET", "/version", about.version),
    ("GET", "/metrics", about.metrics),
)


def create_app(engine: Engine, tokenizer: Tokenizer, settings: Settings | None = None) -> Starlette:
    """The OpenAI-compatible app. The caller owns the engine, and closes it once the server has ended."""
    settings = settings or Settings()
    context = Context(engine, tokenizer, settings, Metrics())
    app = Starlette(
        routes=[
            Route(path, _endpoint(context, path, handler), methods=[method])
            for method, path, handler in _ROUTES
        ],
        middleware=[Middleware(Gate, api_key=settings.api_key, metrics=context.metrics)],
        exception_handlers={HTTPException: _http_error},
    )
    app.router.redirect_slashes = False  # a redirected POST loses its body in some clients
    return app


def _endpoint(context: Context, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        trace_of(request.scope).route = path
        return await handler(context, request)

    return endpoint


async def _http_error(request: Request, fault: Exception) -> Response:
    """404 and 405 as Starlette finds them, in OpenAI's shape."""
    assert isinstance(fault, HTTPException)
    method, path = request.method, request.scope["path"][:200]  # not request.url: a mad Host header has none
    if fault.status_code == 405:
        message = f"{method} is not allowed on {path}."
    else:
        served = ", ".join(path for _, path, _ in _ROUTES)
        message = f"Nothing is served at {method} {path}. This server has: {served}."
    return failure(
        ApiError(
            fault.status_code,
            message,
            code="not_found" if fault.status_code == 404 else None,
            headers=fault.headers,
        )
    )
