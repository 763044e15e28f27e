"""A long benchmark in pieces: each is done once, kept as JSON, and done anew only when its code has changed."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from bunny_probe import fits

FITS = Path(fits.__file__).parent


def code_of(modules: Iterable[str], *sources: str) -> str:
    """A fingerprint of modules of `bunny_probe.fits`, of those that they import, and of other sources."""
    wanted, seen = list(modules), {}
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        text = (FITS / f"{name}.py").read_text()
        seen[name] = text
        wanted += re.findall(r"from bunny_probe\.fits\.(\w+) import", text)
    whole = "\0".join([*(seen[name] for name in sorted(seen)), *sources])
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


class Pieces:
    """A folder of finished pieces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / (re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-").lower() + ".json")

    def get(self, key: str, stamp: str, *, loose: bool = False) -> Any:
        """What the piece gave; None where it is not done, or was done by other code or at another size.

        `loose` takes any size, the part of the stamp before the hyphen.
        """
        path = self._path(key)
        if not path.exists():
            return None
        kept = json.loads(path.read_text())
        same = kept["stamp"].split("-")[-1] == stamp.split("-")[-1] if loose else kept["stamp"] == stamp
        return kept["value"] if kept["key"] == key and same else None

    def put(self, key: str, stamp: str, value: Any, seconds: float) -> None:
        path = self._path(key)
        part = path.with_suffix(".part")
        day = time.strftime("%Y-%m-%d")
        kept = {"key": key, "stamp": stamp, "day": day, "seconds": round(seconds, 1), "value": value}
        part.write_text(json.dumps(kept))
        part.replace(path)

    def run(
        self, tasks: Sequence[tuple[str, str, Any]], work: Callable[[Any], Any], *, workers: int, minutes: float
    ) -> int:
        """Do what is not done of `tasks` (key, stamp, argument); gives how many are left when time is up."""
        todo = [task for task in tasks if self.get(task[0], task[1]) is None]
        end = time.monotonic() + 60 * minutes
        with ProcessPoolExecutor(workers) as pool:
            running: dict[Any, tuple[str, str]] = {}
            while todo or running:
                while todo and len(running) < workers and time.monotonic() < end:
                    key, stamp, argument = todo.pop(0)
                    running[pool.submit(_timed, work, argument)] = (key, stamp)
                if not running:
                    break
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    key, stamp = running.pop(done)
                    value, seconds = done.result()
                    self.put(key, stamp, value, seconds)
        return len(todo)


def _timed(work: Callable[[Any], Any], argument: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(argument), time.perf_counter() - start
