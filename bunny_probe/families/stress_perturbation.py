"""Sensitivity to damage: one document and question, damaged more and more, the answer always the same.

Every intensity of a document shares its cluster with the undamaged twin (variant `none/0`), so that
sensitivity is a paired difference. The planted value itself is never damaged.
"""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Parameter, Params, cells, task
from bunny_probe.families.stress_bank import DOMAINS, bank, draw_facts, surrounding
from bunny_probe.families.stress_perturb import KINDS, perturb
from bunny_probe.records import Anchor, Expectation, Probe, Recipe
from bunny_probe.suites import Entry
from bunny_probe.text.rng import Rng

__all__ = ["perturbation"]


@task(
    "stress",
    "perturbation",
    summary="typos, case, spacing, synonyms and order, in a stated amount: how fast does the answer go wrong?",
    scorer="anchor",
    uses=("languages", "domains"),
    parameters={
        "kinds": Parameter(KINDS, "which damage", choices=KINDS),
        "intensities": Parameter((0.1, 0.3, 0.6), "shares of the units that are damaged", low=0.001, high=1.0),
        "sentences": Parameter(8, "sentences of the document", low=2, high=2_000),
    },
)
def perturbation(entry: Entry, params: Params) -> Iterator[Probe]:
    for cell in cells(entry, DOMAINS):
        rng = Rng(cell.seed)
        facts = draw_facts(cell.language, rng, 3)
        common = bank(cell.language, "common")
        pieces = surrounding(cell.language, cell.domain, cell.seed, params["sentences"])
        for fact in facts:
            pieces.insert(rng.below(len(pieces) + 1), fact.text)
        asked = facts[0]
        depth = pieces.index(asked.text) / (len(pieces) - 1)
        document = common["joiner"].join(pieces)
        values = [fact.value for fact in facts]
        plan = [("none", 0.0), *((kind, x) for kind in params["kinds"] for x in params["intensities"])]
        for kind, intensity in plan:
            damaged, question = document, asked.question
            if kind != "none":
                damaged, question = (
                    perturb(text, kind, intensity, seed=cell.seed, language=cell.language, protected=values)
                    for text in (document, asked.question)
                )
            yield Probe(
                family="stress",
                task="perturbation",
                recipe=Recipe(common["head"] + damaged + common["tail"].replace("{question}", question), ""),
                expectation=Expectation("anchor", (asked.value,), tuple(values[1:])),
                length_tokens=None,
                depth=round(depth, 4),
                variant=f"{kind}/{intensity:g}",
                language=cell.language,
                domain=cell.domain,
                seed=cell.seed,
                cluster=f"perturbation-{cell.language}-{cell.domain}-{cell.seed}",
                max_tokens=48,
                anchors=tuple(Anchor(f.key, f.value, f.text, None, f is asked) for f in facts),
            )
