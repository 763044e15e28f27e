"""Family position, several values in one question: multi-value (one key) and multi-query (many keys)."""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
from bunny_probe.families.planting import VALUE_KINDS, Fact, facts, in_document, insertions, planted, values
from bunny_probe.families.position import DEPTHS
from bunny_probe.records import Expectation, Probe
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, domains
from bunny_probe.text.wording import wording

__all__ = ["multi_query", "multi_value"]

_VALUE = Parameter("code", "what the planted value is", choices=VALUE_KINDS)
_OTHERS = Parameter(2, "further anchors that are not asked for, between the others", low=0, high=100)


@task(
    "position",
    "multi_value",
    summary="one key with a value at each depth, all asked for at once",
    scorer="items",
    parameters={"value": _VALUE, "others": _OTHERS},
    max_tokens=160,
    chance=None,
)
def multi_value(entry: Entry, params: Params) -> Iterator[Probe]:
    """A random answer gives as many planted values as are wanted."""
    depths = entry.depths or DEPTHS
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("facts", cell.seed))
        words = wording(cell.language, params["value"])
        keyed = facts(rng, cell.language, 1 + params["others"], params["value"], plant="one_of")
        fresh = values(rng, cell.language, len(depths) + params["others"], params["value"])
        wanted, rest = fresh[: len(depths)], fresh[len(depths) :]
        key = keyed[0].key
        asked = [Fact(key, value, words["one_of"].format(key=key, value=value)) for value in wanted]
        other = [
            Fact(fact.key, value, words["one_of"].format(key=fact.key, value=value))
            for fact, value in zip(keyed[1:], rest, strict=True)
        ]
        places = [*depths, *((i + 0.5) / max(len(other), 1) for i in range(len(other)))]
        yield in_document(
            cell,
            "position",
            "multi_value",
            texts=insertions([*asked, *other], places),
            question=words["all_of"].format(key=key),
            expectation=Expectation(
                "items",
                answers=tuple(wanted),
                distractors=tuple(rest),
                params={"limit": len(wanted)},
                chance=len(wanted) / len(fresh),
            ),
            max_tokens=40 * len(wanted) if params["value"] in ("uuid", "sentence") else 20 * len(wanted) + 40,
            anchors=planted([*asked, *other], places, range(len(asked))),
        )


@task(
    "position",
    "multi_query",
    summary="an anchor at each depth, all asked for in one question",
    scorer="items",
    parameters={"value": _VALUE, "others": _OTHERS},
    max_tokens=160,
    chance=None,
)
def multi_query(entry: Entry, params: Params) -> Iterator[Probe]:
    """The keys are asked for in an order of their own, not that of the document."""
    depths = entry.depths or DEPTHS
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("facts", cell.seed))
        count = len(depths) + params["others"]
        found = facts(rng, cell.language, count, params["value"])
        places = [*depths, *((i + 0.5) / max(params["others"], 1) for i in range(params["others"]))]
        order = rng.shuffled(range(len(depths)))
        words = wording(cell.language, "several")
        yield in_document(
            cell,
            "position",
            "multi_query",
            texts=insertions(found, places),
            question=words[params["value"]].format(keys=words["comma"].join(found[i].key for i in order)),
            expectation=Expectation(
                "items",
                answers=tuple(found[i].value for i in order),
                distractors=tuple(fact.value for fact in found[len(depths) :]),
                params={"limit": len(depths)},
                chance=len(depths) / count,
            ),
            max_tokens=40 * len(depths) if params["value"] in ("uuid", "sentence") else 24 * len(depths),
            anchors=planted(found, places, range(len(depths))),
        )
