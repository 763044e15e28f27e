"""Family length, reading: one document among many, a clause behind clauses, a summary, the k-th of alikes."""

from __future__ import annotations

from collections.abc import Iterator

from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
from bunny_probe.families.planting import Fact, facts, in_document, insertions, planted, spread, values
from bunny_probe.records import Anchor, Expectation, Filler, Insertion, Probe
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, domains
from bunny_probe.text.wording import anchor_words, wording

__all__ = ["clauses", "multi_document", "people", "summary", "turns"]


def people(rng: Rng, language: str, count: int) -> list[str]:
    """Names of people that no haystack bank holds; no two share a part."""
    words = anchor_words(language)
    firsts, lasts = rng.sample(words["person_first"], count), rng.sample(words["person_last"], count)
    return [first + words["gap"] + last for first, last in zip(firsts, lasts, strict=True)]


@task(
    "length",
    "multi_document",
    summary="a question about one of many short documents, the right one placed at each depth",
    scorer="anchor",
    parameters={"alike": Parameter(4, "documents of the same form about other places", low=0, high=18)},
    uses=("lengths", "depths", "languages"),
    max_tokens=24,
)
def multi_document(entry: Entry, params: Params) -> Iterator[Probe]:
    count = 1 + params["alike"]
    for cell in cells(entry):
        rng = Rng(derive_seed("documents", cell.seed))
        words = wording(cell.language, "multi_document")
        kind = rng.choice(words["kinds"])
        keys = [fact.key for fact in facts(rng, cell.language, count)]
        found = []
        for key, name in zip(keys, people(rng, cell.language, count), strict=True):
            text = words["passage"].format(
                kind=kind, key=key, value=name, year=rng.between(1850, 1990), count=rng.between(8, 90)
            )
            found.append(Fact(key, name, text))
        others = spread(rng, params["alike"])
        for depth in entry.depths or (0.5,):
            places = [depth, *others]
            yield in_document(
                cell,
                "length",
                "multi_document",
                texts=insertions(found, places),
                question=words["question"].format(kind=kind, key=keys[0]),
                expectation=Expectation(
                    "anchor",
                    answers=(found[0].value,),
                    distractors=tuple(fact.value for fact in found[1:]),
                ),
                depth=depth,
                max_tokens=24,
                anchors=planted(found, places, [0]),
                filler=Filler("passages", cell.language, "", cell.seed),
                head=words["head"],
            )


@task(
    "length",
    "turns",
    summary="the same request several times in a long conversation: the k-th reply to it",
    scorer="anchor",
    parameters={
        "alike": Parameter(4, "times that the request stands in the conversation", low=2, high=10),
        "ask": Parameter((), "which of them to ask for, from 1; none: each in turn", low=1, high=10, like=int),
    },
    uses=("lengths", "languages"),
    max_tokens=48,
    chance=None,
)
def turns(entry: Entry, params: Params) -> Iterator[Probe]:
    """A random answer is one of the replies."""
    count = params["alike"]
    for cell in cells(entry):
        rng = Rng(derive_seed("turns", cell.seed))
        words = wording(cell.language, "turns")
        key = facts(rng, cell.language, 1)[0].key
        replies = values(rng, cell.language, count, "sentence")
        places = spread(rng, count)
        texts = [words["turn"].format(key=key, value=reply) for reply in replies]
        for nth in params["ask"] or range(1, count + 1):
            if nth > count:
                continue
            yield in_document(
                cell,
                "length",
                "turns",
                texts=[Insertion(text, place) for text, place in zip(texts, places, strict=True)],
                question=words["question"].format(key=key, nth=words["ordinals"][nth - 1]),
                expectation=Expectation(
                    "anchor",
                    answers=(replies[nth - 1],),
                    distractors=tuple(reply for reply in replies if reply != replies[nth - 1]),
                    chance=1 / count,
                ),
                depth=places[nth - 1],
                variant=f"{nth} of {count}",
                max_tokens=48,
                filler=Filler("turns", cell.language, "", cell.seed),
                head=words["head"],
            )


@task(
    "length",
    "clauses",
    summary="a clause defers to one that amends a third: the figure that holds in the end",
    scorer="number",
    parameters={"decoys": Parameter(2, "further chains of clauses, for other places", low=0, high=10)},
    uses=("lengths", "languages", "domains"),
    max_tokens=24,
)
def clauses(entry: Entry, params: Params) -> Iterator[Probe]:
    """The base period, the extension and every figure of the decoys are wrong answers."""
    for cell in cells(entry, ("contract",)):
        rng = Rng(derive_seed("clauses", cell.seed))
        words = wording(cell.language, "clauses")
        chains = 1 + params["decoys"]
        keys = [fact.key for fact in facts(rng, cell.language, chains)]
        numbers = rng.sample([f"{a}.{b}" for a in range(40, 99) for b in range(1, 10)], 3 * chains)
        periods = _periods(rng, chains)
        texts = []
        for index, (key, (days, extra)) in enumerate(zip(keys, periods, strict=True)):
            named = dict(zip("abc", numbers[3 * index : 3 * index + 3], strict=True))
            texts += [
                words[kind].format(key=key, days=days, extra=extra, **named)
                for kind in ("defer", "amend", "base")
            ]
        places = rng.shuffled(spread(rng, len(texts)))
        wrong = {str(n) for days, extra in periods for n in (days, extra, days + extra)}
        answer = str(sum(periods[0]))
        yield in_document(
            cell,
            "length",
            "clauses",
            texts=[Insertion(text, place) for text, place in zip(texts, places, strict=True)],
            question=words["question"].format(key=keys[0]),
            expectation=Expectation("number", answers=(answer,), distractors=tuple(sorted(wrong - {answer}))),
            depth=places[0],
            max_tokens=24,
        )


def _periods(rng: Rng, count: int) -> list[tuple[int, int]]:
    """(days, extension) pairs in which no figure and no sum stands twice."""
    found: list[tuple[int, int]] = []
    used: set[int] = set()
    while len(found) < count:
        days, extra = rng.between(20, 160), rng.between(3, 60)
        fresh = {days, extra, days + extra}
        if len(fresh) == 3 and not fresh & used:
            found.append((days, extra))
            used |= fresh
    return found


@task(
    "length",
    "summary",
    summary="a long document summed up: which of the people in it are named",
    scorer="entities",
    parameters={"people": Parameter(6, "people that the wanted events name", low=2, high=12)},
    uses=("lengths", "languages", "domains"),
    max_tokens=256,
)
def summary(entry: Entry, params: Params) -> Iterator[Probe]:
    """The people take part in one inquiry, told in sentences that are spread through the document."""
    for cell in cells(entry, domains):
        rng = Rng(derive_seed("summary", cell.seed))
        words = wording(cell.language, "summary")
        key = facts(rng, cell.language, 1)[0].key
        names = people(rng, cell.language, params["people"])
        roles = rng.sample(words["roles"], len(names))
        places = spread(rng, len(names))
        anchors = []
        for name, role, place in zip(names, roles, places, strict=True):
            text = words["event"].format(person=name, role=role, key=key)
            anchors.append(Anchor(key, name, text, place, asked=True))
        yield in_document(
            cell,
            "length",
            "summary",
            texts=[Insertion(anchor.text, anchor.depth) for anchor in anchors],
            question=words["question"].format(key=key),
            expectation=Expectation("entities", answers=tuple(names)),
            max_tokens=max(256, 32 * len(names)),
            anchors=tuple(anchors),
        )
