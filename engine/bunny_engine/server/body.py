"""From bytes on the wire to a JSON object, with every way that can go wrong told as a 4xx."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request

from bunny_engine.server.errors import ApiError, bad_request

__all__ = ["read_object"]


async def read_object(request: Request, most: int) -> dict[str, Any]:
    """The body as a JSON object of at most `most` bytes. Raises ApiError 400, 413 or 415."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "Compressed request bodies are not supported: send the JSON as it is.")
    too_large = ApiError(413, f"The request body is larger than {most} bytes.", code="request_too_large")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise too_large
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > most:
            raise too_large
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as fault:
        raise bad_request(
            f"The body is not valid JSON: {fault.msg} (line {fault.lineno}, column {fault.colno})."
        ) from None
    if not isinstance(body, dict):
        raise bad_request(f"The body must be a JSON object, not {type(body).__name__}.")
    return body
