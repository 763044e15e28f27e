"""Two clauses that contradict each other, in both orders.

    rule/right_first, rule/right_last   a rule of the document decides; the right clause stands first, or last
    open/ab, open/ba                    nothing decides; the conflict itself is the answer

The two orders of a document hold the same values and share a cluster: a model that always takes the first
(or last) clause is right in one order and wrong in the other; a model that applies the rule is right in both.
"""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.families.base import Parameter, Params, cells, task
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
    max_tokens=48,
    chance=None,
    parameters={
        "forms": Parameter(
            ("rule", "open"), "rule: the document decides; open: nothing does", choices=("rule", "open")
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
        shown = [value.split("|")[0] for value in (one, other)]
        for form in params["forms"]:
            if form == "rule":
                clauses = (
                    item["winner"].replace("{value}", shown[0]),
                    item["loser"].replace("{value}", shown[1]),
                )
                question, names = item["question"], ("right_first", "right_last")
                planted = [(item["rule"], 0.0)]
            else:
                clauses = tuple(
                    text.replace("{value}", v) for text, v in zip(item["plain"], shown, strict=True)
                )
                question = item["question"] + bank(cell.language, "conflict")["open"]
                names, planted = ("ab", "ba"), []
            for reverse, name in enumerate(names):
                first, last = (other, one) if reverse else (one, other)
                order = clauses[::-1] if reverse else clauses
                yield Probe(
                    family="stress",
                    task="conflict",
                    recipe=placed(cell, [*planted, (order[0], _FIRST), (order[1], _LAST)], question),
                    expectation=Expectation(
                        "conflict",
                        answers=tuple(one.split("|")) if form == "rule" else (),
                        distractors=tuple(other.split("|")) if form == "rule" else (),
                        params={
                            "first": first,
                            "last": last,
                            "reasons": item["reasons"] if form == "rule" else [],
                            "open": form == "open",
                        },
                        chance=0.5 if form == "rule" else 0.0,
                    ),
                    length_tokens=cell.length,
                    variant=f"{form}/{name}",
                    language=cell.language,
                    domain=cell.domain,
                    seed=cell.seed,
                    cluster=f"conflict-{item['id']}-{cell.language}-{cell.length or 0}-{cell.seed}",
                    max_tokens=48,
                )
