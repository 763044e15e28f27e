"""Responses that are given instead of an answer: faults of level `status`, and the dialect's own errors."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from time import time
from typing import Any

import orjson
from aiohttp import web

from bunny_probe.phantom.ask import ApiError, Ask
from bunny_probe.phantom.faults import Fault

__all__ = [
    "OPTIONAL_FIELDS",
    "context_error",
    "json_response",
    "no_such_model",
    "rate_limit",
    "refuse",
    "unsupported",
]

OPTIONAL_FIELDS = (
    "stream_options", "logprobs", "top_logprobs", "seed", "top_p", "stop", "n", "frequency_penalty",
    "presence_penalty", "repetition_penalty", "temperature", "max_completion_tokens", "user",
    "stop_sequences", "top_k", "echo",
)  # fmt: skip
"""In the order in which a strict schema complains."""

_HTML = (
    "<!DOCTYPE html>\n<html><head><title>{status}</title></head>"
    "<body><center><h1>{status} {title}</h1></center><hr><center>phantom</center></body></html>\n"
)
_TITLES = {
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Time-out",
}


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(value),
        status=status,
        headers=headers,
        content_type="application/json",
        charset="utf-8",
    )


def context_error(limit: int, prompt: int, completion: int) -> ApiError:
    if completion:
        total = prompt + completion
        asked = f"you requested {total} tokens ({prompt} in the messages, {completion} in the completion)"
    else:
        asked = f"your messages resulted in {prompt} tokens"
    return ApiError(
        400,
        f"This model's maximum context length is {limit} tokens. However, {asked}. "
        "Please reduce the length of the messages or completion.",
        param="messages",
        code="context_length_exceeded",
    )


def unsupported(field: str) -> ApiError:
    message = f"Unsupported parameter: '{field}' is not supported with this model."
    return ApiError(400, message, param=field, code="unsupported_parameter")


def refuse(fault: Fault, ask: Ask, prompt_tokens: int) -> web.Response | None:
    """The response of a status fault that is not an API error; None where the request is to be answered.

    Raises ApiError for those that each dialect writes in its own shape.
    """
    match fault.name:
        case "rate-limit":
            raise rate_limit({"Retry-After": fault.arg} if fault.arg else {})
        case "rate-limit-date":
            raise rate_limit({"Retry-After": formatdate(time() + fault.number, usegmt=True)})
        case "rate-limit-ms":
            raise rate_limit({"retry-after-ms": fault.arg})
        case "server-error":
            raise ApiError(_server_status(fault), "The server had an error.", "server_error", "internal_error")
        case "server-error-html":
            status = _server_status(fault)
            page = _HTML.format(status=status, title=_TITLES.get(status, "Error"))
            return web.Response(text=page, status=status, content_type="text/html")
        case "overloaded":
            raise ApiError(529, "Overloaded", "overloaded_error")
        case "unauthorised":
            raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")
        case "forbidden":
            raise ApiError(403, "You have insufficient permissions for this operation.", code="missing_scope")
        case "not-found":
            raise no_such_model(ask.model)
        case "bad-request":
            raise ApiError(400, "The request could not be understood.")
        case "context":
            raise context_error(max(1, prompt_tokens - 1), prompt_tokens, 0)
        case "filtered-prompt":
            raise ApiError(
                400, "The prompt was filtered by the content policy.", code="content_filter", param="prompt"
            )
        case "strict":
            for name in fault.arg.split("+") if fault.arg else OPTIONAL_FIELDS:
                if name in ask.fields:
                    raise unsupported(name)
        case "redirect":
            return web.Response(status=307, headers={"Location": fault.arg})
        case "error-200":
            return json_response({"error": {"message": "The phantom was asked to fail.", "code": 502}})
        case "wrong-type":
            page = _HTML.format(status=200, title="Welcome")
            return web.Response(text=page, content_type="text/html")
        case "no-body":
            return web.Response(
                status=200, content_type="text/event-stream" if ask.stream else "application/json"
            )
    return None


def no_such_model(model: str) -> ApiError:
    return ApiError(404, f"The model '{model}' does not exist.", param="model", code="model_not_found")


def rate_limit(headers: Mapping[str, str]) -> ApiError:
    return ApiError(429, "Rate limit reached.", "rate_limit_error", "rate_limit_exceeded", headers=headers)


def _server_status(fault: Fault) -> int:
    return min(max(int(fault.number), 500), 599)
