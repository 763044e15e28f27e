"""The format checkers on hostile text, and their arguments."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import judged

from bunny_probe.errors import UsageError
from bunny_probe.families.stress_format import catalogue
from bunny_probe.scores.format import check_format
from bunny_probe.scores.formats import CHECKERS

INSTRUCTIONS = [*catalogue("en").values(), *catalogue("zh").values()]
BY_CHECKER = {instruction.checker: instruction for instruction in INSTRUCTIONS}
FLOODS = [
    unit * (12_000 // len(unit))
    for unit in (
        *(
            ".",
            "a ",
            "a\n",
            "\n a",
            "```\n",
            "```a\nb\n",
            "**",
            "[",
            "{",
            "<a>",
            "</a>",
            "| - ",
            "|-|\n",
            "- a\n",
        ),
        *(
            "1. ",
            "1",
            ",",
            '"',
            "#",
            "> ",
            "[ ] ",
            "a: b\n",
            "雨",
            "雨。",
            "\t",
            "(",
            "a_",
            "a-",
            "A",
            "=",
            "💧",
        ),
    )
]


@pytest.mark.parametrize("name", sorted(CHECKERS))
def test_checkers_are_linear(name: str) -> None:
    """No flood of marks makes a checker slow, alone or between two words."""
    instruction = BY_CHECKER[name]
    for flood in FLOODS:
        for text in (flood, f"<answer>{flood}</answer>"):
            start = time.process_time()
            check_format(name, instruction.args, text)
            assert time.process_time() - start < 0.5, (name, flood[:6])


@given(st.sampled_from(INSTRUCTIONS), st.text(max_size=200))
@settings(deadline=None)
def test_any_text_is_judged_alike_with_space_around_it(instruction: object, text: str) -> None:
    """No text breaks a checker; outer white space never matters; every verdict has its reason."""
    name, args = instruction.checker, instruction.args  # type: ignore[attr-defined]
    verdict = check_format(name, args, text)
    assert verdict.reason
    assert check_format(name, args, f"\n {text}\n\n") == verdict


@given(st.sampled_from(INSTRUCTIONS))
@settings(deadline=None)
def test_an_empty_answer_is_in_no_form(instruction: object) -> None:
    """Nothing passes nothing: a checker must see the form, not the lack of faults."""
    name, args = instruction.checker, instruction.args  # type: ignore[attr-defined]
    at_most_alone = set(args) <= {"at_most", "spaces", "punctuation"} and "at_most" in args
    assert at_most_alone or not check_format(name, args, "").holds


def test_arguments_are_checked() -> None:
    """An unknown, missing or ill-typed argument is named with what is taken."""
    with pytest.raises(UsageError, match=r"unknown argument .*'item'.*Did you mean 'items'"):
        check_format("numbered_list", {"item": 3}, "x")
    with pytest.raises(UsageError, match="needs the argument 'items'"):
        check_format("separated", {}, "x")
    with pytest.raises(UsageError, match="it takes int"):
        check_format("line_length", {"at_most": "60"}, "x")
    with pytest.raises(UsageError, match="needs 'exactly', 'at_least' or 'at_most'"):
        check_format("word_count", {}, "x")
    with pytest.raises(UsageError, match="unknown numbering style"):
        check_format("numbered_list", {"style": "1-"}, "x")
    with pytest.raises(UsageError, match="unknown JSON type"):
        check_format("json_array", {"kind": "text"}, "[1]")


def test_several_rules_must_all_hold() -> None:
    """With `also`, the first rule that fails is the reason."""
    params = {
        "checker": "line_count",
        "args": {"exactly": 2},
        "also": [{"checker": "casing", "args": {"case": "lower"}}],
    }
    assert judged("format", "a\nb", **params).label == "pass"
    failed = judged("format", "A\nb", **params)
    assert (failed.label, failed.details["checker"]) == ("fail", "casing")


@pytest.mark.parametrize(
    ("name", "args", "text", "holds"),
    [
        ("json_object", {}, '```json\n{"a": 1}\n```', True),
        ("json_object", {}, 'Here: {"a": 1}', False),
        ("json_object", {}, '{"a": NaN}', False),
        ("json_object", {}, "[" * 100_000, False),
        ("json_object", {"keys": {"a": "number"}}, '{"a": true}', False),
        ("numbered_list", {"items": 2}, "Sure:\n1. **a**\n2. b\nBye", True),
        ("numbered_list", {"items": 2, "only": True}, "Sure:\n1. a\n2. b", False),
        ("numbered_list", {"items": 2}, "1.5 apples\n2. b", False),
        ("numbered_list", {"items": 2}, "2. b\n1. a", False),
        ("numbered_list", {"items": 2, "style": "(1)"}, "（1）雨\n（2）云", True),
        ("word_count", {"exactly": 3}, "mother-in-law don't care", True),
        ("word_count", {"exactly": 4}, "雨 rain 云!", False),
        ("word_count", {"exactly": 3}, "雨 rain 云!", True),
        ("sentence_count", {"exactly": 1}, "Dr. Ames paid $3.50.", True),
        ("table", {"rows": 1, "columns": 2}, "| a | b |\n|---|:-:|\n| 1 | 2 |", True),
        ("csv_rows", {"rows": 2, "columns": 2}, 'a,b\n"x, y",2', True),
        ("date", {"form": "YYYY-MM-DD"}, "2023-02-30", False),
        ("date", {"form": "YYYY-MM-DD"}, "**2023-02-28**.", True),
        ("date", {"form": "HH:MM"}, "25:00", False),
        ("pattern", {"form": "yes_no"}, "Yes.", True),
        ("casing", {"case": "upper"}, "IT'S 5 O'CLOCK", True),
        ("casing", {"case": "title"}, "Don't Stop Now", True),
        ("ordered", {"by": "ascending", "separator": ","}, "1, 2, 10", True),
        ("ordered", {"by": "alphabetical"}, "ant\nbee\ncat", True),
        ("ends_with", {"ending": "That is all."}, "Rain. That is all.", True),
        ("wrapped", {"left": '"'}, '"Rain"', True),
        ("wrapped", {"left": '"'}, '"', False),
        ("code_block", {"language": "python"}, "```python\nx\n```\n```python\ny\n```", False),
    ],
)
def test_checkers_judge_as_people_do(name: str, args: dict[str, object], text: str, holds: bool) -> None:
    """Cases where a careless checker and a person part."""
    verdict = check_format(name, args, text)
    assert verdict.holds is holds, verdict.reason
