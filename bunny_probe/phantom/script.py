"""A list of faults that requests take one after another, in the order in which they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from threading import Lock

from bunny_probe.phantom.faults import Fault, parse_faults

__all__ = ["Script"]


class Script:
    """Safe to extend from any thread. Once it is used up, nothing goes wrong any more."""

    def __init__(self, faults: Iterable[str] = ()) -> None:
        self._lock = Lock()
        self._left: deque[tuple[Fault, ...]] = deque()
        self.extend(faults)

    def extend(self, faults: Iterable[str]) -> None:
        """Adds entries, each as the header takes it; "none" lets one request pass. Raises UsageError."""
        parsed = [parse_faults(fault) for fault in faults]
        with self._lock:
            self._left.extend(parsed)

    def clear(self) -> None:
        with self._lock:
            self._left.clear()

    def take(self) -> tuple[Fault, ...]:
        with self._lock:
            return self._left.popleft() if self._left else ()

    def __len__(self) -> int:
        return len(self._left)
