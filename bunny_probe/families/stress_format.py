"""Format instructions: asked in plain words, judged by a machine.

    probes/formats/<kind>.toml     one [[format]] an instruction: id, kind, checker, args (args_zh where the
                                   language changes them), also (further checkers), en, zh, max_tokens,
                                   and an answer that passes and one that fails

`{topic}` in an instruction is filled from the language's topics, so that every sample asks for something
else. An instruction is added by adding a table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.families.base import Cell, Parameter, Params, cells, task
from bunny_probe.families.stress_bank import DOMAINS, bank
from bunny_probe.records import Expectation, Filler, Probe, Recipe
from bunny_probe.resources import resource_dir
from bunny_probe.scores.format import check_format
from bunny_probe.suites import Entry
from bunny_probe.text.rng import Rng

__all__ = ["Instruction", "catalogue", "format_"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One format instruction in one language."""

    id: str
    kind: str
    language: str
    text: str  # with {topic}, where it has one
    checker: str
    args: Mapping[str, Any]
    also: tuple[Mapping[str, Any], ...]
    max_tokens: int
    passing: str
    failing: str

    def params(self) -> dict[str, Any]:
        """The parameters of the scorer "format"."""
        return {"checker": self.checker, "args": dict(self.args), "also": [dict(rule) for rule in self.also]}

    def holds(self, answer: str) -> bool:
        """Whether an answer is in the form."""
        rules = [(self.checker, self.args), *((rule["checker"], rule.get("args", {})) for rule in self.also)]
        return all(check_format(name, args, answer).holds for name, args in rules)


@lru_cache(maxsize=8)
def catalogue(language: str) -> Mapping[str, Instruction]:
    """Every instruction of a language by id. Raises `SuiteError` for a fault in a file."""
    found: dict[str, Instruction] = {}
    for path in sorted((resource_dir("probes") / "formats").glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["format"]:
            if language not in table:
                continue
            if table["id"] in found:
                raise SuiteError(f"{table['id']!r} stands twice", file=path.name, key="id")
            found[table["id"]] = _instruction(table, language)
    return found


def _instruction(table: Mapping[str, Any], language: str) -> Instruction:
    def own(key: str, default: Any = None) -> Any:
        return table.get(f"{key}_{language}", table.get(key, default))

    return Instruction(
        id=table["id"],
        kind=table["kind"],
        language=language,
        text=table[language],
        checker=table["checker"],
        args=own("args"),
        also=tuple(own("also", ())),
        max_tokens=table.get("max_tokens", 96),
        passing=own("pass"),
        failing=own("fail"),
    )


@lru_cache(maxsize=2048)
def _chance(language: str, name: str) -> float:
    """Share of answers which follow no instruction that pass all the same."""
    generic: Sequence[str] = bank(language, "common")["generic"]
    instruction = catalogue(language)[name]
    return sum(map(instruction.holds, generic)) / len(generic)


@task(
    "stress",
    "format",
    summary="format instructions that a machine can check: numbering, counts, symbols, JSON, layout, …",
    scorer="format",
    uses=("lengths", "languages", "domains"),
    max_tokens=96,
    chance=None,
    parameters={
        "ids": Parameter((), "instructions by id; none: all of the kinds", like=str),
        "kinds": Parameter((), "kinds of instruction; none: all", like=str),
    },
)
def format_(entry: Entry, params: Params) -> Iterator[Probe]:
    for cell in cells(entry, DOMAINS):
        for instruction in _chosen(entry, params, cell.language):
            yield _probe(cell, instruction)


def _chosen(entry: Entry, params: Params, language: str) -> list[Instruction]:
    known = catalogue(language)
    kinds = sorted({instruction.kind for instruction in known.values()})
    for key, choices in (("ids", list(known)), ("kinds", kinds)):
        for wanted in params[key]:
            if wanted not in choices:
                message = unknown_choice(f"{key.rstrip('s')} of a format instruction", wanted, choices)
                raise SuiteError(message, file=entry.where, key=f"params.{key}")
    if params["ids"]:
        return [known[name] for name in params["ids"]]
    return [i for i in known.values() if not params["kinds"] or i.kind in params["kinds"]]


def _probe(cell: Cell, instruction: Instruction) -> Probe:
    common = bank(cell.language, "common")
    topics = common["words"]["topics"]
    text = instruction.text.replace("{topic}", Rng(cell.seed).choice(topics))
    if cell.length is None:
        recipe = Recipe(text, "")
    else:
        head, tail = common["aside"].replace("{document}", ""), common["leave"].replace("{instruction}", text)
        recipe = Recipe(head, tail, Filler("haystack", cell.language, cell.domain, cell.seed))
    return Probe(
        family="stress",
        task="format",
        recipe=recipe,
        expectation=Expectation(
            "format", params=instruction.params(), chance=_chance(cell.language, instruction.id)
        ),
        length_tokens=cell.length,
        variant=f"{instruction.kind}/{instruction.id}",
        language=cell.language,
        domain=cell.domain if cell.length else "",
        seed=cell.seed,
        cluster=f"format-{instruction.id}-{cell.language}-{cell.length or 0}-{cell.seed}",
        max_tokens=instruction.max_tokens,
    )
