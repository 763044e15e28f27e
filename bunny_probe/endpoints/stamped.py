"""Body reads stamped inside the socket's callback, before any task is woken.

aiohttp wakes the reading task at every chunk. On sixty streams that costs more than all the rest of reading,
and the stamp would be taken only when the task's turn has come. So the response's `StreamReader` is turned into
one that stamps and keeps, and that wakes its reader at the end, on an error, or when much has gathered.

This is the one place that knows aiohttp's insides. Where they are not as expected, `stamp` says so and the
caller reads in the ordinary way, with the same result.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from aiohttp import StreamReader

__all__ = ["stamp", "until_more"]


class _Stamped(StreamReader):
    """Its buffer holds (moment, bytes) instead of bytes; `_high_water` is how much may gather unread."""

    __slots__ = ()  # the layout must be that of the class that it takes the place of

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        if data:
            self._buffer.append((perf_counter_ns(), data))  # type: ignore[arg-type]
            self._size += len(data)
            if self._size > self._high_water and self._waiter is not None:
                self._wake()
        return False

    def begin_http_chunk_receiving(self) -> None:
        pass  # borders of HTTP chunks mean nothing here

    def end_http_chunk_receiving(self) -> None:
        pass

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def stamp(content: StreamReader, most: int) -> Any:
    """Make `content` stamp its reads; gives the deque that they go to, or None where that cannot be done.

    The reader is woken when more than `most` bytes have gathered. What came with the headers is stamped now.
    """
    if type(content) is not StreamReader:
        return None
    try:
        now = perf_counter_ns()
        early = [(now, bytes(data)) for data in content._buffer]
        content.__class__ = _Stamped
        content._high_water = most
    except (AttributeError, TypeError):
        return None
    if content._size > content._low_water:  # reading may have been paused until somebody takes what is there
        content._protocol.resume_reading()
    content._buffer.clear()
    content._buffer.extend(early)  # type: ignore[arg-type]
    return content._buffer


async def until_more(content: StreamReader) -> bool:
    """Wait until much has gathered (True) or the body has ended (False). Raises what broke the connection."""
    if content._exception is not None:
        raise content._exception
    if content._eof:
        return False
    if content._size <= content._high_water:
        await content._wait("until_more")
    content._size = 0
    return not content._eof
