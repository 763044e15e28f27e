"""What the server says of itself: its models, its health, its version, its metrics."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bunny_engine.server.context import Context
from bunny_engine.server.errors import ApiError, json_response, log_fault

__all__ = ["health", "metrics", "model", "models", "version"]


def _model(context: Context, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": context.info.created,
        "owned_by": "bunny_engine",
        "root": context.info.name,
        "max_model_len": context.info.context_length,
    }


async def models(context: Context, request: Request) -> Response:
    return json_response({"object": "list", "data": [_model(context, name) for name in context.names]})


async def model(context: Context, request: Request) -> Response:
    name = request.path_params["name"]
    context.require(name)
    return json_response(_model(context, name))


async def health(context: Context, request: Request) -> Response:
    try:
        context.engine.stats()
    except Exception as fault:
        log_fault(fault)
        raise ApiError(503, "The engine does not answer.", kind="server_error", code="engine_down") from None
    return json_response({"status": "ok", "model": context.info.name})


async def version(context: Context, request: Request) -> Response:
    return json_response({"version": context.version})


async def metrics(context: Context, request: Request) -> Response:
    text = context.metrics.text(context.engine.stats())
    return Response(text, media_type="text/plain; version=0.0.4")
