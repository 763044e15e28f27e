"""Chance without state: a draw is a hash of what it is about, so it never depends on the order of arrival."""

from __future__ import annotations

import hashlib
import random

__all__ = ["digest", "generator", "uniform"]


def digest(*parts: object) -> bytes:
    """32 bytes that stand for the parts, in order."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def uniform(*parts: object) -> float:
    """A number in [0, 1), uniform over the parts."""
    return int.from_bytes(digest(*parts)[:7], "big") / 2**56


def generator(*parts: object) -> random.Random:
    """A generator of its own for these parts, for draws that are not uniform."""
    return random.Random(digest(*parts))
