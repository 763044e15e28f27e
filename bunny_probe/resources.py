"""Finds the bundled suites, data and notebooks, in a checkout and in an installed wheel alike."""

from __future__ import annotations

from pathlib import Path

from bunny_probe.errors import BunnyError

__all__ = ["resource_dir"]

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: str) -> Path:
    """The folder `probes`, `data` or `notebooks` that belongs to this copy of the library."""
    for candidate in (_PACKAGE / "_bundled" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise BunnyError(f"the bundled folder {name!r} is missing: reinstall space-bunny")
