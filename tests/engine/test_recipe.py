"""The table that says in how many bits each matrix is kept."""

from __future__ import annotations

import pytest
from bunny_engine.errors import OptionError
from bunny_engine.recipe import Recipe

NAMES = ["embed", "layers.0.qkv", "layers.0.out", "layers.0.gate_up", "layers.0.down", "layers.1.qkv"]


@pytest.mark.parametrize("form", ["native", "half", "bf16", "int8", "int6", "int4"])
def test_one_word_means_every_matrix(form: str) -> None:
    """A bare form is the form of all."""
    assert set(Recipe.parse(form).forms(NAMES).values()) == {form}


def test_hybrid_is_eight_four_and_six_bits() -> None:
    """Embedding 8 bits, feed-forward 4, attention 6, a head of its own like the embedding."""
    forms = Recipe.parse("hybrid").forms([*NAMES, "head"])
    assert forms == {
        "embed": "int8",
        "head": "int8",
        "layers.0.qkv": "int6",
        "layers.1.qkv": "int6",
        "layers.0.out": "int6",
        "layers.0.gate_up": "int4",
        "layers.0.down": "int4",
    }


def test_later_rules_win_over_earlier_ones() -> None:
    """A table is read from left to right, groups and patterns alike."""
    forms = Recipe.parse("int8, mlp=int4, layers.0.down = bf16").forms(NAMES)
    assert forms["embed"] == forms["layers.0.qkv"] == "int8"
    assert (forms["layers.0.gate_up"], forms["layers.0.down"]) == ("int4", "bf16")


@pytest.mark.parametrize("text", ["", "int5", "mlp=", "=int4", "mlp=int4,", "mlp:int4", "hybrid,mlp=int4"])
def test_what_is_not_understood_is_told_with_the_choices(text: str) -> None:
    """A slip in a table is an error that lists the forms and the groups."""
    with pytest.raises(OptionError, match=r"int8.*hybrid.*embed, head, attn, mlp"):
        Recipe.parse(text)


def test_a_pattern_that_means_nothing_is_told() -> None:
    """A misspelt tensor name is never ignored; a group that a model happens to lack is no error."""
    with pytest.raises(OptionError, match=r"layers\.9\.\*.*embed"):
        Recipe.parse("layers.9.*=int4").forms(NAMES)
    assert "head" not in Recipe.parse("head=int8").forms(NAMES)


def test_different_tables_get_different_keys() -> None:
    """What two tables make never shares a file, and what is the same does."""
    keys = {
        Recipe.key(Recipe.parse(text).forms(NAMES)) for text in ("int8", "hybrid", "hybrid", "int4,embed=int8")
    }
    assert len(keys) == 3
    assert Recipe.key(Recipe.parse("mlp=int8,attn=int8,embed=int8").forms(NAMES)) == "int8"
