"""The phantom as a process of its own: what `bunny-probe phantom` and `python -m bunny_probe.phantom` run."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

from bunny_probe.errors import UsageError
from bunny_probe.phantom.behaviour import Behaviour
from bunny_probe.phantom.phantom import Phantom
from bunny_probe.phantom.presets import PRESETS
from bunny_probe.phantom.truth import Key

__all__ = ["serve"]


def serve(
    behaviours: Behaviour | Iterable[Behaviour] | None = None,
    key: Key | str | Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    ready_file: str | Path | None = None,
    script: Iterable[str] = (),
    patterns: Sequence[str] = (),
    api_key_env: str | None = None,
    quiet: bool = False,
) -> None:
    """Serves until SIGINT or SIGTERM.

    Without behaviours all the presets are served. `ready_file` gets {"url", "root", "model", "models", "pid"}
    in one step once requests are taken; the same goes to standard output as a line, unless `quiet`.
    `api_key_env` names the environment variable that holds the key clients must send. Call it from the main
    thread. Raises UsageError.
    """
    api_key = None
    if api_key_env is not None and not (api_key := os.environ.get(api_key_env)):
        raise UsageError(f"the environment variable {api_key_env} is empty: put the phantom's key there")
    phantom = Phantom(
        PRESETS.values() if behaviours is None else behaviours,
        key,
        script=script,
        patterns=patterns,
        api_key=api_key,
        host=host,
        port=port,
    )
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with phantom:
            _tell(phantom, ready_file, quiet)
            stop.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(phantom: Phantom, ready_file: str | Path | None, quiet: bool) -> None:
    facts = {
        "url": phantom.url,
        "root": phantom.root,
        "model": phantom.model,
        "models": list(phantom.behaviours),
        "pid": os.getpid(),
    }
    line = json.dumps(facts)
    if ready_file is not None:
        target = Path(ready_file)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        draft.write_text(line + "\n", "utf-8")
        draft.replace(target)
    if not quiet:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
