"""Folding, sentences and speed on hostile text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import judged

from bunny_probe.scores import SCORERS
from bunny_probe.scores.text import fold, sentences, squeeze


@given(st.text(alphabet=st.characters(exclude_characters="\\")))
@settings(deadline=None)
def test_folding_twice_is_folding_once(text: str) -> None:
    """What is folded stays as it is, so that values and answers can be folded apart."""
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("ＡＢＣ１２", "abc12"),
        ("Straße", "strasse"),
        ("a\u200b\u202eb\u00ad", "ab"),
        ("x–y", "x-y"),
        ("\\u5317", "北"),
    ],
)
def test_equal_to_a_reader_is_equal_folded(left: str, right: str) -> None:
    """Width, case, invisible characters, dashes and JSON escapes make no difference."""
    assert fold(left) == fold(right)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two! Three?", 3),
        ("Dr. Smith paid 3.50 today.", 1),
        ("一句。两句!三句", 3),
        ("1. First point.\n2. Second point.", 2),
        ("Wait... what?!", 2),
        ('He said "no." Then he left.', 2),
        ("", 0),
        ("...", 0),
    ],
)
def test_sentences(text: str, count: int) -> None:
    """Sentences are counted as a person counts them."""
    assert len(sentences(text)) == count


_FLOODS = [
    (unit * (50_000 // len(unit)))
    for unit in (
        *("a", ".", "a. ", "1", "1,111", "one ", "[", "\u0301\u0316", "q x - 4 4 7 ", "not ", "\n", "**", "`"),
        *("亿", "question ", "a\n", "-\n", "| ", "\t", "answer: ", "qx-4472 ", "(", "#", ">", "\u200b"),
    )
]


@pytest.mark.parametrize("name", sorted(set(SCORERS) - {"entities", "embedding"}))
def test_time_is_linear_in_the_text(name: str) -> None:
    """No scorer has a text that makes it quadratic: 50,000 characters of any flood end at once."""
    params = {
        "conflict": {"first": "30 days", "last": "45 days"},
        "format": {"checker": "sentence_count", "args": {"exactly": 1}},
    }.get(name, {})
    for flood in _FLOODS:
        start = time.process_time()
        judged(name, flood, ["7"] if name == "number" else ["QX-4471", "B"], ["QX-4472"], **params)
        assert time.process_time() - start < 1.5, f"{name} on {flood[:12]!r}…"


def test_squeeze_keeps_letters_and_digits() -> None:
    """Only letters and digits remain."""
    assert squeeze("a-b_c 1.2 北京") == "abc12北京"
