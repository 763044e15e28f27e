"""The questions that the decoding family asks again and again.

recall   a code from a document among two others (scorer anchor): one right answer, many wrong ones
sum      three numbers to be added (scorer number): one right answer that must be worked out
list     eight names to be copied in order (scorer items): what a penalty on repeated tokens spoils
write    two sentences on a topic (scorer repetition): free text, for loops and for exact repeats
"""

from __future__ import annotations

from collections.abc import Callable

from bunny_probe.families.base import Cell
from bunny_probe.families.stress_bank import bank, draw_facts, placed
from bunny_probe.records import Anchor, Expectation, Filler, Probe, Recipe
from bunny_probe.text.rng import Rng

__all__ = ["FORMS", "build"]

_DEPTHS = (0.3, 0.55, 0.8)
_NAMES = 8


def build(cell: Cell, task: str, form: str) -> Probe:
    """The probe of one document and form. Its variant is the form."""
    recipe, expectation, anchors, depth, max_tokens = _BUILDERS[form](cell, Rng(cell.seed))
    return Probe(
        family="decoding",
        task=task,
        recipe=recipe,
        expectation=expectation,
        length_tokens=cell.length,
        depth=depth,
        variant=form,
        language=cell.language,
        domain=cell.domain if form == "recall" or cell.length else "",
        seed=cell.seed,
        cluster=f"decoding-{form}-{cell.language}-{cell.domain}-{cell.length or 0}-{cell.seed}",
        max_tokens=max_tokens,
        anchors=anchors,
    )


_Built = tuple[Recipe, Expectation, tuple[Anchor, ...], float | None, int]


def _recall(cell: Cell, rng: Rng) -> _Built:
    facts = draw_facts(cell.language, rng, 3)
    asked = rng.below(3)
    planted = [(fact.text, depth) for fact, depth in zip(facts, _DEPTHS, strict=True)]
    wrong = tuple(fact.value for i, fact in enumerate(facts) if i != asked)
    anchors = tuple(
        Anchor(fact.key, fact.value, fact.text, depth, i == asked)
        for i, (fact, depth) in enumerate(zip(facts, _DEPTHS, strict=True))
    )
    recipe = placed(cell, planted, facts[asked].question)
    return recipe, Expectation("anchor", (facts[asked].value,), wrong), anchors, _DEPTHS[asked], 48


def _sum(cell: Cell, rng: Rng) -> _Built:
    a, b, c = (rng.between(11, 49) for _ in range(3))
    text = bank(cell.language, "decoding")["sum"]
    for name, number in (("{a}", a), ("{b}", b), ("{c}", c)):
        text = text.replace(name, str(number))
    partial = tuple(sorted({str(a + b), str(b + c), str(a + c)}))
    expectation = Expectation("number", (str(a + b + c),), partial)
    return _beside(cell, text), expectation, (), None, 48


def _list(cell: Cell, rng: Rng) -> _Built:
    texts = bank(cell.language, "decoding")
    names = rng.sample(texts["names"], _NAMES)
    text = texts["list"].replace("{names}", texts["joiner"].join(names))
    return _beside(cell, text), Expectation("items", tuple(names), params={"order": True}), (), None, 96


def _write(cell: Cell, rng: Rng) -> _Built:
    topic = rng.choice(bank(cell.language, "common")["words"]["topics"])
    text = bank(cell.language, "decoding")["write"].replace("{topic}", topic)
    return _beside(cell, text), Expectation("repetition"), (), None, 128


def _beside(cell: Cell, instruction: str) -> Recipe:
    """The instruction alone, or behind a document that it does not need."""
    if cell.length is None:
        return Recipe(instruction, "")
    common = bank(cell.language, "common")
    head, tail = (
        common["aside"].replace("{document}", ""),
        common["leave"].replace("{instruction}", instruction),
    )
    return Recipe(head, tail, Filler("haystack", cell.language, cell.domain, cell.seed))


_BUILDERS: dict[str, Callable[[Cell, Rng], _Built]] = {
    "recall": _recall,
    "sum": _sum,
    "list": _list,
    "write": _write,
}
FORMS = tuple(_BUILDERS)
