"""What an exchange came to: a `Wire` and a `Reading` → an `Attempt` with one outcome and its evidence.

The order of the questions is the point of this file. A cut stream is asked about before its text, truncation
before the finish reason, so that no failure is ever taken for an answer.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Literal

from bunny_probe.endpoints.dialects import ApiError, Reading
from bunny_probe.endpoints.lag import lag_limit_ns
from bunny_probe.endpoints.refusals import (
    outcome_of_error,
    outcome_of_status,
    parse_error,
    retry_after_seconds,
)
from bunny_probe.endpoints.wire import Wire
from bunny_probe.records import Attempt, Outcome, Timing, TokenTrace, Usage

__all__ = ["missing_tokens", "refusal_of", "verdict"]

_LENGTH = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
)
_FILTERS = frozenset({"content_filter", "safety", "recitation", "blocklist", "prohibited_content"})
_KNOWN_ENDS = frozenset(
    {"stop", "end_turn", "stop_sequence", "eos", "eos_token", "tool_calls", "tool_use", "function_call"}
)


def refusal_of(wire: Wire, left_out: tuple[str, ...], timing: Timing) -> tuple[Attempt, ApiError]:
    """The attempt for a response whose status is not 2xx, and the error that it carried."""
    assert wire.status is not None
    error = parse_error(wire.error_body, wire.status)
    if 300 <= wire.status < 400:
        where = wire.headers.get("Location", "nowhere")
        error = ApiError(f"redirected to {where}, where the key is not sent: name that URL as the endpoint")
    attempt = Attempt(
        outcome_of_status(wire.status, error),
        f"status {wire.status}: {error.message}",
        status=wire.status,
        error_code=error.code or error.kind,
        retry_after=retry_after_seconds(wire.headers, timing.started_at + (timing.end or 0) / 1e9),
        timing=timing,
        dropped_fields=left_out,
    )
    return attempt, error


def verdict(
    wire: Wire,
    reading: Reading,
    malformed: str | None,
    *,
    intended_tokens: int | None,
    tolerance: float,
    left_out: tuple[str, ...],
    scheduled: int | None,
    lag_ns: int,
) -> Attempt:
    """The attempt for a 2xx response, or for an exchange that got none."""
    text = mend_surrogates("".join(reading.content))
    outcome, evidence = _outcome(wire, reading, malformed, text, intended_tokens, tolerance)
    error = reading.error
    return Attempt(
        outcome,
        evidence,
        text=text,
        reasoning=mend_surrogates("".join(reading.reasoning)),
        stop_reason=reading.finish,
        status=wire.status,
        error_code=None if error is None else error.code or error.kind,
        timing=timing(wire, reading, scheduled, lag_ns),
        trace=_trace(reading, wire.sent or wire.opened),
        usage=_usage(reading),
        reported_model=reading.model,
        dropped_fields=left_out,
    )


def missing_tokens(intended: int, counted: int, tolerance: float) -> int:
    """Prompt tokens that the server did not count, beyond the tolerated fraction of `intended`; else 0."""
    missing = intended - counted
    return missing if missing > tolerance * intended else 0


def _outcome(
    wire: Wire,
    reading: Reading,
    malformed: str | None,
    text: str,
    intended: int | None,
    tolerance: float,
) -> tuple[Outcome, str]:
    finish = (reading.finish or "").lower()
    ended = bool(finish) or reading.done
    match wire.fault:
        case "connect" | "protocol":
            return Outcome.TRANSPORT, wire.evidence
        case "timeout":
            if not ended:
                return Outcome.TIMEOUT, f"{wire.evidence}, {_progress(reading)}"
        case "cut" | "too_large" if not ended:
            return Outcome.CUT_STREAM, f"{wire.evidence}, {_progress(reading)}"
    if reading.error is not None:
        return outcome_of_error(reading.error), f"error inside the stream: {reading.error.message}"
    if finish in ("error", "abort"):
        return Outcome.STREAM_ERROR, f"finish reason {reading.finish!r}"
    if malformed is not None:
        return Outcome.MALFORMED, malformed
    if not ended:
        if not reading.events and wire.size:
            kind = wire.headers.get("Content-Type", "no content type")
            return Outcome.MALFORMED, f"no event in {wire.size} bytes of {kind}"
        return Outcome.CUT_STREAM, f"the stream ended without a terminal marker, {_progress(reading)}"
    counted = reading.prompt_tokens or None  # no prompt has 0 tokens: a 0 is no count
    if intended is not None and counted is not None:
        missing = missing_tokens(intended, counted, tolerance)
        if missing:
            said = f"{intended} prompt tokens sent, {counted} counted: {missing} missing"
            return Outcome.PROMPT_TRUNCATED, said
    return _end(reading, finish, text)


def _end(reading: Reading, finish: str, text: str) -> tuple[Outcome, str]:
    """The outcome of an answer that came to its proper end, by what the server named as the reason."""
    if finish in _FILTERS:
        return Outcome.CONTENT_FILTER, f"finish reason {reading.finish!r}"
    if finish == "refusal" or (reading.refusal and not text.strip()):
        said = "".join(reading.refusal)[:200]
        return Outcome.REFUSAL, f"refusal: {said}" if said else f"finish reason {reading.finish!r}"
    if finish in _LENGTH:
        spent = ", all of it on reasoning" if reading.reasoning and not text.strip() else ""
        return Outcome.OUTPUT_BUDGET, f"finish reason {reading.finish!r}{spent}"
    if not text.strip():
        return Outcome.EMPTY, "a proper end without content" if not text else "only white space"
    if not finish:
        return Outcome.ANSWERED, "end of stream marked, no finish reason given"
    unknown = "" if finish in _KNOWN_ENDS else ", a reason that this client does not know"
    return Outcome.ANSWERED, f"finish reason {reading.finish!r}{unknown}"


def _progress(reading: Reading) -> str:
    if not reading.events:
        return "no event came"
    return f"{len(reading.content)} pieces of content came"


def timing(wire: Wire, reading: Reading | None, scheduled: int | None, lag_ns: int) -> Timing:
    """All moments relative to `sent`. `scheduled` is absolute, `perf_counter_ns`."""
    zero = wire.sent if wire.sent is not None else wire.opened

    def after(moment: int | None) -> int | None:
        return None if moment is None else moment - zero

    content_at = reading.content_at if reading is not None else []
    end = wire.end - zero
    return Timing(
        started_at=wire.started_at,
        scheduled=after(scheduled),
        connected=after(wire.connected),
        headers=after(wire.headers_at),
        first_byte=after(wire.first_read),
        first_event=after(reading.first_event if reading is not None else None),
        first_reasoning=after(reading.first_reasoning if reading is not None else None),
        first_content=after(content_at[0] if content_at else None),
        last_content=after(content_at[-1] if content_at else None),
        end=end,
        connection_reused=wire.reused,
        client_lag=max(lag_ns, 0),
        valid=lag_ns <= lag_limit_ns(end),
    )


def _trace(reading: Reading, zero: int) -> TokenTrace:
    if reading.token:
        given = any(raw is not None for raw in reading.token_bytes)
        shown = _shown(reading)
        return TokenTrace(
            text=tuple([text if some else "" for text, some in zip(reading.token, shown, strict=True)]),
            logprob=tuple(reading.logprob),
            top=tuple(reading.top) if any(reading.top) else (),
            arrival=tuple([at - zero for at in reading.token_at]),
            bytes_=_raw(reading, shown) if given else (),
            source="logprobs",
        )
    if reading.content:
        return TokenTrace(
            text=tuple(reading.content),
            arrival=tuple([at - zero for at in reading.content_at]),
            source="chunks",
        )
    return TokenTrace()


def _shown(reading: Reading) -> list[bool]:
    """Which tokens the answer shows something of: not the end token, nor what a stop string cut off.

    Some servers give entries for those and some do not, by a name or without bytes. Each is a decision of the
    model and stays in the trace; without text and bytes it is told apart from the tokens of the answer.
    """
    texts = reading.token
    shown = [raw is None or raw != b"" for raw in reading.token_bytes]
    answer, joined = "".join(reading.content), "".join(texts)
    if len(joined) > len(answer) and joined.startswith(answer):
        ends = accumulate(map(len, texts))
        begins = [end - len(text) for text, end in zip(texts, ends, strict=True)]
        shown = [some and at < len(answer) for some, at in zip(shown, begins, strict=True)]
    return shown


def _raw(reading: Reading, shown: list[bool]) -> tuple[bytes, ...]:
    """The raw bytes a token; a token that the server gave none for has its text's."""
    columns = zip(reading.token_bytes, reading.token, shown, strict=True)
    return tuple(
        [
            b"" if not some else text.encode("utf-8", "replace") if raw is None else raw
            for raw, text, some in columns
        ]
    )


def _usage(reading: Reading) -> Usage:
    source: Literal["usage", "logprobs", "chunks", "none"] = "none"
    completion = reading.completion_tokens
    if completion == 0 and reading.content:  # a server that fills in zeros has counted nothing
        completion = None
    if completion is not None:
        source = "usage"
    elif reading.token:
        completion, source = len(reading.token), "logprobs"
    elif reading.content:
        completion, source = len(reading.content), "chunks"
    return Usage(
        prompt_tokens=reading.prompt_tokens or None,
        completion_tokens=completion,
        cached_tokens=reading.cached_tokens,
        reasoning_tokens=reading.reasoning_tokens,
        cost=reading.cost,
        source=source,
    )


def mend_surrogates(text: str) -> str:
    """Joins surrogate pairs that were cut between two events; a lone half becomes U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
