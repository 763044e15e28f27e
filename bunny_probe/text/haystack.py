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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.records import Filler, content_hash
from bunny_probe.resources import resource_dir
from bunny_probe.text.rng import Rng

__all__ = ["Bank", "bank", "domains", "languages", "sentences"]

_SLOT = re.compile(r"\{(\w+)\}")
_POOL = 3000  # strings a list is expanded into
_BLOCK = 512  # sentences drawn at a time


@dataclass(frozen=True, slots=True)
class Bank:
    """What one language and domain write with."""

    language: str
    domain: str
    title: str  # how a prompt calls such a document: "a contract"
    closers: tuple[str, ...]  # short sentences that end a document, of many different lengths
    forms: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]  # "%s shall %s." and a pool for each %s


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
    if domain not in domains(language):
        raise SuiteError(unknown_choice(f"domain in language {language!r}", domain, domains(language)))
    folder = _folder() / language
    common, own = (_read(folder / f"{name}.toml") for name in ("common", domain))
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
        title=own["title"],
        closers=tuple(common["closers"]),
        forms=tuple(grower.form(text) for text in own["forms"]),
    )


def sentences(filler: Filler) -> Iterator[list[str]]:
    """Blocks of sentences without end; the same filler gives the same sentences for ever."""
    forms = bank(filler.language, filler.domain).forms
    rng = Rng(int(content_hash(["haystack", filler.language, filler.domain, filler.seed], length=16), 16))
    width = 1 + max(len(pools) for _, pools in forms)
    count = len(forms)
    while True:
        rows = rng.words(_BLOCK * width).reshape(_BLOCK, width).tolist()
        block = []
        for row in rows:
            text, pools = forms[(row[0] * count) >> 32]
            block.append(text % tuple([p[(r * len(p)) >> 32] for p, r in zip(pools, row[1:], strict=False)]))
        yield block


class _Grower:
    """Expands lists into pools, each list once, from a seed of its own."""

    def __init__(self, file: str, lists: dict[str, list[str]], patterned: set[str]) -> None:
        self.file, self.lists, self.patterned = file, lists, patterned
        self.pools: dict[str, tuple[str, ...]] = {}
        self.open: list[str] = []

    def form(self, text: str) -> tuple[str, tuple[tuple[str, ...], ...]]:
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
        forms = [self.form(item) for item in items]
        patterned = name in self.patterned
        grown: dict[str, None] = {}  # in order of drawing, each once
        for _ in range(_POOL):
            text, pools = rng.choice(forms)
            text = text % tuple(rng.choice(pool) for pool in pools)
            grown[rng.pattern(text) if patterned else text] = None
        return list(grown)


def _folder() -> Path:
    return resource_dir("data") / "haystack"


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)
