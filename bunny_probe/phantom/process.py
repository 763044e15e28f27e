"""A phantom in a process of its own, for measuring: it shares no interpreter with the client under test."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from bunny_probe.errors import UsageError
from bunny_probe.phantom.behaviour import Behaviour

__all__ = ["PhantomProcess"]

_START_LIMIT = 30.0  # seconds


class PhantomProcess:
    """As `Phantom`, but a child process: `url`, `root`, `model`, and the counts over HTTP.

        with PhantomProcess(Behaviour(latency=Latency(base=0.2, gap=0.02))) as phantom: ...

    Raises UsageError where the child does not come up, with what it said.
    """

    def __init__(
        self,
        behaviours: Behaviour | Iterable[Behaviour] | None = None,
        key: str | Path | None = None,
        *,
        script: Iterable[str] = (),
        port: int = 0,
    ) -> None:
        if behaviours is None or isinstance(behaviours, Behaviour):
            behaviours = [behaviours or Behaviour()]
        self._settings = [behaviour.settings() for behaviour in behaviours]
        self._key, self._script, self._port = key, list(script), port
        self._child: subprocess.Popen[bytes] | None = None
        self.url = self.root = self.model = ""
        self.pid = 0

    def __enter__(self) -> PhantomProcess:
        with tempfile.TemporaryDirectory() as folder:
            models, ready, said = (Path(folder, name) for name in ("models.json", "ready.json", "stderr"))
            models.write_text(json.dumps({"model": self._settings}), "utf-8")
            command = [sys.executable, "-m", "bunny_probe.phantom", f"--behaviour={models}"]
            command += [f"--ready-file={ready}", f"--port={self._port}"]
            command += [f"--script={fault}" for fault in self._script]
            if self._key is not None:
                command.append(f"--key={self._key}")
            with said.open("wb") as stderr:
                self._child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
            self._wait(ready, said)
            facts = json.loads(ready.read_text("utf-8"))
        self.url, self.root, self.model, self.pid = facts["url"], facts["root"], facts["model"], facts["pid"]
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None

    def snapshot(self, *, log: bool = False) -> dict[str, Any]:
        """The counts; see `Stats.snapshot`."""
        return self._call("/phantom/stats" + ("?log=1" if log else ""))

    def script(self, *faults: str) -> None:
        """Adds faults that the next requests take in turn."""
        self._call("/phantom/script", {"faults": list(faults)})

    def reset(self) -> None:
        """Forgets counts, script and prefix caches."""
        self._call("/phantom/reset", {})

    def _call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.root + path, data), timeout=30) as response:
            result: dict[str, Any] = json.load(response)
        return result

    def _wait(self, ready: Path, said: Path) -> None:
        assert self._child is not None
        limit = time.monotonic() + _START_LIMIT
        while not ready.exists():
            if self._child.poll() is not None or time.monotonic() > limit:
                self.__exit__()
                raise UsageError(
                    f"the phantom did not start: {said.read_text('utf-8').strip() or 'no reason given'}"
                )
            time.sleep(0.01)
