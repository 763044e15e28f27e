"""Entity recall with spaCy."""

from __future__ import annotations

import builtins
import importlib
from typing import Any

import pytest
from judged import judged

from bunny_probe.errors import MissingExtra
from bunny_probe.scores import entities

WANTED = ["Marta Halloran", "Chidi Okafor", "Pelikan Systems"]


def test_short_names_count_and_invented_ones_are_seen() -> None:
    """A surname that can mean one planted person alone counts; a stranger is told as invented."""
    pytest.importorskip("spacy")
    text = "Dr. Halloran met Chidi Okafor in Lisbon, and Pelikan Systems was sold to Brad Pitt."
    result = judged("entities", text, WANTED, ["Lisbon"])
    assert (result.value, result.details["invented"]) == (1.0, 1)
    assert judged("entities", text, WANTED, ["Lisbon"], penalty=1.0).value == pytest.approx(2 / 3)


def test_chinese_uses_what_was_planted() -> None:
    """In Chinese the planted names are found, and inventions are said to be unseen, not absent."""
    pytest.importorskip("spacy")
    result = judged("entities", "王小明与李晓红在上海签约", ["王小明", "李晓红", "青山公司"], language="zh")
    assert result.value == pytest.approx(2 / 3)
    assert result.details["invented"] is None


def test_a_missing_model_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without spaCy the scorer says how to install it, and never falls back in silence."""
    real = importlib.import_module

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith(("spacy", "en_core")):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    entities._model.cache_clear()
    monkeypatch.setattr(entities, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"space-bunny\[spacy\]"):
        judged("entities", "Marta Halloran", WANTED)
    assert builtins.__import__  # nothing global was touched
    entities._model.cache_clear()
