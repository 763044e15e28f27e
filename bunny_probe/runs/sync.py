"""Runs a coroutine to its end from ordinary code, also where an event loop already runs (a notebook)."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

__all__ = ["run_sync"]

T = TypeVar("T")


def run_sync(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of `main()`, on a fresh uvloop loop where uvloop is there.

    Under a running loop it runs in a thread of its own, and blocks. An interrupt (Ctrl-C, a notebook's stop
    button) cancels `main` and is raised again only when it has put its affairs in order.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(main())
    return _in_thread(main)


def _in_thread(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    result: list[T] = []
    failure: list[BaseException] = []
    started = threading.Event()
    handle: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def held() -> T:
        task = asyncio.current_task()
        assert task is not None
        handle.append((asyncio.get_running_loop(), task))
        started.set()
        return await main()

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                result.append(runner.run(held()))
        except BaseException as error:
            failure.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=work, name="bunny-probe", daemon=True)
    thread.start()
    interrupt: KeyboardInterrupt | None = None
    with _interrupts_raise():
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as error:
                interrupt = error
                started.wait()
                if handle:
                    loop, task = handle[0]
                    with suppress(RuntimeError):  # it has just ended by itself
                        loop.call_soon_threadsafe(task.cancel)
    if interrupt is not None:
        raise interrupt
    if failure:
        raise failure[0]
    return result[0]


@contextmanager
def _interrupts_raise() -> Iterator[None]:
    """An interrupt raises here: whoever runs the outer loop would wait for it, and it waits for us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if before is not None:  # None: a handler that was not set from Python, and cannot be set again
            signal.signal(signal.SIGINT, before)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
