"""Socket reads stamped the moment they come, and parsed by nobody until it is quiet.

aiohttp parses HTTP and wakes the reading task at every read. On sixty streams that costs more than all the rest
of reading, and the stamp would be taken only when the task's turn has come. So once the head of an answer is
there, a `Tap` takes the place of aiohttp's protocol behind the socket. All it does with a read is to note when
it came. When the message may be over, when much has gathered, or when the connection ends, the reads are handed
to aiohttp's own parser in their order: what is the body, and where it ends, stays its decision.

This is the one place that knows aiohttp's insides. Where they are not as expected, `tap` says so and the caller
reads in the ordinary way, with the same result.
"""

from __future__ import annotations

import asyncio
from time import perf_counter_ns

from aiohttp import ClientPayloadError, ClientResponse, StreamReader
from aiohttp.client_proto import ResponseHandler

__all__ = ["Tap", "tap"]

_LAST_OF_CHUNKED = b"\r\n\r\n"  # what a chunked body ends with, with or without trailers


class _Kept(StreamReader):
    """Keeps what the parser gives, and wakes nobody: the tap takes it out at once."""

    __slots__ = ()  # the layout must be that of the class that it takes the place of

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        if data:
            self._buffer.append(data)
        return False

    def begin_http_chunk_receiving(self) -> None:
        pass  # borders of HTTP chunks mean nothing here

    def end_http_chunk_receiving(self) -> None:
        pass


class Tap(asyncio.Protocol):
    """The reads of one body. Opened by `tap`, and to be closed whatever happens."""

    def __init__(
        self, transport: asyncio.Transport, behind: ResponseHandler, content: StreamReader, most: int
    ) -> None:
        self._transport, self._behind, self._content = transport, behind, content
        self._most = most
        self._at_once = False  # parse each read as it comes
        self._lost = False
        self._raw: list[tuple[int, bytes]] = []  # as read
        self._body: list[tuple[int, bytes]] = []  # parsed
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._last: int | None = None
        transport.set_protocol(self)

    @property
    def last_read(self) -> int | None:
        """When the last byte came, parsed or not."""
        return self._raw[-1][0] if self._raw else self._last

    async def more(self) -> bool:
        """Wait until much has gathered (True) or the body is over (False). Raises what broke it."""
        if not self._worth_waking:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        content = self._content
        if (broken := content.exception()) is not None:
            raise broken
        if self._lost and not content.is_eof():  # what broke the rules of HTTP is not always told to the body
            why = self._behind.exception() or "the connection was lost"
            raise ClientPayloadError(" ".join(str(why).split()))
        return not content.is_eof()

    def take(self) -> list[tuple[int, bytes]]:
        """Stamped pieces of the body, in order, each once."""
        self._parse()
        taken, self._body, self._size = self._body, [], 0
        return taken

    def look(self) -> None:
        """Parse what is there, and wake the reader if the body is over or there is much of it."""
        self._parse()
        if self._worth_waking:
            self._wake()

    def close(self) -> None:
        """Give the socket back to aiohttp, with all that was read."""
        if self._transport.get_protocol() is self:
            self._transport.set_protocol(self._behind)
        self._parse()

    # ── what the socket calls ───────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        self._raw.append((perf_counter_ns(), data))
        self._size += len(data)
        # A read too short to tell may hold the rest of the last chunk's end.
        if data[-4:] == _LAST_OF_CHUNKED or len(data) < 4 or self._size > self._most or self._at_once:
            self.look()

    def eof_received(self) -> None:
        self._parse()
        self._behind.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._parse()
        self._behind.connection_lost(exc)
        self._lost = True
        self._wake()

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._behind.resume_writing()

    @property
    def _worth_waking(self) -> bool:
        content = self._content
        return content.is_eof() or content.exception() is not None or self._lost or self._size > self._most

    def _parse(self) -> None:
        raw, self._raw = self._raw, []
        if not raw:
            return
        received, parsed, body = self._behind.data_received, self._content._buffer, self._body
        content = self._content
        for at, data in raw:
            received(data)
            while parsed:
                body.append((at, parsed.popleft()))
            if content.is_eof() and self._transport.get_protocol() is self:
                # aiohttp may already use the connection again.
                self._transport.set_protocol(self._behind)
        self._last = raw[-1][0]

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def tap(response: ClientResponse, most: int) -> Tap | None:
    """Put a `Tap` behind the socket of `response`, or None where that cannot be done or brings nothing.

    `Tap.more` returns when more than `most` bytes have gathered. What came with the head is stamped now.
    """
    content, connection = response.content, response.connection
    if type(content) is not StreamReader or connection is None or content.is_eof():
        return None
    transport, behind = connection.transport, connection.protocol
    if transport is None or behind is None or transport.is_closing() or transport.get_protocol() is not behind:
        return None
    if "Content-Encoding" in response.headers:  # though none was asked for: pieces of it are no pieces of text
        return None
    now = perf_counter_ns()
    early = content.read_nowait()
    try:
        content.__class__ = _Kept
        tapped = Tap(transport, behind, content, most)
    except (AttributeError, TypeError):
        return None
    if early:
        tapped._body.append((now, early))
        tapped._size, tapped._last = len(early), now
    # A body of stated length has no mark at its end.
    tapped._at_once = "Content-Length" in response.headers
    return tapped
