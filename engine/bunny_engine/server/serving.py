"""The app on a socket: uvicorn with what long streams and probing clients need."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

__all__ = ["listen", "serve"]


def listen(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A bound socket; port 0 takes a free one, told by `.getsockname()[1]`. Raises OSError if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def serve(app: ASGIApp, bound: socket.socket, on_ready: Callable[[], None] = lambda: None) -> None:
    """Answer until SIGINT or SIGTERM; open answers get 5 s to end. `on_ready`: once connections are taken."""
    config = uvicorn.Config(
        app,
        log_config=None,  # the program's own logging; our lines carry no prompt
        access_log=False,
        lifespan="off",
        timeout_keep_alive=75,  # longer than clients keep idle connections, so that the client closes first
        timeout_graceful_shutdown=5,
        backlog=2048,
    )
    _Server(config, on_ready).run(sockets=[bound])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()
