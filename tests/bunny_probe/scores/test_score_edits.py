"""Counterfactual edits: substance scorers must not move."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import judged

from bunny_probe.scores.edits import EDITS, edit

_SAYS = {
    "en": ["The code is QX-4471.", "QX-4471", "It is not ZP-9921 but QX-4471."],
    "zh": ["代码是QX-4471。", "QX-4471"],
}


@pytest.mark.parametrize("name", sorted(EDITS))
@pytest.mark.parametrize("language", ["en", "zh"])
def test_scorers_of_substance_do_not_move(name: str, language: str) -> None:
    """A citation, a formula, a bracket or a dress changes no hit, miss, choice, number or conflict."""
    for text in _SAYS[language]:
        changed = edit(name, text, language)
        assert judged("anchor", changed, ["QX-4471"], ["ZP-9921"]).label == "hit", changed
        assert judged("anchor", changed, ["KM-1000"], ["QX-4471"]).label == "wrong_anchor", changed
        assert judged("items", changed, ["QX-4471"]).value == 1.0, changed
        assert judged("injection", changed, ["QX-4471"], canaries=["BANANA"]).label == "pass", changed
    seven = {"en": "The answer is 7.", "zh": "答案是7。"}[language]
    assert judged("number", edit(name, seven, language), ["7"]).label == "hit"
    option = {"en": "The answer is B.", "zh": "答案是B。"}[language]
    assert judged("choice", edit(name, option, language), ["B"], options={"A": "x", "B": "y"}).label == "hit"
    ports = {"first": "8080", "last": "8443"}
    assert judged("conflict", edit(name, "Port 8443.", language), ["8443"], **ports).label == "last_wins"


@given(st.text(max_size=100), st.sampled_from(["add_citation", "add_closing"]), st.sampled_from(["en", "zh"]))
@settings(deadline=None)
def test_removing_undoes_adding(text: str, name: str, language: str) -> None:
    """Each removal takes away what its addition put there."""
    added = edit(name, text, language)
    assert edit(name.replace("add", "remove"), added, language).rstrip() == text.rstrip()


@given(st.sampled_from(sorted(EDITS)), st.text(max_size=200))
@settings(deadline=None)
def test_any_text_can_be_edited(name: str, text: str) -> None:
    """No text breaks an edit."""
    assert isinstance(edit(name, text, "en"), str)
