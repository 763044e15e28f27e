"""What an error response means: error objects in their many shapes, and the outcome of a status."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from bunny_probe.endpoints.dialects.base import ApiError
from bunny_probe.records import Outcome

__all__ = [
    "CONTEXT_CODES",
    "error_in",
    "outcome_of_error",
    "outcome_of_status",
    "parse_error",
    "refused_fields",
    "retry_after_seconds",
    "says_context",
]

CONTEXT_CODES = frozenset({"context_length_exceeded", "context_window_exceeded", "string_above_max_length"})


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


_CONTEXT = _any_of(
    r"context[ _-]?(?:length|window|size)",
    r"maximum context|max_model_len",
    r"(?:prompt|input) is too long|prompt too long",
    r"input (?:length|tokens?) (?:and|exceed|should|must)",
    r"too many (?:input )?tokens",
    r"reduce the length of the",
    r"exceeds? (?:the )?(?:maximum|max|available|model'?s?) (?:\w+ ){0,3}(?:tokens?|length|context)",
)
_FILTER = _any_of(r"content[_ ]?(?:filter|policy|management policy)", r"responsible ?ai", r"moderation")
_KEY = _any_of(
    r"(?:api[ _-]?key|credentials?|token).{0,40}(?:invalid|incorrect|not valid|expired|missing)",
    r"(?:invalid|incorrect|missing).{0,20}(?:api[ _-]?key|credentials?)",
)
_MODEL = _any_of(r"\bmodel\b.{0,80}(?:not found|does not exist|unknown|not available)")
_UNWANTED = _any_of(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|extra|invalid|forbidden",
    r"not (?:yet |currently )?(?:be )?(?:permitted|supported|allowed|available|enabled|implemented)",
    r"(?:does|do)(?: not|n't) support",
    r"(?:must|should) be|only|cannot|can't",
)


def parse_error(body: bytes, status: int | None = None) -> ApiError:
    """The error in a response body. Never raises: what is not an error object becomes its own message."""
    try:
        value = orjson.loads(body)
    except ValueError:
        text = re.sub(r"<[^>]*>|\s+", " ", body[:2000].decode("utf-8", "replace")).strip()
        return ApiError(text[:300] or f"no body with status {status}")
    if isinstance(value, list) and value:  # Google wraps its error into a list
        value = value[0]
    return (isinstance(value, Mapping) and error_in(value)) or ApiError(str(value)[:300])


def error_in(value: Mapping[str, Any]) -> ApiError | None:
    """The error object in a decoded body or event, or None when it holds none."""
    error = value.get("error")
    if isinstance(error, str) and error:
        return ApiError(error, code=_text(value.get("code")), kind=_text(value.get("type")))
    if isinstance(error, Mapping):
        message = error.get("message") or error.get("msg") or error.get("detail") or "no message"
        return ApiError(
            str(message),
            _text(error.get("code")),
            _text(error.get("type") or error.get("status")),
            _text(error.get("param")),
        )
    if (detail := value.get("detail")) is not None:  # FastAPI
        if isinstance(detail, list) and detail and isinstance(detail[0], Mapping):
            where = detail[0].get("loc") or ()
            return ApiError(str(detail[0].get("msg")), param=_text(where[-1]) if where else None)
        return ApiError(str(detail))
    if value.get("object") == "error" or (isinstance(value.get("message"), str) and "choices" not in value):
        return ApiError(
            str(value.get("message")),
            _text(value.get("code")),
            _text(value.get("type")),
            _text(value.get("param")),
        )
    return None


def outcome_of_status(status: int, error: ApiError) -> Outcome:
    """The outcome that an HTTP error status stands for, given what its body said."""
    if status == 413 or (status in (400, 422) and says_context(error)):
        return Outcome.CONTEXT_REFUSED
    if status in (400, 403, 422) and _says(_FILTER, error):
        return Outcome.CONTENT_FILTER
    if status in (401, 402, 403, 407) or (
        status == 400 and (_says(_KEY, error) or error.code == "invalid_api_key")
    ):
        return Outcome.UNAUTHORISED
    if status in (404, 405, 410) or error.code == "model_not_found" or (status == 400 and _says(_MODEL, error)):
        return Outcome.NOT_FOUND
    if status == 429:
        return Outcome.RATE_LIMITED
    if status in (408, 504, 524):
        return Outcome.TIMEOUT
    if status >= 500 or status in (409, 425, 499):
        return Outcome.CONTEXT_REFUSED if error.code in CONTEXT_CODES else Outcome.SERVER_ERROR
    return Outcome.BAD_REQUEST


def outcome_of_error(error: ApiError) -> Outcome:
    """The outcome of an error object inside a 200 response."""
    return Outcome.CONTEXT_REFUSED if says_context(error) else Outcome.STREAM_ERROR


def says_context(error: ApiError) -> bool:
    """Whether the error says that the prompt does not fit. A limit on *output* tokens alone is not that."""
    if error.code in CONTEXT_CODES:
        return True
    if error.param in ("max_tokens", "max_completion_tokens") and "context" not in error.message.lower():
        return False
    return bool(_CONTEXT.search(error.message))


def refused_fields(error: ApiError, sent: Mapping[str, Any], optional: Collection[str]) -> tuple[str, ...]:
    """Which optional fields of the `sent` body the error says are not wanted; () when none."""
    candidates = [name for name in optional if name in sent]
    param = re.split(r"[.\[]", error.param or "")[0]
    if param in candidates:
        named = [param]
    else:
        quoted = set(re.findall(r"[`'\"]([a-z_]+)[`'\".\[]", error.message))
        named = [name for name in candidates if name in quoted]
        if not named and _UNWANTED.search(error.message):
            # Longest first, and each name as a word of its own: `top_logprobs` does not name `logprobs`.
            named = [
                name
                for name in candidates
                if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", error.message)
            ]
    if "logprobs" in named and "top_logprobs" in sent and "top_logprobs" not in named:
        named.append("top_logprobs")
    return tuple(sorted(named))


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `Retry-After` (seconds or an HTTP date) or `retry-after-ms`; None when not said.

    `now` is the wall clock in seconds since the epoch.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After")
    if value is None:
        return None
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _says(pattern: re.Pattern[str], error: ApiError) -> bool:
    return bool(pattern.search(error.code or "") or pattern.search(error.message))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
