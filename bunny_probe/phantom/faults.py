"""The faults a phantom can show, what each does on the wire, and what an honest client must call it.

A fault is asked for with the header `X-Phantom-Fault: name` or `name:argument`, several of them separated by
commas; or by a script, or by rates (see `Behaviour`). `outcome` is the truth that a client is checked against,
in the words of the project's taxonomy; None: the answer is whole, and is to be taken for what it would be
without the fault. Answers that are not streamed show the faults that mean something for them, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bunny_probe.errors import UsageError, unknown_choice

__all__ = ["FAULTS", "Fault", "FaultKind", "parse_faults"]

Level: TypeAlias = Literal["status", "reply", "stream", "framing", "timing", "connection"]


@dataclass(frozen=True, slots=True)
class FaultKind:
    level: Level  # where it acts
    outcome: str | None  # what the attempt is to be called
    summary: str  # what it does; `ARG` stands for the argument
    default: str = ""  # the argument when none is given
    answered: bool = False  # whether the whole answer still goes out


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    arg: str

    @property
    def kind(self) -> FaultKind:
        return FAULTS[self.name]

    @property
    def number(self) -> float:
        """The argument as a number. Raises UsageError."""
        try:
            return float(self.arg)
        except ValueError:
            raise UsageError(f"fault {self.name}: {self.arg!r} is not a number") from None


def _whole(level: Level, summary: str, default: str = "") -> FaultKind:
    return FaultKind(level, None, summary, default, answered=True)


FAULTS: Mapping[str, FaultKind] = {
    # refused before any answer
    "rate-limit": FaultKind("status", "rate_limited", "429; Retry-After: ARG seconds, none when empty"),
    "rate-limit-date": FaultKind("status", "rate_limited", "429; Retry-After: the date ARG seconds ahead", "2"),
    "rate-limit-ms": FaultKind("status", "rate_limited", "429; retry-after-ms: ARG", "1500"),
    "server-error": FaultKind("status", "server_error", "status ARG with a JSON error", "500"),
    "server-error-html": FaultKind("status", "server_error", "status ARG with an HTML page", "502"),
    "overloaded": FaultKind("status", "server_error", "529, as Anthropic's overloaded_error"),
    "unauthorised": FaultKind("status", "unauthorised", "401, invalid key"),
    "forbidden": FaultKind("status", "unauthorised", "403, key without scope"),
    "not-found": FaultKind("status", "not_found", "404, no such model"),
    "bad-request": FaultKind("status", "bad_request", "400, names no field"),
    "context": FaultKind("status", "context_refused", "400 context_length_exceeded"),
    "filtered-prompt": FaultKind("status", "content_filter", "400, code content_filter, as Azure does"),
    "strict": FaultKind("status", "bad_request", "400 naming the first optional field sent, of ARG: a+b"),
    "redirect": FaultKind("status", "bad_request", "307 to ARG", "http://phantom.invalid/v1/chat/completions"),
    "error-200": FaultKind("status", "stream_error", "200 with an error object for a body"),
    "wrong-type": FaultKind("status", "malformed", "200 with an HTML page"),
    "no-body": FaultKind("status", "cut_stream", "200 with no body at all"),
    # the answer itself is another one
    "empty": FaultKind("reply", "empty", "a proper end without content"),
    "null-content": FaultKind("reply", "empty", "reasoning alone, content null, finish stop"),
    "reasoning-only": FaultKind("reply", "output_budget", "reasoning alone, content null, finish length"),
    "length": FaultKind("reply", "output_budget", "cut after ARG tokens, finish reason length", "2"),
    "refusal": FaultKind("reply", "refusal", "the API's own refusal marker"),
    "content-filter": FaultKind("reply", "content_filter", "finish content_filter after ARG tokens", "1"),
    "truncate": FaultKind("reply", "prompt_truncated", "only the last ARG prompt tokens are read", "16"),
    "reasoning": _whole("reply", "ARG tokens of reasoning before the answer", "8"),
    "wide": _whole("reply", "the answer is followed by characters of 2, 3 and 4 bytes"),
    # the stream's contents
    "role-first": _whole("stream", "the role chunk at once, content ARG seconds later", "0.2"),
    "no-role": _whole("stream", "no role chunk"),
    "filter-results-first": _whole("stream", "a first chunk without choices, as Azure sends"),
    "finish-with-content": _whole("stream", "the finish reason on the last content chunk"),
    "bundle": _whole("stream", "ARG tokens a chunk", "3"),
    "usage-absent": _whole("stream", "no usage at all"),
    "usage-on-content": _whole("stream", "usage on the last content chunk, none after"),
    "usage-cumulative": _whole("stream", "usage so far on every chunk"),
    "usage-null": _whole("stream", "usage: null on every chunk but the last"),
    "usage-zero": _whole("stream", "usage whose counts are all 0"),
    "no-done": _whole("stream", "a finish reason, but no [DONE] (Anthropic: no message_stop)"),
    "no-finish": _whole("stream", "[DONE] (Anthropic: message_stop) without any finish reason"),
    "stream-error": FaultKind("stream", "stream_error", "an error object as data after ARG tokens", "1"),
    "stream-error-event": FaultKind("stream", "stream_error", "event: error after ARG tokens", "1"),
    "malformed": FaultKind("stream", "malformed", "broken JSON after ARG tokens", "1"),
    "wrong-shape": FaultKind("stream", "malformed", "JSON that is not of the dialect after ARG tokens", "1"),
    "endless": FaultKind("stream", "timeout", "content for ever, ARG seconds a token", "0.005"),
    "endless-comments": FaultKind("stream", "timeout", "a token, then comments for ever, ARG s apart", "0.02"),
    "endless-line": FaultKind("stream", "timeout", "one data line that never ends, ARG bytes a write", "65536"),
    "huge": _whole("stream", "an extra field of ARG bytes in a content event", "1000000"),
    # how the bytes are framed
    "crlf": _whole("framing", "lines end in CR LF"),
    "cr": _whole("framing", "lines end in CR alone"),
    "comments": _whole("framing", "`: ping` between events"),
    "no-space": _whole("framing", "data:{…} without the space"),
    "bom": _whole("framing", "a byte order mark before the first event"),
    "ids": _whole("framing", "id: and retry: fields in every event"),
    "many-lines": _whole("framing", "one event's JSON over several data: lines"),
    "coalesce": _whole("framing", "ARG events in one write", "3"),
    "split": _whole("framing", "every event in writes of ARG bytes", "7"),
    "byte-split": _whole("framing", "writes that end inside a character; wide characters are added"),
    "gzip": _whole("framing", "Content-Encoding: gzip"),
    "unlabelled": _whole("framing", "a stream whose Content-Type is text/plain"),
    # when
    "slow-headers": _whole("timing", "headers ARG seconds late", "0.2"),
    "slow-first-byte": _whole("timing", "headers at once, first byte ARG seconds late", "0.2"),
    "stall": _whole("timing", "ARG seconds of silence in the middle", "0.2"),
    "silence-headers": FaultKind("timing", "timeout", "never a header"),
    "silence-body": FaultKind("timing", "timeout", "headers, then nothing for ever"),
    "silence": FaultKind("timing", "timeout", "ARG tokens, then nothing for ever", "1"),
    # the connection
    "cut": FaultKind("connection", "cut_stream", "HTTP body ends after ARG tokens, nothing said", "1"),
    "cut-fin": FaultKind("connection", "cut_stream", "FIN in the middle of the body after ARG tokens", "1"),
    "cut-reset": FaultKind("connection", "cut_stream", "RST in the middle of the body after ARG tokens", "1"),
    "cut-in-event": FaultKind(
        "connection", "cut_stream", "FIN in the middle of an event, after ARG tokens", "1"
    ),
    "close": FaultKind("connection", "transport", "FIN before any header"),
    "reset": FaultKind("connection", "transport", "RST before any header"),
    "garbage": FaultKind("connection", "transport", "bytes that are not HTTP"),
    "connection-close": _whole("connection", "Connection: close"),
}
"""Every fault by name."""

NONE = "none"


def parse_faults(text: str) -> tuple[Fault, ...]:
    """`"crlf, cut:3"` → the faults. "none" and "" are no fault. Raises UsageError for an unknown name."""
    faults: list[Fault] = []
    for part in text.split(","):
        name, _, arg = part.strip().partition(":")
        if name in ("", NONE):
            continue
        if name not in FAULTS:
            raise UsageError(unknown_choice("fault", name, [*FAULTS, NONE]))
        fault = Fault(name, arg.strip() or FAULTS[name].default)
        if fault.arg and name not in ("redirect", "strict"):
            number = fault.number
            if not 0 <= number < 1e9:
                raise UsageError(f"fault {name}: {fault.arg} is out of range")
        faults.append(fault)
    return tuple(faults)
