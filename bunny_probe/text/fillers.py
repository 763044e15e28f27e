"""Kinds of filling text: `Filler.kind` names one. Each is a stream of texts that stand one space apart.

@filler("haystack")
def haystack(filler: Filler) -> Source: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.records import Filler
from bunny_probe.text import haystack

__all__ = ["FILLERS", "Source", "filler", "source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of texts, and short ones of many different lengths that may end it."""

    blocks: Iterator[list[str]]  # may come to an end
    closers: tuple[str, ...]


FILLERS: dict[str, Callable[[Filler], Source]] = {}


def filler(kind: str) -> Callable[[Callable[[Filler], Source]], Callable[[Filler], Source]]:
    """Registers a kind of filling text. It must be a pure function of the `Filler`."""

    def register(build: Callable[[Filler], Source]) -> Callable[[Filler], Source]:
        FILLERS[kind] = build
        return build

    return register


def source(wanted: Filler) -> Source:
    """The stream that a filler names. Raises `SuiteError` for an unknown kind, language or domain."""
    if wanted.kind not in FILLERS:
        raise SuiteError(unknown_choice("kind of filler", wanted.kind, FILLERS))
    return FILLERS[wanted.kind](wanted)


@filler("haystack")
def _haystack(wanted: Filler) -> Source:
    """Varied sentences of a language and domain, without end."""
    return Source(haystack.sentences(wanted), haystack.bank(wanted.language, wanted.domain).closers)


@filler("passages")
def _passages(wanted: Filler) -> Source:
    """Short documents, each beginning with what it is about."""
    return _extra(wanted, "extra/passages")


@filler("turns")
def _turns(wanted: Filler) -> Source:
    """A conversation: each text is a request and its reply."""
    return _extra(wanted, "extra/turns")


def _extra(wanted: Filler, name: str) -> Source:
    written = haystack.bank(wanted.language, name)
    return Source(haystack.sentences(replace(wanted, domain=name)), written.closers)
