"""Curves: how a rate depends on the length, the depth and the way of decoding.

A curve is given as a number, as an arithmetic expression, or as a table. Expressions are parsed with our own
white list over Python's syntax tree, so a behaviour file can compute and can do nothing else.

    0.95
    "0.85 * exp(-2.3e-6 * L)"
    "where(depth < 0.3 or depth > 0.8, 0.95, 0.5)"
    Table(lengths=(1024, 131072), values=(0.99, 0.40))
"""

from __future__ import annotations

import ast
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from bunny_probe.errors import UsageError, unknown_choice

__all__ = ["VARIABLES", "Curve", "Table", "evaluate", "evaluator"]

VARIABLES: Mapping[str, tuple[float, str]] = {
    "L": (1.0, "prompt tokens as the phantom counts them"),
    "depth": (0.5, "depth of the asked fact, 0 start to 1 end; 0.5 where it is not known"),
    "T": (0.0, "temperature of the request"),
    "repetition_penalty": (1.0, "of the request"),
    "frequency_penalty": (0.0, "of the request"),
    "presence_penalty": (0.0, "of the request"),
    "slow": (0.0, "1 where the latency law made this request a slow one, else 0"),
    "token": (0.0, "index of the answer token (entropy only)"),
}
"""What an expression may name, with the value taken where nothing is known."""

_MAX_CHARACTERS = 2_000
_MAX_DEPTH = 100
_Values: TypeAlias = Mapping[str, float]
_Evaluator: TypeAlias = Callable[[_Values], float]


@dataclass(frozen=True, slots=True)
class Table:
    """Values at lengths (and depths), linear between them in log L and in depth, constant outside.

    `values` has one number a length, or one row a length with one number a depth when `depths` is given.
    """

    lengths: tuple[float, ...]
    values: tuple[float, ...] | tuple[tuple[float, ...], ...]
    depths: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.lengths or any(not 0 < x < math.inf for x in self.lengths):
            raise UsageError("a table needs lengths, each above 0")
        for name, axis in (("lengths", self.lengths), ("depths", self.depths)):
            if any(b <= a for a, b in pairwise(axis)):
                raise UsageError(f"a table's {name} must grow from one to the next")
        if len(self.values) != len(self.lengths):
            raise UsageError(f"a table of {len(self.lengths)} lengths has {len(self.values)} values")
        for row in self.values:
            if isinstance(row, tuple) != bool(self.depths):
                raise UsageError("a table has a row of values a length if, and only if, it has depths")
            if isinstance(row, tuple) and len(row) != len(self.depths):
                raise UsageError(f"a table of {len(self.depths)} depths has a row of {len(row)} values")
            if not all(math.isfinite(x) for x in (row if isinstance(row, tuple) else (row,))):
                raise UsageError("a table's values must be finite numbers")

    def at(self, length: float, depth: float) -> float:
        logs = [math.log(x) for x in self.lengths]
        low, high, weight = _between(logs, math.log(max(length, 1e-9)))
        return (1 - weight) * self._row(low, depth) + weight * self._row(high, depth)

    def _row(self, index: int, depth: float) -> float:
        row = self.values[index]
        if not isinstance(row, tuple):
            return row
        low, high, weight = _between(list(self.depths), depth)
        return (1 - weight) * row[low] + weight * row[high]


Curve: TypeAlias = float | str | Table


def _between(axis: list[float], x: float) -> tuple[int, int, float]:
    """Neighbours of x on the axis and the weight of the upper one."""
    if x <= axis[0]:
        return 0, 0, 0.0
    if x >= axis[-1]:
        return len(axis) - 1, len(axis) - 1, 0.0
    high = bisect_right(axis, x)
    low = high - 1
    return low, high, (x - axis[low]) / (axis[high] - axis[low])


# ── evaluating ──────────────────────────────────────────────────────────────────────────────────────


def evaluate(curve: Curve, **variables: float) -> float:
    """The curve's value; variables that are not given take their default in `VARIABLES`.

    Raises UsageError where the value is not a finite number.
    """
    values = {name: variables.get(name, default) for name, (default, _) in VARIABLES.items()}
    for name in variables:
        if name not in values:
            raise UsageError(unknown_choice("variable", name, VARIABLES))
    return evaluator(curve)(values)


@lru_cache(maxsize=1024)
def evaluator(curve: Curve) -> _Evaluator:
    """A function of all the variables. Raises UsageError for an expression outside the white list."""
    if isinstance(curve, Table):
        table = curve
        return lambda v: table.at(v["L"], v["depth"])
    if isinstance(curve, str):
        return _guarded(curve, _compile(curve))
    if isinstance(curve, bool) or not isinstance(curve, int | float) or not math.isfinite(curve):
        raise UsageError(f"a curve is a finite number, an expression or a table, not {curve!r}")
    constant = float(curve)
    return lambda v: constant


def _guarded(text: str, inner: _Evaluator) -> _Evaluator:
    def run(values: _Values) -> float:
        try:
            result = inner(values)
        except (ArithmeticError, ValueError) as error:
            result, why = math.nan, f" ({error})"
        else:
            why = ""
        if isinstance(result, complex) or not math.isfinite(result):
            where = ", ".join(f"{name}={values[name]:g}" for name in ("L", "depth", "T"))
            raise UsageError(f"expression {text!r} has no finite value at {where}{why}")
        return float(result)

    return run


_FUNCTIONS: dict[str, tuple[Callable[..., float], int, int | None]] = {
    # name → function, fewest arguments, most arguments (None: any number)
    "exp": (math.exp, 1, 1),
    "log": (math.log, 1, 1),
    "log2": (math.log2, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "abs": (abs, 1, 1),
    "sin": (math.sin, 1, 1),
    "cos": (math.cos, 1, 1),
    "tanh": (math.tanh, 1, 1),
    "sigmoid": (lambda x: 0.5 * (1.0 + math.tanh(0.5 * x)), 1, 1),
    "min": (min, 2, None),
    "max": (max, 2, None),
    "clip": (lambda x, low, high: min(max(x, low), high), 3, 3),
}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: math.pow,
    ast.Mod: math.fmod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def _compile(text: str) -> _Evaluator:
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(f"an expression may have {_MAX_CHARACTERS} characters, this one has {len(text)}")
    try:
        return _Compiler(text).build(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"expression {text!r} cannot be read: {reason}") from None
    except RecursionError:
        raise UsageError(f"expression {text[:40]!r}… is nested too deeply") from None


class _Compiler:
    """Turns a syntax tree into closures. Every node kind that is not named here is refused."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0

    def refuse(self, node: ast.AST, reason: str = "") -> UsageError:
        what = reason or f"{type(node).__name__} is not allowed"
        return UsageError(
            f"expression {self.text!r}: {what}. Allowed: numbers, {', '.join(VARIABLES)}, "
            f"+ - * / ** %, comparisons, and/or/not, where(condition, a, b), {', '.join(sorted(_FUNCTIONS))}"
        )

    def build(self, node: ast.expr) -> _Evaluator:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.refuse(node, f"it is nested more than {_MAX_DEPTH} deep")
        try:
            return self.build_one(node)
        finally:
            self.depth -= 1

    def build_one(self, node: ast.expr) -> _Evaluator:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                number = float(value)
                return lambda v: number
            case ast.Name(id=name):
                return self.name(node, name)
            case ast.UnaryOp(op=op, operand=operand):
                return self.unary(op, self.build(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                apply, a, b = _ARITHMETIC[type(op)], self.build(left), self.build(right)
                return lambda v: apply(a(v), b(v))
            case ast.BoolOp(op=op, values=parts):
                return self.boolean(isinstance(op, ast.And), [self.build(part) for part in parts])
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(
                type(op) in _COMPARISONS for op in ops
            ):
                return self.comparison([self.build(part) for part in (left, *rest)], ops)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(node, name, args)
        raise self.refuse(node)

    def name(self, node: ast.expr, name: str) -> _Evaluator:
        if name in VARIABLES:
            return lambda v: v[name]
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda v: constant
        raise self.refuse(node, unknown_choice("name", name, [*VARIABLES, *_CONSTANTS, *_FUNCTIONS, "where"]))

    def unary(self, op: ast.unaryop, operand: _Evaluator) -> _Evaluator:
        if isinstance(op, ast.USub):
            return lambda v: -operand(v)
        if isinstance(op, ast.UAdd):
            return operand
        if isinstance(op, ast.Not):
            return lambda v: float(not operand(v))
        raise self.refuse(op)

    @staticmethod
    def boolean(every: bool, parts: list[_Evaluator]) -> _Evaluator:
        combine = all if every else any
        return lambda v: float(combine(part(v) for part in parts))

    def comparison(self, parts: list[_Evaluator], ops: list[ast.cmpop]) -> _Evaluator:
        for op in ops:
            if type(op) not in _COMPARISONS:
                raise self.refuse(op)
        tests = [_COMPARISONS[type(op)] for op in ops]

        def run(v: _Values) -> float:
            values = [part(v) for part in parts]
            return float(all(test(values[i], values[i + 1]) for i, test in enumerate(tests)))

        return run

    def call(self, node: ast.expr, name: str, args: list[ast.expr]) -> _Evaluator:
        parts = [self.build(arg) for arg in args]
        if name == "where":
            if len(parts) != 3:
                raise self.refuse(node, "where takes a condition and two values")
            condition, yes, no = parts  # only the chosen side is computed, so it may guard a division
            return lambda v: yes(v) if condition(v) else no(v)
        if name not in _FUNCTIONS:
            raise self.refuse(node, unknown_choice("function", name, [*_FUNCTIONS, "where"]))
        function, fewest, most = _FUNCTIONS[name]
        if len(parts) < fewest or (most is not None and len(parts) > most):
            raise self.refuse(node, f"{name} does not take {len(parts)} values")
        return lambda v: function(*(part(v) for part in parts))
