"""Token traces as compact bytes: columns, numbers first, deflated.

Log-probabilities are kept as 32-bit floats (relative error below 1e-7, servers compute in less), arrivals as
exact nanoseconds. `numbers` reads the columns that analysis needs without making a single string.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import sub
from typing import Any, Final, NamedTuple

from bunny_probe.errors import RunError
from bunny_probe.records import TokenTrace

__all__ = ["TraceNumbers", "decode_trace", "encode_trace", "trace_numbers"]

_VERSION: Final = 1
_SOURCES: Final = ("none", "logprobs", "chunks")
_HEAD = struct.Struct("<BBBI")  # version, source, flags, tokens
_BYTES_ARE_TEXT, _HAS_BYTES, _HAS_TOP, _HAS_LOGPROB = 1, 2, 4, 8
_WINDOW: Final = 12  # 4 KiB: as small as with 32, and half the time for the few hundred bytes that most have
_NO_STRINGS: Final = (b"", b"")


class TraceNumbers(NamedTuple):
    """The numeric columns of a trace: buffers that numpy reads without a copy."""

    arrival: array[int]  # int64, ns after sent
    logprob: array[float]  # float32; empty when not offered
    top_count: array[int]  # uint16 a token
    top_logprob: array[float]  # float32, the alternatives of all tokens one behind the other
    size: array[int]  # uint32, bytes of each token; 0: no part of the answer, such as the end token


def encode_trace(trace: TokenTrace) -> bytes | None:
    """The trace as bytes, or None when it holds no token."""
    count = len(trace.text)
    if not count:
        return None
    texts = _strings(trace.text)
    same = trace.bytes_ != () and _joined(trace.bytes_) == texts
    flags = (
        _BYTES_ARE_TEXT * same
        | _HAS_BYTES * bool(trace.bytes_)
        | _HAS_TOP * bool(trace.top)
        | _HAS_LOGPROB * bool(trace.logprob)
    )
    arrival = trace.arrival
    alternatives = [pair for top in trace.top for pair in top]
    sections = [
        _pack("q", map(sub, arrival, (0, *arrival))),
        _pack("f", trace.logprob),
        _pack("H", map(len, trace.top)),
        _pack("f", [logprob for _, logprob in alternatives]),
        *texts,
        *_strings([text for text, _ in alternatives]),
        *(_NO_STRINGS if same else _joined(trace.bytes_)),
    ]
    head = _HEAD.pack(_VERSION, _SOURCES.index(trace.source), flags, count)
    return head + zlib.compress(
        b"".join([part for section in sections for part in (struct.pack("<I", len(section)), section)]),
        level=4,
        wbits=_WINDOW,
    )


def decode_trace(blob: bytes | None) -> TokenTrace:
    """Undoes `encode_trace`. Raises RunError on bytes that it did not make."""
    if blob is None:
        return TokenTrace()
    with _told():
        return _decode(blob)


def trace_numbers(blob: bytes) -> TraceNumbers:
    """The numeric columns alone. Raises RunError likewise."""
    with _told():
        _, flags, sections = _open(blob)
        return _numbers(flags, sections)


@contextmanager
def _told() -> Iterator[None]:
    """Says of damaged bytes that they are damaged."""
    try:
        yield
    except (struct.error, zlib.error, ValueError, IndexError) as error:
        raise RunError(f"a token trace in the run is damaged: {error}") from None


def _decode(blob: bytes) -> TokenTrace:
    source, flags, sections = _open(blob)
    numbers = _numbers(flags, sections)
    raw = _split(sections[4], sections[5])
    names = [text.decode("utf-8", "surrogatepass") for text in _split(sections[6], sections[7])]
    top: list[tuple[tuple[str, float], ...]] = []
    start = 0
    for width in numbers.top_count:
        stop = start + width
        top.append(tuple(zip(names[start:stop], numbers.top_logprob[start:stop], strict=True)))
        start = stop
    kept = raw if flags & _BYTES_ARE_TEXT else _split(sections[8], sections[9])
    return TokenTrace(
        text=tuple([text.decode("utf-8", "surrogatepass") for text in raw]),
        logprob=tuple(numbers.logprob),
        top=tuple(top) if flags & _HAS_TOP else (),
        arrival=tuple(numbers.arrival),
        bytes_=tuple(kept) if flags & _HAS_BYTES else (),
        source=_SOURCES[source],
    )


def _numbers(flags: int, sections: Sequence[bytes]) -> TraceNumbers:
    arrival = _unpack("q", sections[0])
    total = 0
    for index, gap in enumerate(arrival):
        total += gap
        arrival[index] = total
    return TraceNumbers(
        arrival,
        _unpack("f", sections[1]),
        _unpack("H", sections[2]),
        _unpack("f", sections[3]),
        _unpack("I", sections[8 if flags & _HAS_BYTES and not flags & _BYTES_ARE_TEXT else 4]),
    )


def _open(blob: bytes) -> tuple[int, int, list[bytes]]:
    version, source, flags, _ = _HEAD.unpack_from(blob)
    if version != _VERSION:
        raise RunError(f"a token trace has format {version}, this version reads {_VERSION}")
    body = zlib.decompress(blob[_HEAD.size :])
    sections, at = [], 0
    while at < len(body):
        (size,) = struct.unpack_from("<I", body, at)
        sections.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return source, flags, sections


def _strings(items: Sequence[str]) -> tuple[bytes, bytes]:
    """Texts as their sizes in bytes and their bytes one behind the other."""
    joined = "".join(items)
    if joined.isascii():
        return _pack("I", map(len, items)), joined.encode()
    return _joined([item.encode("utf-8", "surrogatepass") for item in items])


def _joined(items: Sequence[bytes]) -> tuple[bytes, bytes]:
    return _pack("I", map(len, items)), b"".join(items)


def _split(sizes: bytes, joined: bytes) -> list[bytes]:
    items, at = [], 0
    for size in _unpack("I", sizes):
        items.append(joined[at : at + size])
        at += size
    return items


def _pack(code: str, values: Iterable[float]) -> bytes:
    packed: array[Any] = array(code, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpack(code: str, data: bytes) -> array[Any]:
    values: array[Any] = array(code)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
