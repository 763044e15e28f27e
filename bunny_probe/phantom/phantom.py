"""The phantom as an object: a server in a thread of its own, with its counts at hand."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import cast

from aiohttp import web

from bunny_probe.errors import UsageError
from bunny_probe.phantom.behaviour import Behaviour
from bunny_probe.phantom.finder import compile_patterns
from bunny_probe.phantom.models import serve_models
from bunny_probe.phantom.script import Script
from bunny_probe.phantom.server import build_app
from bunny_probe.phantom.stats import Stats
from bunny_probe.phantom.truth import Key

__all__ = ["Phantom"]

_START_LIMIT = 30.0  # seconds


class Phantom:
    """A simulated endpoint of known behaviour, served over real HTTP on the loopback.

        with Phantom(Behaviour(recall="exp(-L/20000)")) as phantom:
            ...  # talk to phantom.url, model phantom.model

    `behaviours`: one, or several with different names. `key`: a Key, or the path of its JSON Lines file;
    answers that it does not hold are looked for in the prompts, with the help of `patterns` (see `finder`).
    `script`: faults that the requests take in turn. `api_key`: what clients must send; None: nothing. Also an
    async context manager. Raises UsageError where the address cannot be had.
    """

    def __init__(
        self,
        behaviours: Behaviour | Iterable[Behaviour] | None = None,
        key: Key | str | Path | None = None,
        *,
        script: Iterable[str] = (),
        patterns: Sequence[str] = (),
        api_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        if behaviours is None or isinstance(behaviours, Behaviour):
            behaviours = [behaviours or Behaviour()]
        self._models = serve_models(behaviours)
        self._key = key if isinstance(key, Key) else Key.load(key) if key is not None else Key()
        self._patterns = compile_patterns(patterns)
        self._api_key = api_key
        self._host, self._port = host, port
        self._script = Script(script)
        self.stats = Stats()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    # ── where it is ─────────────────────────────────────────────────────────────────────────────────

    @property
    def port(self) -> int:
        return self._port

    @property
    def root(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def url(self) -> str:
        """The base that OpenAI clients take; Anthropic's take `root`."""
        return f"{self.root}/v1"

    @property
    def model(self) -> str:
        """Name of the first model."""
        return next(iter(self._models))

    @property
    def behaviours(self) -> dict[str, Behaviour]:
        return {model.behaviour.model: model.behaviour for model in self._models.values()}

    def script(self, *faults: str) -> None:
        """Adds faults that the next requests take in turn. Raises UsageError."""
        self._script.extend(faults)

    # ── life ────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> Phantom:
        if self._thread is not None:
            raise UsageError("this phantom is running already")
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="phantom", daemon=True)
        self._thread.start()
        try:
            started.result(_START_LIMIT)
        except OSError as error:
            self._thread.join()
            self._thread = None
            raise UsageError(f"the phantom cannot listen on {self._host}:{self._port}: {error}") from None
        return self

    def stop(self) -> None:
        """Ends the responses in flight and gives the port back."""
        if self._thread is None:
            return
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._thread = None

    def __enter__(self) -> Phantom:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Phantom:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            try:
                runner.run(self._main(started))
            except Exception as error:
                if started.done():
                    raise
                started.set_exception(error)  # told to the thread that waits in start()

    async def _main(self, started: Future[None]) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(
            self.app(), access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=0.2
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port, backlog=1024)
            await site.start()
            self._port = runner.addresses[0][1]
            started.set_result(None)
            await self._stopping.wait()
        finally:
            await runner.cleanup()

    def app(self) -> web.Application:
        """The application alone, for those who serve it themselves."""
        return build_app(
            self._models,
            stats=self.stats,
            script=self._script,
            key=self._key,
            patterns=self._patterns,
            api_key=self._api_key,
        )


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed."""
    if os.name != "nt":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return cast(asyncio.AbstractEventLoop, uvloop.new_event_loop())
    return asyncio.new_event_loop()
