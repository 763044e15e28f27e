"""Negation with its positive twin: the same task, once with "do not mention X", once with "mention X".

A model that leaves X out in the one and gives it in the other follows the instruction; a model that always
gives it, or never, does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.families.base import Parameter, Params, cells, task
from bunny_probe.families.stress_bank import DOMAINS, bank
from bunny_probe.records import Expectation, Filler, Probe, Recipe
from bunny_probe.suites import Entry
from bunny_probe.text.rng import Rng

__all__ = ["negation"]

_TWINS = ("without", "with")


@task(
    "stress",
    "negation",
    summary="do not mention X, and its positive twin",
    scorer="negation",
    uses=("lengths", "languages", "domains"),
    max_tokens=64,
    parameters={"sets": Parameter((), "ids of sets; none: they take turns", like=str)},
)
def negation(entry: Entry, params: Params) -> Iterator[Probe]:
    for cell in cells(entry, DOMAINS):
        language_bank = bank(cell.language, "negation")
        sets = language_bank["set"]
        ids = [item["id"] for item in sets]
        for wanted in params["sets"]:
            if wanted not in ids:
                raise SuiteError(unknown_choice("set", wanted, ids), file=entry.where, key="params.sets")
        chosen = [item for item in sets if item["id"] in params["sets"]] or sets
        item = chosen[cell.sample % len(chosen)]
        member = Rng(cell.seed).choice(item["members"])
        rest = tuple(other for other in item["members"] if other != member)
        shown = member.split("|")[0]
        for twin in _TWINS:
            instruction = language_bank[twin].replace("{task}", item["task"]).replace("{member}", shown)
            without = twin == "without"
            common = bank(cell.language, "common")
            if cell.length is None:
                recipe = Recipe(instruction, "")
            else:
                head = common["aside"].replace("{document}", "")
                tail = common["leave"].replace("{instruction}", instruction)
                recipe = Recipe(head, tail, Filler("haystack", cell.language, cell.domain, cell.seed))
            yield Probe(
                family="stress",
                task="negation",
                recipe=recipe,
                expectation=Expectation(
                    "negation",
                    answers=rest if without else (member, *rest),
                    distractors=(member,) if without else (),
                    params={"share": 0.5, "must": 0 if without else 1},
                ),
                length_tokens=cell.length,
                variant=twin,
                language=cell.language,
                domain=cell.domain if cell.length else "",
                seed=cell.seed,
                cluster=f"negation-{item['id']}-{cell.language}-{cell.length or 0}-{cell.seed}",
                max_tokens=64,
            )
