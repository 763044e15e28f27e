"""A sequence's sealed blocks over the cores of a CPU: whole runs of blocks side by side, each on one core.

To rebuild a run takes dozens of operations on few numbers each, and to wake a second thread for every one of
them takes longer than the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

__all__ = ["side_by_side"]

T = TypeVar("T")
_CREWS: dict[int, ThreadPoolExecutor] = {}


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls give, in their order: each runs on one thread, as many at a time as PyTorch has threads.

    On one thread no operation splits its numbers, so what is given does not depend on how many there are.
    """
    threads = torch.get_num_threads()
    if len(calls) < 2 or threads < 2:
        return [call() for call in calls]
    found: dict[int, T] = {}
    left = iter(enumerate(calls))

    @torch.inference_mode()
    def work() -> None:
        for place, call in left:
            found[place] = call()

    for worker in [_crew(threads).submit(work) for _ in range(min(threads, len(calls)))]:
        worker.result()
    return [found[place] for place in range(len(calls))]


def _crew(size: int) -> ThreadPoolExecutor:
    if size not in _CREWS:
        crew = ThreadPoolExecutor(size, "sealed-blocks", _be_one)
        started = Barrier(size)
        for worker in [crew.submit(started.wait) for _ in range(size)]:
            worker.result()
        torch.set_num_threads(size)  # a thread to come takes the number that was set last
        _CREWS[size] = crew
    return _CREWS[size]


def _be_one() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread takes the number when it first needs it, and from then on keeps its own
