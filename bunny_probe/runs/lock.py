"""One writer a run file: an advisory lock on a side file, which the kernel releases however the holder dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bunny_probe.errors import RunLocked

__all__ = ["WriterLock"]


class WriterLock:
    """Held from construction to `release`. The side file stays: removing it would race with the next holder.

    Raises:
        RunLocked: another process, or another store in this one, writes to the run; names its process id.
    """

    def __init__(self, run: Path) -> None:
        self._path = run.with_name(run.name + ".lock")
        self._fd: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._fd)
        except OSError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            self._fd = None
            raise RunLocked(
                f"{run} is being written by process {holder}: wait for it or stop it, or name another run file"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)  # closing releases the lock
            self._fd = None


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        # A byte far behind the text, so that the holder's process id can still be read.
        os.lseek(fd, 1024, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
