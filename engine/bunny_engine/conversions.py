"""Where what was made of a model's files is kept: a folder a content, each file written whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from bunny_engine.errors import DamagedWeights, OptionError
from bunny_engine.fetch import Source, cache_dir

__all__ = ["conversion_dir", "written"]

_FORMAT = 3  # of what is kept: part of its key, so that a change makes a new one
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
        digest.update(_fingerprint(path))
    return cache_dir() / "converted" / f"{source.name[:40]}-{digest.hexdigest()[:20]}"


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A name to write to; the file gets `path` for its name when the block ends well. Raises OptionError."""
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OptionError(
            f"nothing can be kept in the cache, {path.parent}: {error.strerror or error}; make room or give it "
            "rights, or name another folder in the environment variable XDG_CACHE_HOME"
        ) from None


def _fingerprint(path: Path) -> bytes:
    try:
        stat = path.stat()
        return _hash_of(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise DamagedWeights(f"{path}: {error}") from None


@lru_cache(maxsize=64)
def _hash_of(path: Path, size: int, modified: int) -> bytes:
    with path.open("rb") as file:
        if size <= _HASHED_WHOLE:
            return hashlib.file_digest(file, "sha256").digest()
        digest = hashlib.sha256(f"{size} {modified}".encode())
        digest.update(file.read(_END))
        file.seek(-_END, os.SEEK_END)
        digest.update(file.read(_END))
        return digest.digest()
