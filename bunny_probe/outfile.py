"""Where a result may be written: never over a run, nor over what it is made from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bunny_probe.errors import UsageError

__all__ = ["check_outfile"]

_SQLITE = b"SQLite format 3\0"


def check_outfile(out: str | Path, sources: Iterable[str | Path] = ()) -> Path:
    """`out` as a path whose folder is there. Call it before anything is asked or written.

    Raises:
        UsageError: it is a folder, one of `sources`, a run file, or lies where nothing can be written.
    """
    path = Path(out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file in it")
        for source in sources:
            # os.path: a source whose name no disk takes is for its reader to tell, not a fault of the target
            if path.exists() and os.path.exists(source) and path.samefile(source):  # noqa: PTH110
                raise UsageError(f"{path} is what this is made from: name another file to write")
        if path.is_file():
            with path.open("rb") as file:
                if file.read(len(_SQLITE)) == _SQLITE:
                    raise UsageError(f"{path} is a run file and stays one: name another file to write")
        probe = path.with_name(f".{path.name[:40]}.writable")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    return path
