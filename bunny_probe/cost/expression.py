"""Formulas: a small, safe language of numbers, names, + - * / ^ and a few functions, with units.

One evaluator serves the cost equation (where names hold arrays of draws) and the claims audit, so what is shown
to a reader as the formula is what was computed. Nothing but arithmetic can be reached from a formula.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bunny_probe.cost.units import COUNTED, Dims, dims_text, fits_into

__all__ = ["FormulaFault", "Value", "evaluate", "fill", "names"]

_LONGEST = 500
_DEEPEST = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![A-Za-z_])"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<op>\*\*|[-+*/^(),]))"
)
_WRITTEN = str.maketrans({"×": "*", "·": "*", "−": "-", "÷": "/", "＊": "*"})


class FormulaFault(ValueError):
    """A formula that cannot be read or computed; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number, or an array of draws of it, in base units of dimension `dims`."""

    magnitude: npt.NDArray[np.float64] | float
    dims: Dims


@dataclass(frozen=True, slots=True)
class _Node:
    kind: str  # "number", "name", "call", or an operator
    text: str = ""
    children: tuple[_Node, ...] = ()


def names(formula: str) -> set[str]:
    """The names that a formula reads. Raises FormulaFault when it cannot be read."""
    found: set[str] = set()
    todo = [_Parser(formula).tree()]
    while todo:
        node = todo.pop()
        if node.kind == "name":
            found.add(node.text)
        todo.extend(node.children)
    return found - set(_CONSTANTS)


def evaluate(formula: str, known: Mapping[str, Value]) -> Value:
    """The value of `formula`; arrays are computed element by element.

    Raises FormulaFault for a syntax error, an unknown name, units that do not go together, and a result that
    is no finite number.
    """
    with np.errstate(all="ignore"):
        value = _compute(_Parser(formula).tree(), known, formula)
    if not np.all(np.isfinite(value.magnitude)):
        raise FormulaFault(f"{formula}: the result is not a finite number (a division by zero, or too large)")
    return value


def fill(formula: str, texts: Mapping[str, str]) -> str:
    """The formula as people write it, with the texts of its numbers in place of its names."""

    def number(match: re.Match[str]) -> str:
        text = texts.get(match[2], match[2])
        divides = match[1] and "/" in text  # a / b/c would read as (a / b) / c
        return (match[1] or "") + (f"({text})" if divides else text)

    filled = re.sub(r"(/ ?)?\b([A-Za-z_]\w*)\b", number, formula)
    return filled.replace("**", "^").replace("*", "×").replace(" - ", " − ")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────


class _Parser:
    """Recursive descent: sum → product → sign → power → atom."""

    def __init__(self, formula: str) -> None:
        self.formula = formula
        if not isinstance(formula, str) or not formula.strip():
            raise FormulaFault("a formula is a text such as 'tokens * bytes'")
        if len(formula) > _LONGEST:
            raise FormulaFault(f"a formula may have {_LONGEST} characters, this has {len(formula)}")
        text = formula.translate(_WRITTEN).rstrip()
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if not match:
                raise FormulaFault(f"{formula}: cannot read {text[place:].strip()[:12]!r}")
            self.tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            place = match.end()
        self.at, self.depth = 0, 0

    def tree(self) -> _Node:
        node = self._sum()
        if self.at < len(self.tokens):
            raise FormulaFault(f"{self.formula}: unexpected {self.tokens[self.at][1]!r}")
        return node

    def _take(self, *operators: str) -> str | None:
        if self.at < len(self.tokens):
            kind, text = self.tokens[self.at]
            if kind == "op" and text in operators:
                self.at += 1
                return text
        return None

    def _sum(self) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise FormulaFault(f"{self.formula}: nested more than {_DEEPEST} deep")
        node = self._product()
        while operator := self._take("+", "-"):
            node = _Node(operator, children=(node, self._product()))
        self.depth -= 1
        return node

    def _product(self) -> _Node:
        node = self._sign()
        while operator := self._take("*", "/"):
            node = _Node(operator, children=(node, self._sign()))
        return node

    def _sign(self) -> _Node:
        negative = False
        while operator := self._take("-", "+"):
            negative ^= operator == "-"
        node = self._power()
        return _Node("negative", children=(node,)) if negative else node

    def _power(self) -> _Node:
        node = self._atom()
        if self._take("^", "**"):
            self.depth += 1
            if self.depth > _DEEPEST:
                raise FormulaFault(f"{self.formula}: nested more than {_DEEPEST} deep")
            node = _Node("^", children=(node, self._sign()))
            self.depth -= 1
        return node

    def _atom(self) -> _Node:
        if self._take("("):
            node = self._sum()
            self._close()
            return node
        if self.at >= len(self.tokens):
            raise FormulaFault(f"{self.formula}: ends too early")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return _Node("number", text)
        if kind != "name":
            raise FormulaFault(f"{self.formula}: unexpected {text!r}")
        if not self._take("("):
            return _Node("name", text)
        if text not in _FUNCTIONS:
            raise FormulaFault(
                f"{self.formula}: unknown function {text!r}. Choices: {', '.join(sorted(_FUNCTIONS))}"
            )
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._close()
        return _Node("call", text, tuple(arguments))

    def _close(self) -> None:
        if not self._take(")"):
            raise FormulaFault(f"{self.formula}: a bracket is not closed")


# ── computing ───────────────────────────────────────────────────────────────────────────────────────

_CONSTANTS = {"e": math.e, "pi": math.pi}


def _compute(node: _Node, known: Mapping[str, Value], formula: str) -> Value:
    if node.kind == "number":
        return Value(float(node.text), {})
    if node.kind == "name":
        if node.text in known:
            return known[node.text]
        if node.text in _CONSTANTS:
            return Value(_CONSTANTS[node.text], {})
        raise FormulaFault(
            f"{formula}: {node.text!r} has no value. Known: {', '.join(sorted(known)) or 'none'}"
        )
    parts = [_compute(child, known, formula) for child in node.children]
    if node.kind == "call":
        return _call(node.text, parts, formula)
    first = parts[0]
    if node.kind == "negative":
        return Value(-first.magnitude, first.dims)
    second = parts[1]
    if node.kind == "*":
        return Value(first.magnitude * second.magnitude, _joined(first.dims, second.dims, 1))
    if node.kind == "/":
        return Value(np.divide(first.magnitude, second.magnitude), _joined(first.dims, second.dims, -1))
    if node.kind == "^":
        return _raised(first, second, formula)
    dims = _common(first, second, formula, "added" if node.kind == "+" else "subtracted")
    both = np.add if node.kind == "+" else np.subtract
    return Value(both(first.magnitude, second.magnitude), dims)


def _joined(first: Dims, second: Dims, sign: int) -> Dims:
    dims = dict(first)
    for base, power in second.items():
        dims[base] = dims.get(base, 0) + sign * power
    return {base: power for base, power in dims.items() if power}


def _common(first: Value, second: Value, formula: str, deed: str) -> Dims:
    if fits_into(first.dims, second.dims):
        return second.dims
    if fits_into(second.dims, first.dims):
        return first.dims
    raise FormulaFault(f"{formula}: {dims_text(first.dims)} and {dims_text(second.dims)} cannot be {deed}")


def _raised(base: Value, exponent: Value, formula: str) -> Value:
    if exponent.dims:
        raise FormulaFault(f"{formula}: an exponent must be a plain number, this is {dims_text(exponent.dims)}")
    if not base.dims:
        return Value(np.power(base.magnitude, exponent.magnitude), {})
    power = exponent.magnitude
    if not isinstance(power, float) or power != int(power) or abs(power) > 9:
        raise FormulaFault(f"{formula}: {dims_text(base.dims)} can be raised to small whole numbers only")
    return Value(
        np.power(base.magnitude, power), {name: p * int(power) for name, p in base.dims.items() if power}
    )


def _plain(function: Callable[[npt.ArrayLike], npt.NDArray[np.float64]]) -> Callable[..., Value]:
    def call(formula: str, *parts: Value) -> Value:
        (only,) = parts
        if any(base not in COUNTED for base in only.dims):
            raise FormulaFault(f"{formula}: a plain number is needed, this is {dims_text(only.dims)}")
        return Value(function(only.magnitude), only.dims if function in {np.ceil, np.floor} else {})

    return call


def _extreme(function: Callable[..., npt.NDArray[np.float64]]) -> Callable[..., Value]:
    def call(formula: str, *parts: Value) -> Value:
        value = parts[0]
        for other in parts[1:]:
            dims = _common(value, other, formula, "compared")
            value = Value(function(value.magnitude, other.magnitude), dims)
        return value

    return call


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": _plain(np.exp),
    "ln": _plain(np.log),
    "log2": _plain(np.log2),
    "log10": _plain(np.log10),
    "sqrt": _plain(np.sqrt),
    "ceil": _plain(np.ceil),
    "floor": _plain(np.floor),
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
}


def _call(name: str, parts: list[Value], formula: str) -> Value:
    if name not in {"min", "max"} and len(parts) != 1:
        raise FormulaFault(f"{formula}: {name} takes one argument, not {len(parts)}")
    return _FUNCTIONS[name](formula, *parts)
