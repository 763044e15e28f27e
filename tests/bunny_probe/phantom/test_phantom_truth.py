"""Where the phantom has its right answers from, and that its right and wrong answers are judged so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.errors import UsageError
from bunny_probe.phantom import Key, Truth, prompt_hash
from bunny_probe.phantom.finder import compile_patterns, find_truth
from bunny_probe.phantom.wording import made_up, right, wrong
from bunny_probe.records import (
    Attempt,
    Decoding,
    Expectation,
    Message,
    Observation,
    Outcome,
    Probe,
    Recipe,
    content_hash,
)
from bunny_probe.scores import score


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text()), max_size=4))
def test_prompt_hashes_are_those_of_the_records(chat: list[tuple[str, str]]):
    """SHA-256 over the canonical JSON of the messages, whatever characters they hold."""
    messages = [Message(role, content) for role, content in chat]  # type: ignore[arg-type]
    assert prompt_hash(chat) == content_hash(messages, length=64)


def test_a_lone_surrogate_is_hashed_as_the_records_hash_it():
    """Text that is no UTF-8 has a hash too."""
    assert prompt_hash([("user", "\ud800")]) == content_hash([Message("user", "\ud800")], length=64)


def key_of(**row: Any) -> Truth | None:
    chat = [("system", "Be brief."), ("user", "Where?")]
    messages = [{"role": role, "content": content} for role, content in chat]
    return Key([{"messages": messages, **row}]).find(chat)


def test_a_key_is_read_with_its_answers_distractors_and_facts():
    """The export's fields arrive, depth and scorer among them."""
    truth = key_of(
        id=7,
        family="length",
        task="single",
        depth=0.25,
        expected={"answers": ["A"], "distractors": ["B"], "scorer": "items", "params": {"order": True}},
    )
    assert truth is not None
    assert (truth.answers, truth.distractors, truth.depth, truth.every) == (("A",), ("B",), 0.25, True)
    assert truth.facts == {"id": "7", "family": "length", "task": "single"}
    assert truth.params == {"order": True}


@pytest.mark.parametrize("expected", ["A", ["A"], {"answers": ["A"]}, {"answers": "A"}])
def test_expected_may_be_a_text_a_list_or_an_object(expected: Any):
    """Short forms mean what they say."""
    truth = key_of(expected=expected)
    assert truth is not None
    assert truth.answers == ("A",)


def test_prompts_are_matched_by_hash_alone_and_by_text_where_roles_are_lost():
    """A key line may hold the hash instead of the prompt; a bare prompt matches its chat of one message."""
    chat = [("user", "Long  question")]
    by_hash = Key([{"prompt_hash": prompt_hash(chat), "expected": "A"}])
    assert by_hash.find(chat) is not None
    by_prompt = Key([{"prompt": "Long  question", "expected": "A"}])
    assert by_prompt.find(chat) is not None
    assert by_prompt.find([("user", "Long  "), ("user", "question")]) is not None
    assert by_prompt.find([("user", "Another question")]) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "an object is wanted"),
        ('{"expected": "A"}', "needs messages"),
        ('{"messages": "x", "expected": "A"}', "messages must be a list"),
        ('{"messages": [{"role": "user"}], "expected": "A"}', "'content' is missing"),
        ('{"prompt": "x", "expected": 3}', "expected must be"),
        ('{"prompt": "x", "expected": [3]}', "answers must be"),
        ('{"prompt": "x", "expected": "A", "depth": "deep"}', "depth must be"),
        ('{"prompt": "x", "expected": {"params": 3}}', "params must be"),
    ],
)
def test_a_broken_key_line_is_told_with_its_number(tmp_path: Path, line: str, reason: str):
    """The message names file, line and fault."""
    path = tmp_path / "key.jsonl"
    path.write_text('{"prompt": "fine", "expected": "A"}\n' + line + "\n")
    with pytest.raises(UsageError, match=f"key.jsonl, line 2.*{reason}"):
        Key.load(path)


def test_a_key_file_that_is_not_there_is_told(tmp_path: Path):
    """Before anything is served."""
    with pytest.raises(UsageError, match=r"none\.jsonl"):
        Key.load(tmp_path / "none.jsonl")


# ── finding ─────────────────────────────────────────────────────────────────────────────────────────

FILLER = (
    "The meeting in room 12 took until 17:30 and cost $1,250.00. Section 4 of the contract was read aloud. "
)


@pytest.mark.parametrize(
    ("facts", "question", "answer"),
    [
        (["The access code for Oslo is KX-4410-T.", "The access code for Rome is ZB-9982-Q."],
         "What is the access code for Oslo? Answer with the code only.", "KX-4410-T"),
        (["The vault number of Tallinn is 839214.", "The vault number of Riga is 771203."],
         "State the vault number of Riga.", "771203"),
        (["Reference for the heron project: 7F3A91C2.", "Reference for the otter project: 9B22D0E7."],
         "Which reference belongs to the otter project?", "9B22D0E7"),
        (["The password for Thistle Manor is pineapple.", "The password for Otter Abbey is octopus."],
         "Question: What is the password for Otter Abbey? Reply with the password only.", "octopus"),
        (["雪松桥的口令是指南针。", "芦花园的口令是冰川。"], "问题： 芦花园的口令是什么？只回答口令。", "冰川"),
        (["The device in Velvet Bay has the identifier a3dba2dd-3da1-4c3e-2062-555dd920a811.",
          "The device in Velvet Haven has the identifier df90cd75-a536-e6d1-0cf1-0a006ea3d3c1."],
         "What is the identifier of the device in Velvet Bay?", "a3dba2dd-3da1-4c3e-2062-555dd920a811"),
        (["北京仓库的密码是 QX-7741-K。", "上海仓库的密码是 WE-1180-P。"],
         "上海仓库的密码是什么？只回答密码。", "WE-1180-P"),
        (["合同编号HT-2024-0931由王芳保管。", "合同编号HT-2024-0777由李强保管。"],
         "李强保管的合同编号是多少？", "HT-2024-0777"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("paragraph", [True, False])
def test_plain_anchors_are_found_in_the_prompt(facts: list[str], question: str, answer: str, paragraph: bool):
    """The code whose sentence shares the rare words of the question; the other one is the distractor."""
    between = "\n\n" if paragraph else " "
    prompt = FILLER * 3 + facts[0] + " " + FILLER * 3 + facts[1] + " " + FILLER * 2 + between + question
    truth = find_truth([("system", "You are helpful."), ("user", prompt)])
    assert truth.answers == (answer,)
    assert len(truth.distractors) == 1
    assert truth.depth == pytest.approx(prompt.index(answer) / len(prompt), abs=0.15)


def test_a_prompt_without_anything_to_find_gives_nothing():
    """Prose, an empty prompt, or codes that share no word with the question."""
    for prompt in ("", "Write a poem.", FILLER * 4, "KX-4410-T\n\nWhy is the sky blue?"):
        assert find_truth([("user", prompt)]).answers == ()


def test_patterns_come_first_and_name_the_value():
    """A table of (key, value) patterns finds values that look like words."""
    patterns = compile_patterns([r"The magic word of (?P<key>\w+) is (?P<value>\w+)\."])
    body = "The magic word of Anna is birch. The magic word of Annabel is larch.\n\nWhat is Annabel's word?"
    truth = find_truth([("user", body)], patterns)
    assert (truth.answers, truth.distractors) == (("larch",), ("birch",))
    for wrong_pattern in ("(", "no groups"):
        with pytest.raises(UsageError, match="pattern"):
            compile_patterns([wrong_pattern])


@given(st.text(max_size=300))
def test_no_prompt_upsets_the_finder(prompt: str):
    """Any text gives a truth or none."""
    find_truth([("user", prompt), ("user", prompt)])


# ── wording ─────────────────────────────────────────────────────────────────────────────────────────

JUDGED = [
    Expectation("anchor", ("KX-4410-T",), ("ZB-9982-Q",)),
    Expectation("anchor", ("青石",), ("白云",)),
    Expectation("items", ("AA-11", "BB-22", "CC-33"), ("DD-44",)),
    Expectation("exact", ("birch",)),
    Expectation("number", ("4410",)),
    Expectation("choice", ("B",), params={"options": {"A": "red", "B": "green", "C": "blue"}}),
    Expectation("negation", ("spring|Spring", "autumn"), ("winter|Winter",)),
    Expectation("negation", (), ("winter",)),
    Expectation(
        "conflict", ("30 days",), params={"first": "30 days", "last": "45 days", "reasons": ["amended"]}
    ),
    Expectation("conflict", (), params={"first": "30 days", "last": "45 days", "open": True}),
    Expectation("injection", ("KX-4410-T",), params={"canaries": ["BANANA"]}),
    Expectation("overlap", ("the old bridge over the river",)),
    Expectation("repetition"),
]


@pytest.mark.parametrize("expectation", JUDGED, ids=lambda e: e.scorer)
@pytest.mark.parametrize("seed", range(4))
def test_right_answers_are_judged_right_and_wrong_ones_wrong(expectation: Expectation, seed: int):
    """The phantom's wording and the scorers, written apart, agree on what a hit and a miss are."""
    probe = Probe("f", "t", Recipe("", ""), expectation, None)
    row = json.loads(json.dumps({"prompt": "x", "expected": {
        "answers": expectation.answers, "distractors": expectation.distractors,
        "scorer": expectation.scorer, "params": dict(expectation.params),
    }}))  # fmt: skip
    truth = Key([row]).find([("user", "x")])
    assert truth is not None
    said = ", ".join(truth.answers) if truth.every else right(truth, (seed,))
    assert judged(probe, said) == 1.0
    assert judged(probe, wrong(truth, (seed,))) < (0.35 if expectation.scorer == "overlap" else 0.1)


def judged(probe: Probe, text: str) -> float:
    attempt = Attempt(Outcome.ANSWERED, "", text=text)
    observation = Observation(probe.id, "e", Decoding(), 0, attempt, 1, "", None)
    value = score(probe, observation).value
    assert value is not None
    return value


@given(st.text("ABCxyz019-漢", min_size=1, max_size=12), st.integers(0, 99))
def test_made_up_values_are_none_of_the_known_ones(answer: str, seed: int):
    """Neither contains the other, so that no judge can take one for the other."""
    value = made_up(answer, (answer, "AA-11"), (seed,))
    assert value
    assert answer.casefold() not in value.casefold()
    assert value.casefold() not in answer.casefold()
