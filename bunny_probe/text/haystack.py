"""Varied filler text: sentences without end from a grammar of forms and word banks.

    data/haystack/<language>/common.toml      names, places, closing sentences, shared by all domains
    data/haystack/<language>/<domain>.toml    the domain's own words, phrases and sentence forms

A bank holds lists of strings. In a string `{name}` stands for an item of the list of that name, and in a
list under [patterns] # is a digit, ^ a digit from 1 to 9 and @ a capital letter. Every list that needs
expanding is expanded once into a pool; a sentence is then one form with one draw a slot, which is what
makes a million tokens take a second. A language or a domain is added by adding files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.records import Filler, content_hash
from bunny_probe.resources import resource_dir
from bunny_probe.text.rng import Rng

__all__ = ["Bank", "bank", "domains", "languages", "sentences", "title"]

_EXTRA = ("extra/passages", "extra/turns")  # banks that are no domain: filling text of single tasks
_SLOT = re.compile(r"\{(\w+)\}")
Form = tuple[str, tuple[tuple[str, ...], ...]]  # a text with %s in it, and a pool for each
_POOL = 3000  # strings a list is expanded into
_BLOCK = 2048  # sentences drawn at a time


@dataclass(frozen=True, slots=True)
class Bank:
    """What one language and domain write with."""

    language: str
    domain: str
    closers: tuple[str, ...]  # short sentences that end a document, of many different lengths
    forms: tuple[Form, ...]  # "%s shall %s." and a pool for each %s


def languages() -> list[str]:
    """Languages that the haystack can be written in."""
    return sorted(path.parent.name for path in _folder().glob("*/common.toml"))


def domains(language: str) -> list[str]:
    """Domains of a language. Raises `SuiteError` for an unknown language."""
    if language not in languages():
        raise SuiteError(unknown_choice("language", language, languages()))
    return sorted(p.stem for p in (_folder() / language).glob("*.toml") if p.stem != "common")


@lru_cache(maxsize=64)
def bank(language: str, domain: str) -> Bank:
    """The bank of a language and a domain. Raises `SuiteError` with the choices when there is none."""
    common, own = _tables(language, domain)
    lists: dict[str, list[str]] = {}
    patterned: set[str] = set()
    for part in (common, own):
        for table in ("words", "phrases", "patterns"):
            lists.update(part.get(table, {}))
        patterned.update(part.get("patterns", {}))
    grower = _Grower(f"{language}/{domain}.toml", lists, patterned)
    return Bank(
        language=language,
        domain=domain,
        closers=tuple(common["closers"]),
        forms=tuple(_capital(*grower.form(text)) for text in own["forms"]),
    )


def title(language: str, domain: str) -> str:
    """What a prompt calls a document of that domain. Raises `SuiteError` with the choices."""
    return str(_tables(language, domain)[1]["title"])


def sentences(filler: Filler) -> Iterator[list[str]]:
    """Blocks of sentences without end; the same filler gives the same sentences for ever."""
    forms = bank(filler.language, filler.domain).forms
    rng = Rng(int(content_hash(["haystack", filler.language, filler.domain, filler.seed], length=16), 16))
    while True:
        yield _drawn(rng, forms, _BLOCK)


def _drawn(rng: Rng, forms: Sequence[Form], count: int) -> list[str]:
    """`count` texts, each one form with one draw a slot; drawn form by form, which is three times as fast."""
    width = 1 + max(len(pools) for _, pools in forms)
    rows = rng.words(count * width).reshape(count, width)
    chosen = (rows[:, 0] * np.uint64(len(forms))) >> np.uint64(32)
    texts = [""] * count
    for kind, (text, pools) in enumerate(forms):
        places = np.flatnonzero(chosen == kind)
        drawn = [_items(pool, rows[places, slot]) for slot, pool in enumerate(pools, start=1)]
        values: Iterable[tuple[str, ...]] = zip(*drawn, strict=True) if pools else repeat(())
        for place, value in zip(places.tolist(), values, strict=False):
            texts[place] = text % value
    return texts


def _items(pool: tuple[str, ...], words: NDArray[np.uint64]) -> Iterator[str]:
    """An item of the pool for each draw of 32 bits."""
    return map(pool.__getitem__, ((words * np.uint64(len(pool))) >> np.uint64(32)).tolist())


def _capital(text: str, pools: tuple[tuple[str, ...], ...]) -> Form:
    """The form with a capital first letter, also where a slot stands first."""
    if not text.startswith("%s"):
        return text[0].upper() + text[1:], pools
    first = tuple(item[0].upper() + item[1:] for item in pools[0])
    return text, (first, *pools[1:])


class _Grower:
    """Expands lists into pools, each list once, from a seed of its own."""

    def __init__(self, file: str, lists: dict[str, list[str]], patterned: set[str]) -> None:
        self.file, self.lists, self.patterned = file, lists, patterned
        self.pools: dict[str, tuple[str, ...]] = {}
        self.open: list[str] = []

    def form(self, text: str) -> Form:
        slots = _SLOT.findall(text)
        fixed = _SLOT.sub("%s", text.replace("%", "%%"))
        return fixed, tuple(self.pool(name) for name in slots)

    def pool(self, name: str) -> tuple[str, ...]:
        if name in self.pools:
            return self.pools[name]
        if name not in self.lists:
            raise SuiteError(unknown_choice("slot", name, self.lists), file=self.file)
        if name in self.open:
            raise SuiteError(f"slot {name!r} stands inside itself", file=self.file)
        self.open.append(name)
        items = self.lists[name]
        if name in self.patterned or any("{" in item for item in items):
            items = self._expanded(name, items)
        self.open.pop()
        self.pools[name] = tuple(items)
        return self.pools[name]

    def _expanded(self, name: str, items: Sequence[str]) -> list[str]:
        rng = Rng(int(content_hash(["pool", self.file, name], length=16), 16))
        texts = _drawn(rng, [self.form(item) for item in items], _POOL)
        if name in self.patterned:
            texts = [rng.pattern(text) for text in texts]
        return list(dict.fromkeys(texts))  # in order of drawing, each once


@lru_cache(maxsize=64)
def _tables(language: str, domain: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what the language's domains share, the domain's own) as the files have it."""
    if domain not in domains(language) and domain not in _EXTRA:
        raise SuiteError(unknown_choice(f"domain in language {language!r}", domain, domains(language)))
    folder = _folder() / language
    return _read(folder / "common.toml"), _read(folder / f"{domain}.toml")


def _folder() -> Path:
    return resource_dir("data") / "haystack"


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)
