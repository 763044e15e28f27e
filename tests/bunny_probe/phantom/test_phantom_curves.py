"""Curves: the safe expressions, the tables, and what is refused."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.errors import UsageError
from bunny_probe.phantom.curves import VARIABLES, Table, evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.85 * exp(-2.3e-6 * L)", 0.85 * math.exp(-2.3e-6 * 1000)),
        ("where(depth < 0.3 or depth > 0.8, 0.95, 0.5)", 0.5),
        ("where(L > 2000, 1 / 0, 7)", 7.0),
        ("-(-2) ** 2 + 7 % 4", -1.0),
        ("min(3, 2, max(1, 5)) + clip(9, 0, 1)", 3.0),
        ("0 <= depth <= 1 and not L < 10", 1.0),
        ("log2(8) + sqrt(16) + abs(-1) + log(e) + cos(pi)", 8.0),
        ("sigmoid(0)", 0.5),
    ],
)
def test_expressions_have_the_value_of_their_arithmetic(text: str, value: float):
    """Every construct of the white list computes what it says at L = 1000, depth = 0.5."""
    assert evaluate(text, L=1000.0, depth=0.5) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "L.real", "(lambda: 1)()", "[1][0]", "'a'", "L if L else 1", "exp(x=1)",
        "exp", "L := 3", "f'{L}'", "1 @ 2", "L & 1", "~L", "exp(*L)",
         "where(1, 2)", "exp(1, 2)", "True", "1j", "",
        "L;L", "L is L", "L in L", "(" * 300 + "1" + ")" * 300, "-" * 5000 + "1", "1 +" * 600 + "1", "depht",
    ],
)  # fmt: skip
def test_everything_else_is_refused_with_a_reason(text: str):
    """No attribute, index, lambda, string, keyword or unknown name gets through."""
    with pytest.raises(UsageError, match=r"expression|curve"):
        evaluate(text, L=1000.0)


@pytest.mark.parametrize(
    "text", ["1 / (L - 1000)", "log(-L)", "9 ** 9 ** 9 ** 9", "exp(L)", "(-8) ** 0.5", "1e999"]
)
def test_a_value_that_is_no_finite_number_is_an_error_that_names_the_point(text: str):
    """Division by zero, logarithms of negatives and overflow are told, never returned."""
    with pytest.raises(UsageError, match="L=1000"):
        evaluate(text, L=1000.0)


@given(st.text(max_size=40))
def test_no_text_at_all_does_anything_but_compute_or_be_refused(text: str):
    """An expression gives a finite number or a UsageError, whatever it is."""
    with contextlib.suppress(UsageError):
        assert math.isfinite(evaluate(text, L=100.0))


@given(st.recursive(
    st.sampled_from([*VARIABLES, "1", "0.5", "2e-6", "pi"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**", "%", "<", ">="]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["exp", "abs", "tanh", "sqrt", "sigmoid"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
    ),
    max_leaves=12,
))  # fmt: skip
def test_expressions_agree_with_python(text: str):
    """Where Python has a finite value, so has the curve, and the same one."""
    names = {name: default for name, (default, _) in VARIABLES.items()} | {"L": 300.0, "depth": 0.25}
    functions = {"sigmoid": lambda x: 0.5 * (1 + math.tanh(0.5 * x)), "abs": abs, "pi": math.pi}
    functions |= {name: getattr(math, name) for name in ("exp", "tanh", "sqrt")}
    try:
        wanted = eval(text.replace("%", "-0*"), {"__builtins__": {}}, names | functions)
    except (ArithmeticError, ValueError):
        return
    if isinstance(wanted, complex) or not math.isfinite(wanted) or "%" in text:
        return
    assert evaluate(text, L=300.0, depth=0.25) == pytest.approx(float(wanted), rel=1e-9, abs=1e-12)


def test_a_table_is_linear_between_its_points_and_constant_outside():
    """Lengths are interpolated in their logarithm, depths as they are."""
    flat = Table((1024, 4096), (0.9, 0.5))
    assert [flat.at(x, 0.5) for x in (1, 1024, 2048, 4096, 1e9)] == pytest.approx([0.9, 0.9, 0.7, 0.5, 0.5])
    deep = Table((1000, 100_000), ((1.0, 0.0), (0.5, 0.5)), depths=(0.0, 1.0))
    assert deep.at(10_000, 0.25) == pytest.approx((0.75 + 0.5) / 2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"lengths": (), "values": ()},
        {"lengths": (2, 1), "values": (0.1, 0.2)},
        {"lengths": (0, 1), "values": (0.1, 0.2)},
        {"lengths": (1, 2), "values": (0.1,)},
        {"lengths": (1,), "values": ((0.1,),)},
        {"lengths": (1,), "values": (0.1,), "depths": (0.5,)},
        {"lengths": (1,), "values": ((0.1, 0.2),), "depths": (0.5,)},
        {"lengths": (1,), "values": (math.nan,)},
    ],
)
def test_tables_that_do_not_fit_together_are_refused(arguments: dict[str, tuple[float, ...]]):
    """Axes must grow, and values must be finite and as many as the axes say."""
    with pytest.raises(UsageError, match="table"):
        Table(**arguments)  # type: ignore[arg-type]
