"""Two clauses that contradict each other, in both orders.

    rule/right_first, rule/right_last   a rule of the document decides; the right clause stands first, or last
    open/ab, open/ba                    nothing decides; the conflict itself is the answer
    control/same                        the question of `open` where both clauses agree: is an alarm false?

The two orders of a document hold the same values and share a cluster: a model that always takes the first
(or last) clause is right in one order and wrong in the other; a model that applies the rule is right in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.families.base import Cell, Parameter, Params, cells, task
from bunny_probe.families.stress_bank import DOMAINS, bank, placed
from bunny_probe.records import Expectation, Probe
from bunny_probe.suites import Entry
from bunny_probe.text.rng import Rng

__all__ = ["conflict"]

_FIRST, _LAST = 0.25, 0.75  # depths of the two clauses; the rule stands at the start, nearer to neither end


@task(
    "stress",
    "conflict",
    summary="two clauses contradict each other, in both orders: first wins, last wins, or reasoned",
    scorer="conflict",
    uses=("lengths", "languages", "domains"),
    max_tokens=64,
    chance=None,
    parameters={
        "forms": Parameter(
            ("rule", "open", "control"),
            "rule: the document decides; open: nothing does; control: nothing is in conflict",
            choices=("rule", "open", "control"),
        ),
        "scenarios": Parameter((), "ids of scenarios; none: they take turns", like=str),
    },
)
def conflict(entry: Entry, params: Params) -> Iterator[Probe]:
    for cell in cells(entry, DOMAINS):
        rng = Rng(cell.seed)
        known = bank(cell.language, "conflict")["conflict"]
        fitting = [item for item in known if item["domain"] == cell.domain]
        if params["scenarios"]:
            for wanted in params["scenarios"]:
                if wanted not in (ids := [item["id"] for item in known]):
                    raise SuiteError(unknown_choice("scenario", wanted, ids), file=entry.where, key="scenarios")
            fitting = [item for item in fitting if item["id"] in params["scenarios"]]
        if not fitting:
            continue
        item = fitting[(cell.sample // len(DOMAINS)) % len(fitting)]
        one, other = rng.sample(item["values"], 2)
        for form in params["forms"]:
            yield from _orders(cell, item, form, one, other)


def _orders(cell: Cell, item: Mapping[str, Any], form: str, one: str, other: str) -> Iterator[Probe]:
    """The probes of one form: both orders, or the one document in which nothing is in conflict."""
    question: str = item["question"]
    planted: list[tuple[str, float]] = []
    names: tuple[str, ...]
    if form == "rule":
        templates, names = (item["winner"], item["loser"]), ("right_first", "right_last")
        planted = [(item["rule"], 0.0)]
    else:
        templates, names = tuple(item["plain"]), ("ab", "ba")
        question += bank(cell.language, "conflict")["open"]
    if form == "control":
        other, names = one, ("same",)
    clauses = [
        text.replace("{value}", v.split("|")[0]) for text, v in zip(templates, (one, other), strict=True)
    ]
    for reverse, name in enumerate(names):
        order, values = (clauses[::-1], (other, one)) if reverse else (clauses, (one, other))
        decided = form != "open"
        expectation = Expectation(
            "conflict",
            answers=tuple(one.split("|")) if decided else (),
            distractors=tuple(other.split("|")) if form == "rule" else (),
            params={
                "first": values[0],
                "last": values[1],
                "reasons": item["reasons"] if form == "rule" else [],
                "open": form == "open",
                "control": form == "control",
            },
            chance=0.5 if form == "rule" else 0.0,
        )
        yield Probe(
            family="stress",
            task="conflict",
            recipe=placed(cell, [*planted, (order[0], _FIRST), (order[1], _LAST)], question),
            expectation=expectation,
            length_tokens=cell.length,
            variant=f"{form}/{name}",
            language=cell.language,
            domain=cell.domain,
            seed=cell.seed,
            cluster=f"conflict-{item['id']}-{cell.language}-{cell.length or 0}-{cell.seed}",
            max_tokens=64,
        )
