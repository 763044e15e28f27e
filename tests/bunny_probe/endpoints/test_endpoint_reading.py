"""Events out of bytes: the same ones however the bytes were cut, and no input that breaks the reader."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.endpoints.dialects import dialect, dialect_names
from bunny_probe.endpoints.reading import StreamReader, decode
from bunny_probe.endpoints.sse import Event, EventSplitter
from bunny_probe.endpoints.verdict import mend_surrogates

STREAM = (
    "\ufeffdata: zero\n\n: hello\n\nevent: note\ndata: one\ndata: two\n\ndata:three\n\n\n\n"
    "id: 7\nretry: 10\ndata:  four é漢🙂\n\ndata\n\ndata: [DONE]\n\n"
)
EVENTS = [
    (b"", b"zero"),
    (b"note", b"one\ntwo"),
    (b"", b"three"),
    (b"", " four é漢🙂".encode()),
    (b"", b""),
    (b"", b"[DONE]"),
]


def events_of(reads: list[bytes]) -> list[Event]:
    splitter = EventSplitter()
    return [event for at, read in enumerate(reads) for event in splitter.feed(at, read)]


def cut(data: bytes, borders: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    return [data[a:b] for a, b in pairwise(places)]


@given(st.lists(st.integers(0, 10_000), max_size=40), st.sampled_from(["\n", "\r\n", "\r"]))
def test_events_do_not_depend_on_the_reads(borders: list[int], line_end: str) -> None:
    """The same events come out wherever the reads end, inside a character or a CRLF too."""
    data = STREAM.replace("\n", line_end).encode()
    found = events_of(cut(data, borders))
    assert [(event.name, event.data) for event in found] == EVENTS


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_an_event_arrives_with_the_read_that_completes_it(parts: list[bytes]) -> None:
    """An event's arrival is that of its last byte's read, never an earlier one."""
    reads = [*parts, b"\n\ndata: x", b"\n", b"\n"]
    assert events_of(reads)[-1] == Event(len(reads) - 1, b"", b"x")


def test_a_long_line_costs_linear_time() -> None:
    """Twenty thousand reads without a line end are joined once: no quadratic work for a hostile server."""
    splitter = EventSplitter()
    for _ in range(20_000):
        assert not list(splitter.feed(0, b"x" * 1000))
    assert splitter.rest(0) is None


@given(st.sampled_from(dialect_names()), st.lists(st.binary(max_size=200), max_size=8))
def test_no_bytes_break_the_reader(name: str, reads: list[bytes]) -> None:
    """Whatever bytes come, the reader ends with a reading and never with an exception."""
    reader = StreamReader(dialect(name))
    reader.take([(at, b"data: " + read + b"\n\n") for at, read in enumerate(reads)])
    reader.finish()


_TOKEN = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": [{"token": "a", "logprob": -0.1}]}
VALID: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        {"choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [_TOKEN]}}]},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "r"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}},
        {"error": {"message": "m", "code": "c"}},
        {"choices": [{"message": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "stop"}]},
    ],
    "openai-completions": [
        {
            "choices": [
                {
                    "text": "a",
                    "logprobs": {"tokens": ["a"], "token_logprobs": [-0.1], "top_logprobs": [{"a": -0.1}]},
                }
            ]
        },
        {"choices": [{"text": "", "finish_reason": "length"}], "usage": {"completion_tokens": 2, "cost": 0.1}},
    ],
    "anthropic-messages": [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": "a"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "b"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"},
    ],
}
_WRONG = st.sampled_from(
    [None, True, -1, 1e400, "x", "", [], [None], [[]], {}, {"x": 1}, [{"type": 3}], 10**30]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


@given(st.data(), st.sampled_from(sorted(VALID)), st.booleans())
def test_no_wrong_shape_breaks_the_reader(data: st.DataObject, name: str, streamed: bool) -> None:
    """Any one part replaced: malformed or passed over, no exception, no odd type, no ragged columns."""
    value = deepcopy(data.draw(st.sampled_from(VALID[name])))
    *path, last = data.draw(st.sampled_from(places(value)[1:]))
    parent = value
    for key in path:
        parent = parent[key]
    parent[last] = data.draw(_WRONG)
    reader = StreamReader(dialect(name))
    raw = json.dumps(value).encode()
    reader.take([(1, b"data: " + raw + b"\n\n" if streamed else raw)])
    reading = reader.finish()
    assert all(isinstance(text, str) for text in (*reading.content, *reading.reasoning, *reading.token))
    assert all(isinstance(name, str) for top in reading.top for name, _ in top)
    assert all(isinstance(value, float) for value in reading.logprob)
    lengths = {len(reading.token), len(reading.logprob), len(reading.top), len(reading.token_bytes)}
    assert len(lengths) == 1
    counts = (reading.prompt_tokens, reading.completion_tokens, reading.cached_tokens)
    assert all(count is None or (type(count) is int and 0 <= count < 2**63) for count in counts)
    assert all(isinstance(part, str | None) for part in (reading.finish, reading.model))


def test_a_stream_cut_before_a_bracket_is_a_stream() -> None:
    """Only the first byte of a body tells a stream from one JSON body, not the first byte of some read."""
    event = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
    for border in range(1, len(event)):
        reader = StreamReader(dialect("openai-chat"))
        reader.take([(1, event[:border]), (2, event[border:])])
        assert reader.finish().content == ["a"]
        assert reader.malformed is None


def test_json_that_is_not_quite_json_is_read() -> None:
    """NaN and half a surrogate pair, which servers write, do not cost the event."""
    assert decode(b'{"logprob": -Infinity}') == {"logprob": float("-inf")}
    assert decode(b'"\\ud83d"') == "\ud83d"


def test_a_surrogate_pair_cut_between_events_is_whole() -> None:
    """Two halves of a character in two events join; a half alone becomes the replacement character."""
    assert mend_surrogates("a\ud83d\ude42b") == "a🙂b"
    assert mend_surrogates("a\ud83d") == "a\ufffd"
