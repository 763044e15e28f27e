"""Prompts written in a thread of their own, shortly before they are sent: a long one takes seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from bunny_probe.errors import LengthError
from bunny_probe.records import Probe, Rendered, Trial

__all__ = ["Renderer"]

# What one visit to the thread may bring: a visit costs as much as a few short prompts.
_TOGETHER = 16
_CHARACTERS = 100_000
_SECONDS = 0.005


class Renderer:
    """Calls `render`, one prompt at a time."""

    def __init__(self, render: Callable[[Probe], Rendered]) -> None:
        self._render = render
        self._thread = ThreadPoolExecutor(1, "bunny-render")

    async def some(self, pending: Sequence[Trial], at: int) -> list[Rendered | LengthError]:
        """The prompts from the `at`-th trial on: one that is long or takes long, or a few that do not."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._some, pending, at)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _some(self, pending: Sequence[Trial], at: int) -> list[Rendered | LengthError]:
        some: list[Rendered | LengthError] = []
        begun, written = time.perf_counter(), 0
        for index, trial in enumerate(pending[at : at + _TOGETHER]):
            if index and trial.probe.id == pending[at + index - 1].probe.id:
                some.append(some[-1])  # repeats of a probe share its prompt
                continue
            try:
                rendered = self._render(trial.probe)
                some.append(rendered)
                written += sum([len(message.content) for message in rendered.messages])
            except LengthError as error:
                some.append(error)
            if written > _CHARACTERS or time.perf_counter() - begun > _SECONDS:
                break
        return some
