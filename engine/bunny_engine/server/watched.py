"""A response that works while it is sent, and stops when the client goes."""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bunny_engine.server.trace import Trace

__all__ = ["Watched", "plain"]


class Watched(Response):
    """Starlette ends only streaming responses when a client goes; this one ends either kind, at once.

    A subclass frees what it holds when `send` is cancelled.
    """

    def __init__(self, trace: Trace) -> None:
        self._exchange = trace

    @abstractmethod
    async def send(self, send: Send) -> None:
        """The work, and the whole exchange from the status on."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = asyncio.create_task(self.send(send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            self._exchange.gone = not work.done()
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        if not work.cancelled():
            work.result()


async def plain(response: Response, send: Send) -> None:
    """Send a response that is ready."""
    await response({"type": "http"}, _nothing, send)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
