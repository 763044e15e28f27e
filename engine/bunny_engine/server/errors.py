"""Every refusal, in the one shape that OpenAI's clients read: {"error": {message, type, param, code}}."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import orjson
from starlette.responses import Response

from bunny_engine.types import EngineBusy

__all__ = [
    "ApiError",
    "as_api_error",
    "bad_request",
    "context_exceeded",
    "error_object",
    "failure",
    "json_response",
    "log_fault",
    "model_not_found",
    "unknown_name",
]

_log = logging.getLogger("bunny_engine.server")


class ApiError(Exception):
    """A refusal that the client is told about; `message` names the thing, the value and the way out."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status, self.kind, self.code = status, kind, code
        self.param = None if param is None else cut(param)  # a name that the client made up can be megabytes
        self.message, self.headers = message, dict(headers or {})
        super().__init__(message)


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def cut(name: str, most: int = 120) -> str:
    """A client's own word, short enough to be said back."""
    return name if len(name) <= most else name[: most - 3] + "..."


def unknown_name(what: str, given: str, choices: Iterable[str]) -> str:
    """The sentence for a name that is not among `choices`: the nearest one first, then all."""
    known = sorted(choices)
    near = get_close_matches(given, known, n=1) if len(given) <= 80 else []  # a huge name is slow to compare
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Unknown {what} {cut(given)!r}.{hint} Choices: {', '.join(known) or 'none'}."


def model_not_found(given: str, served: Iterable[str]) -> ApiError:
    message = f"The model {cut(given)!r} does not exist here. This server has: {', '.join(served)}."
    return ApiError(404, message, param="model", code="model_not_found")


def context_exceeded(
    context: int, prompt: int, answer: int | None, param: str, *, at_least: bool = False
) -> ApiError:
    """`answer`: the tokens asked for, or None where the prompt alone is too long. Counts are in tokens."""
    opening = f"This model's maximum context length is {context} tokens."
    if answer is None:
        about = "at least " if at_least else ""
        rest = f"However, your {param} resulted in {about}{prompt} tokens. Please make the {param} shorter."
    else:
        rest = (
            f"However, you requested {prompt + answer} tokens ({prompt} in the {param}, {answer} in the "
            f"completion). Please make the {param} or the completion shorter."
        )
    return bad_request(f"{opening} {rest}", param, "context_length_exceeded")


def error_object(error: ApiError) -> dict[str, dict[str, str | None]]:
    return {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}}


def as_api_error(fault: Exception) -> ApiError:
    """What the client is told. A fault of ours is logged, and told to nobody."""
    if isinstance(fault, ApiError):
        return fault
    if isinstance(fault, EngineBusy):
        seconds = max(1, math.ceil(fault.retry_after))
        return ApiError(
            429,
            f"The engine's queue is full. Try again in {seconds} s.",
            kind="rate_limit_error",
            code="rate_limit_exceeded",
            headers={"retry-after": str(seconds)},
        )
    log_fault(fault)
    return ApiError(500, "The server had a fault while it worked on this request.", kind="server_error")


def log_fault(fault: Exception) -> None:
    """Kind and place alone: an exception's text could hold a prompt."""
    place = fault.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "unknown"
    line = {"event": "fault", "kind": type(fault).__name__, "where": where}
    _log.error("%s", orjson.dumps(line).decode())


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, dict(headers or {}), media_type="application/json")


def failure(fault: Exception) -> Response:
    error = as_api_error(fault)
    return json_response(error_object(error), error.status, error.headers)
