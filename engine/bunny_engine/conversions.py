"""Where what was made of a model's files is kept: a folder a content, each file written whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bunny_engine.errors import DamagedWeights
from bunny_engine.fetch import Source, cache_dir

__all__ = ["conversion_dir", "written"]

_FORMAT = 2  # of what is kept: part of its key, so that a change makes a new one
_HASHED_WHOLE = 512 << 20  # bytes: larger files are told apart by both ends, size and time
_END = 8 << 20


def conversion_dir(source: Source) -> Path:
    """Where conversions of this very content are kept."""
    digest = hashlib.sha256(f"{_FORMAT}".encode())
    files = (
        [source.path]
        if source.kind == "gguf"
        else sorted(
            path for path in source.path.iterdir() if path.suffix in (".safetensors", ".json", ".jinja")
        )
    )
    for path in files:
        digest.update(path.name.encode())
        _fingerprint(path, digest)
    return cache_dir() / "converted" / f"{source.name[:40]}-{digest.hexdigest()[:20]}"


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A name to write to; the file gets `path` for its name when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _fingerprint(path: Path, digest: Any) -> None:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{size}".encode())
            if size <= _HASHED_WHOLE:
                digest.update(hashlib.file_digest(file, "sha256").digest())
                return
            digest.update(f"{os.fstat(file.fileno()).st_mtime_ns}".encode())
            digest.update(file.read(_END))
            file.seek(-_END, os.SEEK_END)
            digest.update(file.read(_END))
    except OSError as error:
        raise DamagedWeights(f"{path}: {error}") from None
