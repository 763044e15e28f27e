"""The thread that writes: the event loop never waits for the disk.

What is handed in while the disk is still flushing is written together in the next transaction, so that sixty
streams that end at once cost one flush and not sixty. A caller is told only after the flush.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from bunny_probe.runs.store import Store

__all__ = ["Recorder"]

T = TypeVar("T")
_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_LARGEST_GROUP = 256


class Recorder:
    """Runs calls on `store` in order, in a thread of its own. `close` waits for all that were handed in."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store, self._loop = store, loop
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="bunny-store", daemon=True)
        self._thread.start()

    def write(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Hand in a call that writes. It is carried out, also when the task that waits is cancelled."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            group = [job]
            while len(group) < _LARGEST_GROUP and not self._jobs.empty():
                job = self._jobs.get()
                if job is None:
                    self._carry_out(group)
                    return
                group.append(job)
            self._carry_out(group)

    def _carry_out(self, group: list[_Job]) -> None:
        results: list[Any] = []
        failure: BaseException | None = None
        try:
            with self._store.group():
                results = [job() for job, _ in group]
        except BaseException as error:
            failure = error
        self._loop.call_soon_threadsafe(_tell, [future for _, future in group], results, failure)


def _tell(futures: list[asyncio.Future[Any]], results: list[Any], failure: BaseException | None) -> None:
    """In the loop: wake those who wait. A group fails as a whole."""
    for index, future in enumerate(futures):
        if future.done():  # whoever waited was cancelled
            continue
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(results[index])
