"""How uvicorn has to be set for long streams and probing clients."""

from __future__ import annotations

import uvicorn
from starlette.types import ASGIApp

__all__ = ["http_config"]


def http_config(app: ASGIApp) -> uvicorn.Config:
    """For `uvicorn.Server(http_config(app)).serve(sockets=[bound])`. Open answers get 5 s at a shutdown."""
    return uvicorn.Config(
        app,
        log_config=None,  # the program's own logging; our lines carry no prompt
        access_log=False,
        lifespan="off",
        timeout_keep_alive=75,  # longer than clients keep idle connections, so that the client closes first
        timeout_graceful_shutdown=5,
        backlog=2048,
    )
