"""The user's own documents and questions: planted, known by content, and refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe import suites
from bunny_probe.errors import LengthError, SuiteError
from bunny_probe.families import plan
from bunny_probe.records import Message, Probe
from bunny_probe.text import render
from bunny_probe.text.documents import pieces

PROSE = "The harbour was quiet all week. Nobody slept well!\n\n# Notes\n\n- one item\n- two items, the last. "


class Words:
    """A counter that is right by inspection: a word or a sign."""

    fingerprint = "words"
    exact = True
    additive = True
    verify_below = 0
    guard = 0

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [len(re.findall(r"\w+|[^\w\s]", text)) for text in texts]

    following = counts

    def chat(self, messages: Sequence[Message]) -> int:
        return 5 + sum(self.counts([m.content for m in messages]))


def probes(folder: Path, task: str, more: str = "", **params: object) -> list[Probe]:
    listed = ", ".join(f"{key} = {json.dumps(value)}" for key, value in params.items())
    text = f'[[probe]]\nfamily = "yours"\ntask = "{task}"\n{more}\nparams = {{ {listed} }}\n'
    return [trial.probe for trial in plan(suites.parse(text, folder / "mine.toml"))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    for number in range(6):
        text = "".join(PROSE.replace("week", f"week {number}{n}") for n in range(30))
        (tmp_path / "docs" / f"{number}.md").write_text(text, "utf-8")
    (tmp_path / "docs" / "deep" / "more.txt").write_text(PROSE, "utf-8")
    return tmp_path


def test_anchors_are_planted_into_the_users_text(folder: Path) -> None:
    """Every depth is asked; the text around the anchors is the user's, line breaks and all."""
    found = probes(folder, "documents", "lengths = [900]\ndepths = [0.2, 0.8]", path="docs")
    assert [probe.depth for probe in found] == [0.2, 0.8]
    counter = Words()
    content = render(found[0], counter).messages[-1].content
    assert counter.chat(render(found[0], counter).messages) == 900
    assert "\n\n# Notes\n\n- one item\n- two items" in content
    assert all(anchor.text in content for anchor in found[0].anchors)


def test_the_same_files_give_the_same_ids_wherever_they_lie(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Probes know documents by content, not by path."""
    other = tmp_path_factory.mktemp("elsewhere")
    (folder / "docs").rename(other / "papers")
    here = probes(other, "documents", "lengths = [700]", path="papers")
    (other / "papers").rename(folder / "docs")
    there = probes(folder, "documents", "lengths = [700]", path=str(folder / "docs"))
    assert [probe.id for probe in here] == [probe.id for probe in there]


def test_files_folders_and_globs_are_taken(folder: Path) -> None:
    """A path may name one file, a folder with all below it, or a pattern."""
    for path in ("docs/1.md", "docs", "docs/*.md", "docs/**/*.txt"):
        assert probes(folder, "documents", "lengths = [256]", path=path)
    lines = [json.dumps({"body": PROSE * 9}), "", json.dumps({"body": PROSE})]
    (folder / "lines.jsonl").write_text("\n".join(lines), "utf-8")
    assert probes(folder, "documents", "lengths = [256]", path="lines.jsonl", field="body")


def test_too_little_text_is_an_error_and_never_a_short_prompt(folder: Path) -> None:
    """Documents that cannot fill the length are refused when the prompt is written."""
    (probe, *_) = probes(folder, "documents", "lengths = [4096]", path="docs/deep/more.txt")
    with pytest.raises(LengthError, match="give more documents"):
        render(probe, Words())


@pytest.mark.parametrize(
    ("write", "path", "words"),
    [
        (None, "nowhere", "no such file or folder"),
        (None, "docs/*.pdf", "holds no documents"),
        (None, "", "is missing: name a file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "bad.txt", "bad.txt: is not UTF-8 text"),
        (b"text\x00more", "bad.txt", "bad.txt: is a binary file"),
        (b"   \n", "bad.txt", "holds no text"),
        (b"{", "bad.jsonl", "line 1 is not JSON"),
        (b"[1]", "bad.jsonl", "line 1 is not a JSON object"),
        (b'{"txt": "x"}', "bad.jsonl", "line 1 has no text under 'text'"),
        (b"a" * 1_000_001, "bad.txt", "bad.txt: has 1,000,001 bytes; allowed: up to 1,000,000"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(
    folder: Path, write: bytes | None, path: str, words: str
) -> None:
    """Missing, empty, binary, damaged and oversized files are named."""
    if write is not None:
        (folder / path).write_bytes(write)
    with pytest.raises(SuiteError) as caught:
        probes(folder, "documents", "lengths = [256]", path=path, max_mb=1)
    assert words in str(caught.value)


def test_an_empty_folder_is_refused(folder: Path) -> None:
    """A folder without documents is an error that says what would be read."""
    (folder / "empty").mkdir()
    with pytest.raises(SuiteError, match=r"holds no documents; allowed: files ending in \.txt"):
        probes(folder, "documents", "lengths = [256]", path="empty")


@pytest.mark.parametrize(
    ("params", "key", "words"),
    [
        ({"plant": "It is {value}.", "question": "What of {key}?"}, "plant", "{key} and {value}"),
        ({"plant": "{key}: {value} {x}", "question": "{key}?"}, "plant", "no other"),
        ({"plant": "{key: {value}", "question": "{key}?"}, "plant", "needs {key} and {value}"),
        ({"plant": "{key} {value}.", "question": "What?"}, "question", "{key}"),
        ({"plant": "{key} {value}."}, "plant", "go together"),
        ({"keys": ["a", "a"]}, "keys", "duplicate anchor 'a'"),
        ({"values": ["a", " "]}, "values", "empty"),
        ({"keys": ["a"]}, "keys", "exactly 2"),
    ],
)
def test_bad_templates_and_anchors_are_refused(
    folder: Path, params: dict[str, object], key: str, words: str
) -> None:
    """A missing field, a field too many, and duplicate anchors are named with what is allowed."""
    with pytest.raises(SuiteError) as caught:
        probes(folder, "documents", "lengths = [256]\ndepths = [0.2, 0.8]", path="docs", **params)
    assert caught.value.key == f"params.{key}"
    assert words in str(caught.value)


def test_the_users_own_anchors_are_asked_for(folder: Path) -> None:
    """Own keys, values and wording reach the prompt and the expectation."""
    found = probes(
        folder,
        "documents",
        "lengths = [400]\ndepths = [0.2, 0.8]",
        path="docs",
        keys=["north pump", "south pump"],
        values=["ZX-1", "QP-9"],
        plant="The {key} has serial {value}.",
        question="Which serial has the {key}?",
    )
    assert found[0].expectation.answers == ("ZX-1",)
    assert found[0].expectation.distractors == ("QP-9",)
    assert "The south pump has serial QP-9." in render(found[0], Words()).messages[0].content


PAIRS = [
    {"question": "Who keeps the key?", "answer": "Ada", "fact": "Ada keeps the key.", "distractors": ["Bob"]},
    {"question": "Where is it?", "answer": ["in Oslo", "Oslo"], "fact": "It is in Oslo."},
]


def test_own_questions_are_planted_or_asked_as_they_are(folder: Path) -> None:
    """With lengths: the fact at each depth, in our haystack or the user's documents; without: as it is."""
    (folder / "qa.jsonl").write_text("\n".join(map(json.dumps, PAIRS)), "utf-8")
    natural = probes(folder, "questions", path="qa.jsonl")
    assert [render(p, Words()).messages[0].content for p in natural] == [
        "Ada keeps the key.\n\nWho keeps the key?",
        "It is in Oslo.\n\nWhere is it?",
    ]
    for more in ({}, {"documents": "docs"}):
        found = probes(folder, "questions", "lengths = [500]\ndepths = [0.0, 1.0]", path="qa.jsonl", **more)
        assert [(p.depth, p.expectation.answers) for p in found] == [
            (0.0, ("Ada",)),
            (1.0, ("Ada",)),
            (0.0, ("in Oslo", "Oslo")),
            (1.0, ("in Oslo", "Oslo")),
        ]
        assert "Ada keeps the key." in render(found[0], Words()).messages[0].content


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"question": "x?"}, "line 1: answer"),
        ({"answer": "x"}, "line 1: question"),
        ({"question": "x?", "answer": []}, "line 1: answer"),
        ({"question": "x?", "answer": [1]}, "line 1: answer"),
        ({"question": "x?", "answer": "y", "fact": 3}, "line 1: fact"),
        ({"question": "x?", "answer": "y", "distractors": "z"}, "line 1: distractors"),
        ({"question": "x?", "answer": "y", "facts": "z"}, "unknown member 'facts'"),
        ({"question": "x?", "answer": "y"}, "needs a fact"),
    ],
)
def test_a_bad_pair_is_refused_with_its_line(folder: Path, record: dict[str, object], words: str) -> None:
    """Each fault of a question file names the file, the line and the member."""
    (folder / "qa.jsonl").write_text(json.dumps(record), "utf-8")
    with pytest.raises(SuiteError) as caught:
        probes(folder, "questions", "lengths = [400]", path="qa.jsonl")
    assert words in str(caught.value)
    assert "qa.jsonl" in str(caught.value)


@given(st.lists(st.text(alphabet=st.sampled_from("ab. \n!?。字，\t\"'"), max_size=60), min_size=1, max_size=4))
def test_cutting_loses_nothing(texts: list[str]) -> None:
    """Joined with spaces, the pieces hold every character of the texts that is not white space."""
    joined = " ".join(pieces(texts))
    assert "".join(joined.split()) == "".join("".join(texts).split())
