"""Family yours: the user's own documents and questions, with the coordinates of the other families.

    yours/documents   our anchors, or the user's, planted into the user's documents
    yours/questions   the user's question and answer pairs, each fact planted at a depth

Paths are taken from the folder that the suite file lies in. The files are read when the suite is; probes
know them by their content, so that the same files give the same ids wherever they lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bunny_probe.errors import SuiteError
from bunny_probe.families.base import Cell, Parameter, Params, cells, derive_seed, task
from bunny_probe.families.planting import Fact, facts, in_document, insertions, planted
from bunny_probe.records import Expectation, Filler, Insertion, Probe, Recipe
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, domains
from bunny_probe.text.documents import load_documents, read_jsonl
from bunny_probe.text.wording import fields_of, wording

__all__ = ["documents", "questions"]

_MAX_MB = Parameter(64, "largest file that is read, in megabytes", low=1, high=4096)


@task(
    "yours",
    "documents",
    summary="anchors planted into your own documents, each asked for in turn",
    scorer="anchor",
    parameters={
        "path": Parameter("", "file, folder or glob of .txt, .md and .jsonl files, from the suite's folder"),
        "field": Parameter("text", "member of a JSONL line that holds the text"),
        "max_mb": _MAX_MB,
        "plant": Parameter("", "sentence to plant, with {key} and {value}; empty: an access code"),
        "question": Parameter("", "question about it, with {key}; empty: the access code's"),
        "keys": Parameter((), "your own keys, one for each depth; empty: ours", like=str),
        "values": Parameter((), "your own values, one for each key; empty: ours", like=str),
    },
    uses=("lengths", "depths", "languages"),
    max_tokens=32,
)
def documents(entry: Entry, params: Params) -> Iterator[Probe]:
    """As position/single: an anchor at each depth of one document, and a probe for each."""
    depths = entry.depths or (0.1, 0.3, 0.5, 0.7, 0.9)
    _templates(entry, params)
    digest = load_documents(
        _path(entry, params["path"]), field=params["field"], max_bytes=params["max_mb"] * 1_000_000
    )
    for cell in cells(entry):
        found = _anchors(entry, params, cell, len(depths))
        ask = params["question"] or wording(cell.language, "code")["question"]
        for asked, (fact, depth) in enumerate(zip(found, depths, strict=True)):
            yield in_document(
                cell,
                "yours",
                "documents",
                texts=insertions(found, depths),
                question=ask.format(key=fact.key),
                expectation=Expectation(
                    "anchor",
                    answers=(fact.value,),
                    distractors=tuple(other.value for other in found if other is not fact),
                ),
                depth=depth,
                max_tokens=max(32, 2 * max(len(fact.value) for fact in found)),
                anchors=planted(found, depths, [asked]),
                filler=Filler("documents", cell.language, "", cell.seed, {"digest": digest}),
                head=wording(cell.language, "yours")["head"],
            )


@task(
    "yours",
    "questions",
    summary="your own questions and answers: the fact planted at each depth, or asked as they are",
    scorer="anchor",
    parameters={
        "path": Parameter("", "JSONL file with question, answer, and fact, distractors as you have them"),
        "documents": Parameter("", "your documents as filling text; empty: our haystack"),
        "max_mb": _MAX_MB,
        "scorer": Parameter(
            "anchor", "how answers are judged", choices=("anchor", "exact", "number", "overlap")
        ),
    },
    max_tokens=64,
)
def questions(entry: Entry, params: Params) -> Iterator[Probe]:
    """Each pair at every length and depth; without lengths, each question at its natural length."""
    path = _path(entry, params["path"])
    pairs = [_pair(path, n, record) for n, record in read_jsonl(path, params["max_mb"] * 1_000_000)]
    if not pairs:
        raise SuiteError("holds no question", file=str(path))
    digest = ""
    if params["documents"]:
        source = _path(entry, params["documents"])
        digest = load_documents(source, max_bytes=params["max_mb"] * 1_000_000)
    for cell in cells(entry, ("",) if digest else domains):
        for number, pair in enumerate(pairs, start=1):
            own = replace(cell, seed=derive_seed(cell.seed, pair["question"]))
            yield from _asked(own, entry, params, pair, number, digest, path)


def _asked(
    cell: Cell, entry: Entry, params: Params, pair: dict[str, Any], number: int, digest: str, path: Path
) -> Iterator[Probe]:
    expectation = Expectation(
        params["scorer"], answers=tuple(pair["answer"]), distractors=tuple(pair["distractors"])
    )
    room = max(64, 2 * max(map(len, pair["answer"])))
    if cell.length is None:
        context = f"{pair['fact']}\n\n" if pair["fact"] else ""
        yield Probe(
            family="yours",
            task="questions",
            recipe=Recipe(head=context, tail=pair["question"]),
            expectation=expectation,
            length_tokens=None,
            language=cell.language,
            domain=cell.domain,
            seed=cell.seed,
            cluster=f"question {number}",
            max_tokens=room,
        )
        return
    if not pair["fact"]:
        message = "a question that is asked at a length needs a fact to plant"
        raise SuiteError(message, file=str(path), key=f"line {pair['line']}: fact")
    for depth in entry.depths or (0.5,):
        probe = in_document(
            cell,
            "yours",
            "questions",
            texts=[Insertion(pair["fact"], depth)],
            question=pair["question"],
            expectation=expectation,
            depth=depth,
            max_tokens=room,
            filler=Filler("documents", cell.language, "", cell.seed, {"digest": digest}) if digest else None,
            head=wording(cell.language, "yours")["head"] if digest else None,
        )
        yield replace(probe, cluster=f"question {number}", id="")


def _path(entry: Entry, given: str) -> Path:
    if not given:
        raise SuiteError("is missing: name a file, a folder or a glob", file=entry.where, key="params.path")
    return entry.folder / Path(given).expanduser()


def _templates(entry: Entry, params: Params) -> None:
    """Raises `SuiteError` for a template with a missing, an unknown or an open field."""
    for name, wanted in (("plant", {"key", "value"}), ("question", {"key"})):
        template = params[name]
        if not template:
            continue
        allowed = " and ".join(f"{{{field}}}" for field in sorted(wanted))
        try:
            given = fields_of(template)
        except ValueError as error:
            raise SuiteError(f"{error}; needs {allowed}", file=entry.where, key=f"params.{name}") from None
        if given != wanted:
            message = f"{template!r} must hold the fields {allowed} and no other"
            raise SuiteError(message, file=entry.where, key=f"params.{name}")
    if bool(params["plant"]) != bool(params["question"]):
        raise SuiteError("plant and question go together", file=entry.where, key="params.plant")


def _anchors(entry: Entry, params: Params, cell: Cell, count: int) -> list[Fact]:
    rng = Rng(derive_seed("facts", cell.seed))
    ours = facts(rng, cell.language, count)
    plant = params["plant"] or wording(cell.language, "code")["plant"]
    keys = _given(entry, params, "keys", [fact.key for fact in ours])
    values = _given(entry, params, "values", [fact.value for fact in ours])
    return [
        Fact(key, value, plant.format(key=key, value=value)) for key, value in zip(keys, values, strict=True)
    ]


def _given(entry: Entry, params: Params, name: str, ours: list[str]) -> Sequence[str]:
    """The user's keys or values, else ours. Raises `SuiteError` for repeats and for a wrong number."""
    given: Sequence[str] = params[name]
    if not given:
        return ours
    if len(given) != len(ours):
        message = f"{len(given)} are given; allowed: exactly {len(ours)}, one for each depth"
        raise SuiteError(message, file=entry.where, key=f"params.{name}")
    for item in given:
        if given.count(item) > 1:
            raise SuiteError(f"duplicate anchor {item!r}", file=entry.where, key=f"params.{name}")
        if not item.strip():
            raise SuiteError("an anchor is empty", file=entry.where, key=f"params.{name}")
    return given


def _pair(path: Path, number: int, record: dict[str, Any]) -> dict[str, Any]:
    """A question with its answers as lists. Raises `SuiteError` naming file, line and member."""
    known = ("question", "answer", "fact", "distractors")
    for key in record:
        if key not in known:
            raise SuiteError(
                f"unknown member {key!r}; allowed: {', '.join(known)}", file=str(path), key=f"line {number}"
            )
    answer = record.get("answer")
    answers = [answer] if isinstance(answer, str) else answer
    wrong = record.get("distractors", [])
    if not isinstance(record.get("question"), str) or not record["question"].strip():
        raise SuiteError("has no question", file=str(path), key=f"line {number}: question")
    if not _texts(answers) or not answers:
        raise SuiteError(
            "has no answer (a text or a list of texts)", file=str(path), key=f"line {number}: answer"
        )
    if not _texts(wrong):
        raise SuiteError("is not a list of texts", file=str(path), key=f"line {number}: distractors")
    fact = record.get("fact", "")
    if not isinstance(fact, str):
        raise SuiteError("is not a text", file=str(path), key=f"line {number}: fact")
    return {
        "question": record["question"],
        "answer": answers,
        "distractors": wrong,
        "fact": fact,
        "line": number,
    }


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
