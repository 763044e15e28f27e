"""Each fault's bytes on the wire are what the table says, read by a client of sockets alone."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import pytest

from bunny_probe.errors import UsageError
from bunny_probe.phantom import FAULTS, Phantom, parse_faults
from bunny_probe.records import Outcome

CHECKS: dict[str, Callable[[Any], None]] = {}
TEXT = "KX-4410-T"


def check(*names: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Names the faults that a function checks, each with its argument if any."""

    def keep(function: Callable[[Any], None]) -> Callable[[Any], None]:
        CHECKS.update(dict.fromkeys(names, function))
        return function

    return keep


def whole(raw: Any, text: str = TEXT) -> None:
    """A complete answer: all of the text, a finish reason, [DONE], and the body's own end."""
    assert raw.status == 200
    assert raw.ended == "whole"
    assert raw.text == text
    assert any(choice["finish_reason"] == "stop" for p in raw.payloads for choice in p.get("choices", []))
    assert raw.data[-1] == "[DONE]"


def error_of(raw: Any, status: int) -> dict[str, Any]:
    assert raw.status == status
    assert raw.headers["content-type"].startswith("application/json")
    return json.loads(raw.body)["error"]


# ── refused ─────────────────────────────────────────────────────────────────────────────────────────


@check("rate-limit", "rate-limit:7", "rate-limit-date:30", "rate-limit-ms:250")
def rate_limits(raw: Any) -> None:
    assert error_of(raw, 429)["code"] == "rate_limit_exceeded"
    asked = {"rate-limit": None, "rate-limit:7": "7"}
    if raw.fault in asked:
        assert raw.headers.get("retry-after") == asked[raw.fault]
    elif raw.fault.startswith("rate-limit-ms"):
        assert raw.headers["retry-after-ms"] == "250"
    else:
        ahead = parsedate_to_datetime(raw.headers["retry-after"]).timestamp() - time()
        assert 25 < ahead <= 31


@check("server-error", "server-error:503", "overloaded")
def server_errors(raw: Any) -> None:
    error_of(raw, {"server-error": 500, "server-error:503": 503, "overloaded": 529}[raw.fault])


@check("server-error-html", "server-error-html:500", "server-error-html:503")
def html_errors(raw: Any) -> None:
    assert raw.status == int(raw.fault.partition(":")[2] or 502)
    assert raw.headers["content-type"].startswith("text/html")
    assert raw.body.startswith(b"<!DOCTYPE html>")


@check("unauthorised", "forbidden", "not-found", "bad-request", "filtered-prompt")
def client_errors(raw: Any) -> None:
    statuses = {
        "unauthorised": 401,
        "forbidden": 403,
        "not-found": 404,
        "bad-request": 400,
        "filtered-prompt": 400,
    }
    codes = {
        "unauthorised": "invalid_api_key",
        "not-found": "model_not_found",
        "filtered-prompt": "content_filter",
    }
    error = error_of(raw, statuses[raw.fault])
    assert error["code"] == codes.get(raw.fault, error["code"])


@check("context")
def context_refused(raw: Any) -> None:
    error = error_of(raw, 400)
    assert error["code"] == "context_length_exceeded"
    assert error["message"].startswith("This model's maximum context length is ")


@check("strict", "strict:seed+stream_options")
def strict_schema(raw: Any) -> None:
    error = error_of(raw, 400)
    first = "seed" if ":" in raw.fault else "stream_options"
    assert error["param"] == first
    assert first in error["message"]


@check("redirect", "redirect:http://other.invalid/x")
def redirected(raw: Any) -> None:
    assert raw.status == 307
    assert raw.headers["location"].startswith("http://")
    assert ".invalid/" in raw.headers["location"]


@check("error-200")
def error_with_200(raw: Any) -> None:
    assert "message" in error_of(raw, 200)


@check("wrong-type")
def page_with_200(raw: Any) -> None:
    assert raw.status == 200
    assert raw.headers["content-type"].startswith("text/html")
    assert b"<html>" in raw.body


@check("no-body")
def no_body(raw: Any) -> None:
    assert (raw.status, raw.body, raw.ended) == (200, b"", "whole")


# ── another answer ──────────────────────────────────────────────────────────────────────────────────


def finish_of(raw: Any) -> str:
    """The one finish reason of a whole stream."""
    assert raw.ended == "whole"
    assert raw.data[-1] == "[DONE]"
    (reason,) = [c["finish_reason"] for p in raw.payloads for c in p["choices"] if c["finish_reason"]]
    return str(reason)


def reasoning_of(raw: Any) -> str:
    deltas = [c["delta"] for p in raw.payloads for c in p["choices"]]
    return "".join(delta.get("reasoning_content") or "" for delta in deltas)


@check("empty")
def empty(raw: Any) -> None:
    assert (finish_of(raw), raw.text, reasoning_of(raw)) == ("stop", "", "")


@check("null-content", "reasoning-only")
def reasoning_alone(raw: Any) -> None:
    assert finish_of(raw) == ("stop" if raw.fault == "null-content" else "length")
    assert raw.text == ""
    assert len(reasoning_of(raw).split()) == 6
    usage = raw.payloads[-1]["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == usage["completion_tokens"] == 6


@check("length", "length:5", "content-filter", "content-filter:0")
def cut_short(raw: Any) -> None:
    reasons = {"length": "length", "content-filter": "content_filter"}
    texts = {"length": "KX-", "length:5": "KX-441", "content-filter": "KX", "content-filter:0": ""}
    assert finish_of(raw) == reasons[raw.fault.partition(":")[0]]
    assert raw.text == texts[raw.fault]


@check("refusal")
def refusal(raw: Any) -> None:
    assert raw.text == ""
    refusals = [c["delta"].get("refusal") for p in raw.payloads for c in p["choices"]]
    assert any(refusals)
    assert raw.payloads[-1]["usage"]["completion_tokens"] == 0


@check("truncate", "truncate:20")
def truncated(raw: Any) -> None:
    assert raw.payloads[-1]["usage"]["prompt_tokens"] == int(raw.fault.partition(":")[2] or 16)
    assert finish_of(raw) == "stop"
    assert raw.text != TEXT  # the fact stood in what was cut off


@check("reasoning", "reasoning:3")
def reasons_first(raw: Any) -> None:
    whole(raw)
    assert len(reasoning_of(raw).split()) == int(raw.fault.partition(":")[2] or 8)


@check("wide")
def wide_characters(raw: Any) -> None:
    whole(raw, TEXT + " é漢🙂")
    entries = [e for p in raw.payloads for c in p["choices"] if c["logprobs"] for e in c["logprobs"]["content"]]
    assert bytes(b for entry in entries for b in entry["bytes"]).decode() == TEXT + " é漢🙂"
    assert entries[-2]["token"].startswith("bytes:\\xf0")
    with pytest.raises(UnicodeDecodeError):
        bytes(entries[-1]["bytes"]).decode()


# ── another stream ──────────────────────────────────────────────────────────────────────────────────


@check("role-first:0.15")
def role_first(raw: Any) -> None:
    whole(raw)
    assert raw.seconds - raw.first_byte_s > 0.1
    assert raw.payloads[0]["choices"][0]["delta"]["role"] == "assistant"
    assert raw.seconds > 0.14


@check("no-role")
def no_role(raw: Any) -> None:
    whole(raw)
    assert not any("role" in c["delta"] for p in raw.payloads for c in p["choices"])


@check("filter-results-first")
def filter_results_first(raw: Any) -> None:
    whole(raw)
    assert raw.payloads[0]["choices"] == []
    assert "usage" not in raw.payloads[0]


@check("finish-with-content")
def finish_with_content(raw: Any) -> None:
    whole(raw)
    (last,) = [c for p in raw.payloads for c in p["choices"] if c["finish_reason"]]
    assert last["delta"]["content"] == "T"


@check("bundle", "bundle:5")
def bundles(raw: Any) -> None:
    whole(raw)
    size = int(raw.fault.partition(":")[2] or 3)
    filled = [c for p in raw.payloads for c in p["choices"] if c["delta"].get("content")]
    assert [len(c["logprobs"]["content"]) for c in filled] == ([3, 3, 2] if size == 3 else [5, 3])


@check("usage-absent", "usage-on-content", "usage-cumulative", "usage-null", "usage-zero")
def usages(raw: Any) -> None:
    whole(raw)
    given = [p["usage"] for p in raw.payloads if p.get("usage")]
    if raw.fault == "usage-absent":
        assert not any("usage" in p for p in raw.payloads)
    elif raw.fault == "usage-on-content":
        (with_usage,) = [p for p in raw.payloads if "usage" in p]
        assert with_usage["choices"][0]["delta"]["content"] == "T"
        assert with_usage["usage"]["completion_tokens"] == 8
    elif raw.fault == "usage-cumulative":
        assert [u["completion_tokens"] for u in given] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
        assert all(p["choices"] for p in raw.payloads)
    elif raw.fault == "usage-null":
        assert len(given) == 1
        assert all("usage" in p for p in raw.payloads)
    else:
        assert given == [{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}]


@check("no-done")
def no_done(raw: Any) -> None:
    assert "[DONE]" not in raw.data
    assert raw.ended == "whole"
    assert raw.payloads[-2]["choices"][0]["finish_reason"] == "stop"


@check("no-finish")
def no_finish(raw: Any) -> None:
    assert raw.data[-1] == "[DONE]"
    assert raw.text == TEXT
    assert not any(c["finish_reason"] for p in raw.payloads for c in p["choices"])


@check("stream-error", "stream-error:3", "stream-error-event")
def errors_inside(raw: Any) -> None:
    assert (raw.status, raw.ended) == (200, "whole")
    assert raw.payloads[-1]["error"]["code"] == "phantom_fault"
    assert raw.data[-1] != "[DONE]"
    deltas = [p["choices"][0]["delta"].get("content") for p in raw.payloads[:-1]]
    assert "".join(d or "" for d in deltas) == ("KX-4" if raw.fault.endswith("3") else "KX")
    assert (b"event: error\n" in raw.body) == (raw.fault == "stream-error-event")


@check("malformed", "malformed:0")
def malformed(raw: Any) -> None:
    assert raw.ended == "whole"
    broken = [data for data in raw.data if data != "[DONE]" and not parses(data)]
    assert len(broken) == 1


def parses(data: str) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


@check("wrong-shape")
def wrong_shape(raw: Any) -> None:
    assert {"choices": "phantom"} in raw.payloads


@check("endless:0.002", "endless-comments:0.002", "endless-line:1000")
def endless(raw: Any) -> None:
    assert raw.ended == "open"
    assert "[DONE]" not in raw.body.decode()
    if raw.fault.startswith("endless:"):
        assert len(raw.payloads) > 20
    elif raw.fault.startswith("endless-comments"):
        assert raw.body.count(b": ping\n\n") > 20
    else:
        assert len(max(raw.body.split(b"\n"), key=len)) > 20_000


@check("huge:200000")
def huge(raw: Any) -> None:
    whole(raw)
    assert max(map(len, raw.data)) > 200_000


# ── framing ─────────────────────────────────────────────────────────────────────────────────────────


@check("crlf")
def crlf(raw: Any) -> None:
    whole(raw)
    assert raw.body.count(b"\n") == raw.body.count(b"\r\n")
    assert raw.body.endswith(b"data: [DONE]\r\n\r\n")


@check("cr")
def cr(raw: Any) -> None:
    assert b"\n" not in raw.body
    assert raw.body.endswith(b"data: [DONE]\r\r")


@check("comments")
def comments(raw: Any) -> None:
    whole(raw)
    assert raw.body.count(b": ping\n\n") == raw.body.count(b"data: ")


@check("no-space")
def no_space(raw: Any) -> None:
    whole(raw)
    assert raw.body.startswith(b"data:{")
    assert b"data: " not in raw.body


@check("bom")
def bom(raw: Any) -> None:
    assert raw.body.startswith(b"\xef\xbb\xbfdata: {")
    assert raw.body.count(b"\xef\xbb\xbf") == 1


@check("ids")
def ids(raw: Any) -> None:
    whole(raw)
    assert raw.body.startswith(b"id: 0\nretry: 3000\ndata: ")


@check("many-lines")
def many_lines(raw: Any) -> None:
    whole(raw)
    assert raw.body.count(b"\ndata: ") > 5 * len(raw.data)


@check("coalesce", "coalesce:4")
def coalesced(raw: Any) -> None:
    whole(raw)
    size = int(raw.fault.partition(":")[2] or 3)
    per_write = [chunk.count(b"data: ") for chunk in raw.chunks]
    assert all(n == size for n in per_write[:-1])
    assert sum(per_write) == len(raw.data)


@check("split", "split:1", "split:100")
def split(raw: Any) -> None:
    whole(raw)
    size = int(raw.fault.partition(":")[2] or 7)
    assert max(map(len, raw.chunks)) == size
    assert any(len(chunk) < size for chunk in raw.chunks) or size == 1


@check("byte-split")
def byte_split(raw: Any) -> None:
    whole(raw, TEXT + " é漢🙂")
    broken = 0
    for chunk in raw.chunks:
        try:
            chunk.decode()
        except UnicodeDecodeError:
            broken += 1
    assert broken >= 6  # 2, 3 and 4 byte characters in 9 pieces, none of them whole


@check("gzip")
def zipped(raw: Any) -> None:
    assert raw.headers["content-encoding"] == "gzip"
    unpacker = zlib.decompressobj(wbits=31)
    first = unpacker.decompress(raw.chunks[0])
    assert first.startswith(b"data: {")
    assert first.endswith(b"\n\n")  # an event can be read as it comes
    rest = b"".join(unpacker.decompress(chunk) for chunk in raw.chunks[1:])
    assert rest.endswith(b"data: [DONE]\n\n")
    assert unpacker.eof


@check("unlabelled")
def unlabelled(raw: Any) -> None:
    whole(raw)
    assert raw.headers["content-type"].startswith("text/plain")


# ── when ────────────────────────────────────────────────────────────────────────────────────────────


@check("slow-headers:0.15", "slow-first-byte:0.15", "stall:0.15")
def slow(raw: Any) -> None:
    whole(raw)
    assert raw.seconds > 0.14
    name = raw.fault.partition(":")[0]
    late_from = {"slow-headers": 0.0, "slow-first-byte": raw.first_byte_s, "stall": raw.body_byte_s}[name]
    late_to = {"slow-headers": raw.first_byte_s, "slow-first-byte": raw.body_byte_s, "stall": raw.seconds}[name]
    assert late_to - late_from > 0.1


@check("silence-headers")
def silent(raw: Any) -> None:
    assert (raw.ended, raw.head) == ("open", b"")


@check("silence-body")
def silent_body(raw: Any) -> None:
    assert (raw.ended, raw.status, raw.reads) == ("open", 200, [])


@check("silence", "silence:3")
def silent_in_the_middle(raw: Any) -> None:
    assert raw.ended == "open"
    assert raw.text == ("KX-4" if raw.fault.endswith("3") else "KX")


# ── the connection ──────────────────────────────────────────────────────────────────────────────────


@check("cut", "cut:3", "cut-fin", "cut-fin:0", "cut-reset")
def cut(raw: Any) -> None:
    ends = {"cut": "whole", "cut-fin": "fin", "cut-reset": "reset"}
    assert raw.ended == ends[raw.fault.partition(":")[0]]
    assert raw.text == {"cut:3": "KX-4", "cut-fin:0": ""}.get(raw.fault, "KX")
    assert "[DONE]" not in raw.data
    assert not any(c["finish_reason"] for p in raw.payloads for c in p["choices"])


@check("cut-in-event")
def cut_in_event(raw: Any) -> None:
    assert raw.ended == "fin"
    assert not raw.body.endswith(b"\n")
    assert not parses(raw.data[-1])


@check("close", "reset")
def no_response(raw: Any) -> None:
    assert raw.head == b""
    assert raw.ended == ("fin" if raw.fault == "close" else "reset")


@check("garbage")
def garbage(raw: Any) -> None:
    assert not raw.head.startswith(b"HTTP/")
    assert b"phantom" in raw.head


@check("connection-close")
def connection_close(raw: Any) -> None:
    whole(raw)
    assert raw.headers["connection"] == "close"


@pytest.mark.parametrize("fault", sorted(CHECKS))
async def test_the_bytes_of_a_fault_are_what_it_says(
    reliable: Phantom, ask: Any, request_body: Any, fault: str
):
    """One streamed request for each fault and argument, read off the socket."""
    hangs = fault.startswith(("endless", "silence"))
    raw = await ask(reliable, request_body(logprobs=True, seed=1), fault, limit=0.4 if hangs else 10)
    CHECKS[fault](raw)
    served = reliable.stats.log[-1] if not hangs else None
    if served is not None:
        assert [name.partition(":")[0] for name in served.faults] == [fault.partition(":")[0]]


def test_every_fault_of_the_table_is_checked():
    """No fault is added without its bytes being looked at."""
    assert {name.partition(":")[0] for name in CHECKS} == set(FAULTS)


def test_every_failure_of_the_taxonomy_can_be_shown():
    """Outcomes of the table are the taxonomy's words, and none of its failures is left out."""
    shown = {kind.outcome for kind in FAULTS.values()} - {None}
    assert shown == {outcome.value for outcome in Outcome} - {"answered"}


@pytest.mark.parametrize("text", ["unheard-of", "cut:x", "split:-1", "cut:1e12", "crlf,,cutt"])
def test_unknown_faults_and_arguments_are_told(text: str):
    """With the known names."""
    with pytest.raises(UsageError, match="fault"):
        parse_faults(text)


async def test_faults_can_be_combined_and_unknown_ones_are_a_400(
    reliable: Phantom, ask: Any, request_body: Any
):
    """A header may hold several; a wrong name is the caller's fault."""
    raw = await ask(reliable, request_body(), "crlf, comments,usage-absent,wide, split:3")
    whole(raw, TEXT + " é漢🙂")
    assert b": ping\r\n\r\n" in raw.body
    assert max(map(len, raw.chunks)) == 3
    wrong = await ask(reliable, request_body(), "cutt")
    assert wrong.status == 400
    assert "Did you mean 'cut'" in json.loads(wrong.body)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "stream"),
    [("/v1/chat/completions", False), ("/v1/completions", True), ("/v1/completions", False),
     ("/v1/messages", True), ("/v1/messages", False)],
)  # fmt: skip
async def test_faults_hold_in_every_dialect(
    reliable: Phantom, ask: Any, request_body: Any, path: str, stream: bool
):
    """The phantom never breaks on its own; what is whole by the table is whole, errors have their status."""
    prompt = "The code of Oslo is KX-4410-T.\n\nCode of Oslo?"
    body = {**request_body(stream=stream, max_tokens=50), "prompt": prompt}
    briefly = {"slow-headers", "slow-first-byte", "stall", "role-first"}

    async def one(fault: str) -> None:
        hangs = fault.startswith(("endless", "silence"))
        named = f"{fault}:0.01" if fault in briefly else fault
        raw = await ask(reliable, body, named, path, 0.5 if hangs else 10)
        kind = FAULTS[fault]
        if kind.outcome == "server_error":
            assert raw.status >= 500, fault
        elif raw.head.startswith(b"HTTP"):
            assert raw.status < 500, fault
        if kind.answered:
            assert (raw.status, raw.ended) == (200, "whole"), fault
        if hangs:
            assert raw.ended in ("open", "fin"), fault

    await asyncio.gather(*map(one, FAULTS))
