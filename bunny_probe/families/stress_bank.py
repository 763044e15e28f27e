"""What the stress tasks write with: banks by language under data/stress/, and the frame of a prompt.

    data/stress/<language>/common.toml      frames, facts, word lists
    data/stress/<language>/<task>.toml      conflict, negation, words (synonyms and slips)

A language is added by adding a folder. The surrounding text comes from the haystack of the probe's domain,
so that a stressed document reads like any other of that domain.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.families.base import Cell
from bunny_probe.records import Filler, Insertion, Recipe
from bunny_probe.resources import resource_dir
from bunny_probe.text import haystack
from bunny_probe.text.rng import Rng

__all__ = ["DOMAINS", "Fact", "bank", "draw_facts", "languages", "placed", "surrounding"]

DOMAINS = ("contract", "medical", "meeting", "operations")
_SURROUNDING = 4  # sentences around what is planted, at natural length


@dataclass(frozen=True, slots=True)
class Fact:
    """A planted fact of a stress document."""

    key: str
    value: str
    text: str
    question: str


def languages() -> list[str]:
    """Languages that the stress tasks can be written in."""
    return sorted(path.parent.name for path in (resource_dir("data") / "stress").glob("*/common.toml"))


@lru_cache(maxsize=64)
def bank(language: str, name: str) -> Mapping[str, Any]:
    """One bank of a language. Raises `SuiteError` with the choices when there is none."""
    if language not in languages():
        raise SuiteError(unknown_choice("language of family 'stress'", language, languages()))
    path = resource_dir("data") / "stress" / language / f"{name}.toml"
    if not path.is_file():
        raise SuiteError(f"family 'stress' has no {name!r} in language {language!r}")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def draw_facts(language: str, rng: Rng, count: int) -> list[Fact]:
    """Facts of one form about different places, with different codes."""
    common = bank(language, "common")
    form = rng.choice(common["fact"])
    places = rng.sample(common["words"]["places"], count)
    facts: list[Fact] = []
    while len(facts) < count:
        value = rng.pattern("@@-^###")
        if any(value == fact.value for fact in facts):
            continue
        filled = {k: v.replace("{place}", places[len(facts)]) for k, v in form.items()}
        facts.append(Fact(filled["key"], value, filled["text"].replace("{value}", value), filled["question"]))
    return facts


def surrounding(language: str, domain: str, seed: int, count: int = _SURROUNDING) -> list[str]:
    """The first sentences of the domain's haystack of this seed."""
    blocks = haystack.sentences(Filler("haystack", language, domain, seed))
    return list(islice((sentence for block in blocks for sentence in block), count))


def placed(
    cell: Cell, planted: Sequence[tuple[str, float]], question: str, *, head: str = "", tail: str = ""
) -> Recipe:
    """The recipe of a document with texts planted at depths, and a question about it.

    At natural length the document is a few sentences of the domain; where the cell has a length it is
    haystack. `head` and `tail` replace the language's own frame; the tail's {question} is filled in.
    """
    common = bank(cell.language, "common")
    before, behind = head or common["head"], (tail or common["tail"]).replace("{question}", question)
    if cell.length is not None:
        filler = Filler("haystack", cell.language, cell.domain, cell.seed)
        return Recipe(before, behind, filler, tuple(Insertion(text, depth) for text, depth in planted))
    pieces = surrounding(cell.language, cell.domain, cell.seed)
    plain = len(pieces)
    for text, depth in sorted(planted, key=lambda item: item[1], reverse=True):
        pieces.insert(round(depth * plain), text)
    return Recipe(before + common["joiner"].join(pieces) + behind, "")
