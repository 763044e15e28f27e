"""What a family is made of: tasks, their parameters, and how they are registered.

A task is a small pure generator. It takes an `Entry` of a suite and its own checked parameters and yields
probes; it reads no clock and no file that is not part of the library, and its seeds come from `derive_seed`.

    @task("length", "single", summary="…", scorer="anchor", uses=("lengths", "depths"))
    def single(entry: Entry, params: Params) -> Iterator[Probe]: ...

Every module of this package that registers tasks is found by itself: a family is added by adding a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.records import Decoding, Probe, content_hash
from bunny_probe.suites import Entry

__all__ = ["REGISTRY", "Cell", "Parameter", "Params", "Task", "cells", "derive_seed", "task"]

Params = Mapping[str, Any]
Builder = Callable[[Entry, Params], Iterator[Probe]]
Decodings = Callable[[Entry, Params], Sequence[Decoding]]

REGISTRY: dict[tuple[str, str], Task] = {}
COORDINATES = ("lengths", "depths", "languages", "domains")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A task's own parameter. Its type is that of `default`; a tuple takes a list of its first item's type."""

    default: Any
    help: str
    low: float | None = None  # smallest allowed, of each item for a list
    high: float | None = None
    choices: tuple[Any, ...] | None = None
    like: type | None = None  # type of the value, or of a list's items, where the default cannot tell

    @property
    def allowed(self) -> str:
        """What may be given, for messages and help."""
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
        what = kind.get(self._item, f"a {self._item.__name__}")
        if self.choices is not None:
            what = "one of " + ", ".join(map(repr, self.choices))
        elif self.low is not None and self.high is not None:
            what += f" from {self.low:,} to {self.high:,}"
        elif self.low is not None:
            what += f" of at least {self.low:,}"
        return f"a list, each {what}" if isinstance(self.default, tuple) else what

    @property
    def _item(self) -> type:
        if self.like is not None:
            return self.like
        if isinstance(self.default, tuple):
            return type(self.default[0]) if self.default else str
        return type(self.default)

    def check(self, value: Any) -> Any:
        """The value as the task gets it. Raises ValueError, saying what is allowed."""
        if isinstance(self.default, tuple):
            if not isinstance(value, list | tuple):
                raise ValueError(f"{value!r} is not allowed; allowed: {self.allowed}")
            return tuple(self._checked(item, value) for item in value)
        return self._checked(value, value)

    def _checked(self, item: Any, given: Any) -> Any:
        kind = self._item
        if kind is float and isinstance(item, int) and not isinstance(item, bool):
            item = float(item)
        good = type(item) is kind
        if good and self.choices is not None:
            good = item in self.choices
        if good and self.low is not None:
            good = item >= self.low
        if good and self.high is not None:
            good = item <= self.high
        if not good:
            raise ValueError(f"{given!r} is not allowed; allowed: {self.allowed}")
        return item


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of question. `build` is pure: the same entry gives the same probes, in the same order."""

    family: str
    name: str
    summary: str  # one line, for people
    scorer: str  # primary scorer: an entry of bunny_probe.scores
    builder: Builder
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    uses: tuple[str, ...] = COORDINATES  # coordinates it varies; giving another one in a suite is a fault
    languages: tuple[str, ...] | None = None  # None: every language the haystack has
    max_tokens: int = 32  # answer tokens, unless the suite says otherwise
    chance: float | None = 0.0  # expected score of a random answer; None: each probe states its own
    shortest: int = 0  # prompt tokens below which the task has no sure answer
    decoder: Decodings | None = None  # the decodings each probe is asked with, where it is not the entry's

    def params(self, entry: Entry) -> Params:
        """The entry's parameters, checked, with the defaults filled in. Raises `SuiteError`."""
        for key in entry.params:
            if key not in self.parameters:
                what = f"parameter of {self.family}/{self.name}"
                raise SuiteError(unknown_choice(what, key, self.parameters), file=entry.where, key="params")
        values = {}
        for key, parameter in self.parameters.items():
            try:
                values[key] = parameter.check(entry.params.get(key, parameter.default))
            except ValueError as error:
                raise SuiteError(str(error), file=entry.where, key=f"params.{key}") from None
        return MappingProxyType(values)

    def build(self, entry: Entry) -> Iterator[Probe]:
        """The probes of an entry, those that share a document next to each other. Raises `SuiteError`."""
        try:
            for probe in self.builder(entry, self.params(entry)):
                wanted = entry.max_tokens or probe.max_tokens
                yield probe if wanted == probe.max_tokens else replace(probe, max_tokens=wanted, id="")
        except SuiteError as error:
            if error.file is not None:
                raise
            raise SuiteError(str(error), file=entry.where) from None

    def decodings(self, entry: Entry) -> tuple[Decoding, ...]:
        """How each probe is asked. `max_tokens` is the probe's own and is set when trials are made."""
        return tuple(self.decoder(entry, self.params(entry))) if self.decoder else (entry.decoding,)


def task(
    family: str,
    name: str,
    *,
    summary: str,
    scorer: str,
    parameters: Mapping[str, Parameter] | None = None,
    uses: tuple[str, ...] = COORDINATES,
    languages: tuple[str, ...] | None = None,
    max_tokens: int = 32,
    chance: float | None = 0.0,
    shortest: int = 0,
    decoder: Decodings | None = None,
) -> Callable[[Builder], Builder]:
    """Registers a generator as a task of a family."""

    def register(builder: Builder) -> Builder:
        if (family, name) in REGISTRY:
            raise ValueError(f"{family}/{name} is registered twice")
        REGISTRY[family, name] = Task(
            family=family,
            name=name,
            summary=summary,
            scorer=scorer,
            builder=builder,
            parameters=MappingProxyType(dict(parameters or {})),
            uses=uses,
            languages=languages,
            max_tokens=max_tokens,
            chance=chance,
            shortest=shortest,
            decoder=decoder,
        )
        return builder

    return register


def derive_seed(*parts: Any) -> int:
    """A seed of 53 bits (exact in JSON) from any JSON values, the same in every process and version."""
    return int(content_hash(list(parts), length=14), 16) >> 3


@dataclass(frozen=True, slots=True)
class Cell:
    """One document of an entry: where it stands in the design, and its seed."""

    language: str
    domain: str
    length: int | None  # prompt tokens; None: natural length
    sample: int
    seed: int


Domains = Sequence[str] | Callable[[str], Sequence[str]]


def cells(entry: Entry, domains: Domains = ("",)) -> Iterator[Cell]:
    """Every document of an entry: languages × domains × lengths × samples.

    `domains` are the task's own, or give them for a language; where the suite names none, the samples take
    turns through them. The seed does not depend on the length: a document at 4,096 tokens begins as it
    does at 1,024.
    """
    for language in entry.languages:
        own = domains(language) if callable(domains) else domains
        for chosen in entry.domains or (None,):
            for length in entry.lengths or (None,):
                for sample in range(entry.samples):
                    domain = chosen if chosen is not None else own[sample % len(own)]
                    seed = derive_seed(entry.seed, entry.family, entry.task, language, domain, sample)
                    yield Cell(language, domain, length, sample, seed)
