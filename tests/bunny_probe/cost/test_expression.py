"""Formulas: arithmetic as Python does it, units that must go together, nothing else reachable."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.cost.expression import FormulaFault, Value, evaluate, fill, names


def _tree() -> st.SearchStrategy[str]:
    leaf = st.one_of(
        st.floats(0.01, 100).map(lambda x: f"{x:.4g}"), st.sampled_from(["a", "b"]), st.integers(1, 9).map(str)
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
            inner.map(lambda x: f"-{x}"),
            inner.map(lambda x: f"({x})^2"),
        ),
        max_leaves=8,
    )


@given(_tree())
def test_arithmetic_agrees_with_python(formula: str) -> None:
    """Precedence, signs and powers are those of Python, for every formula both can compute."""
    known = {"a": 1.7, "b": 0.3}
    try:
        wanted = eval(formula.replace("^", "**"), {"__builtins__": {}}, known)
    except (ZeroDivisionError, OverflowError):
        return
    if not math.isfinite(wanted):
        return
    found = evaluate(formula, {name: Value(value, {}) for name, value in known.items()})
    assert found.magnitude == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_power_binds_to_the_right_and_tighter_than_a_sign() -> None:
    """2^3^2 is 512 and -2^2 is -4, as in print."""
    assert evaluate("2^3^2", {}).magnitude == 512
    assert evaluate("-2^2", {}).magnitude == -4
    assert evaluate("2^-1", {}).magnitude == 0.5


def test_arrays_of_draws_are_computed_element_by_element() -> None:
    """The cost equation evaluates one formula over all draws."""
    draws = np.array([1.0, 2.0, 3.0])
    found = evaluate("ceil(x * 1.5) + 1", {"x": Value(draws, {})})
    assert np.asarray(found.magnitude).tolist() == [3.0, 4.0, 6.0]


def test_units_multiply_and_must_match_in_sums() -> None:
    """Bytes over bytes per second is seconds; seconds and bytes cannot be added."""
    known = {"a": Value(4.0, {"B": 1}), "v": Value(2.0, {"B": 1, "s": -1}), "t": Value(1.0, {"s": 1})}
    assert evaluate("a / v + t", known) == Value(3.0, {"s": 1})
    with pytest.raises(FormulaFault, match="B and s cannot be added"):
        evaluate("a + t", known)
    with pytest.raises(FormulaFault, match="plain number"):
        evaluate("exp(t)", known)
    with pytest.raises(FormulaFault, match="exponent must be a plain number"):
        evaluate("2^t", known)


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "1 +",
        "(1",
        "1)",
        "a.b",
        "a[0]",
        "lambda: 1",
        "1 if 1 else 2",
        "f(1)",
        "exp()",
        "exp(1, 2)",
        "1__0",
        "0x1",
        "a;b",
    ],
)
def test_anything_but_arithmetic_is_refused(formula: str) -> None:
    """No attribute, call, subscript or keyword can be reached."""
    with pytest.raises(FormulaFault):
        evaluate(formula, {"a": Value(1.0, {}), "b": Value(1.0, {})})


def test_filling_in_keeps_the_order_of_division() -> None:
    """A number whose text has a slash of its own is bracketed behind a slash."""
    assert fill("a / v", {"a": "3 GB", "v": "2 GB/s"}) == "3 GB / (2 GB/s)"
    assert names("a * exp(-k * e)") == {"a", "k"}
