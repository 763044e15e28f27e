"""The registry of format checkers.

    @checker("line_count", "lines that are not blank")
    def line_count(text: str, *, exactly: int | None = None, …) -> Verdict: ...

A checker is a pure function of the answer's text and keyword arguments that a suite or catalogue may give.
It says whether the format holds and what decided it. Outer white space never matters; a checker reads
everything else as it stands, since the form is what is judged.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from bunny_probe.errors import UsageError, unknown_choice

__all__ = ["CHECKERS", "Checker", "Verdict", "checker", "lines", "unfenced", "within"]


class Verdict(NamedTuple):
    """Whether the format holds, and what decided it."""

    holds: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Checker:
    name: str
    summary: str
    function: Callable[..., Verdict]

    def __call__(self, text: str, args: Mapping[str, Any]) -> Verdict:
        """Raises `UsageError` for arguments that the checker does not take."""
        self.check_args(args)
        return self.function(text.strip(), **args)

    def check_args(self, args: Mapping[str, Any]) -> None:
        known, needed = _signature(self.function)
        for key, value in args.items():
            if key not in known:
                raise UsageError(unknown_choice(f"argument of format checker {self.name!r}", key, known))
            if not _is_a(value, known[key]):
                kind = getattr(known[key], "__name__", str(known[key]))
                raise UsageError(
                    f"argument {key!r} of format checker {self.name!r} is {value!r}; it takes {kind}"
                )
        for name in needed:
            if name not in args:
                raise UsageError(f"format checker {self.name!r} needs the argument {name!r}")


@cache
def _signature(function: Callable[..., Verdict]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The arguments of a checker with their types, and those that must be given."""
    hints = typing.get_type_hints(function)
    found = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    needed = tuple(name for name, parameter in found.items() if parameter.default is parameter.empty)
    return {name: hints[name] for name in found}, needed


def _is_a(value: Any, hint: Any) -> bool:
    if isinstance(hint, types.UnionType):
        return any(_is_a(value, option) for option in typing.get_args(hint))
    origin = typing.get_origin(hint)
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(_is_a(v, typing.get_args(hint)[0]) for v in value)
    if origin is dict:
        return isinstance(value, Mapping)
    if hint is type(None):
        return value is None
    if hint is Any:
        return True
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


CHECKERS: dict[str, Checker] = {}


def checker(name: str, summary: str) -> Callable[[Callable[..., Verdict]], Callable[..., Verdict]]:
    """Registers a function as a format checker."""

    def register(function: Callable[..., Verdict]) -> Callable[..., Verdict]:
        if name in CHECKERS:
            raise ValueError(f"format checker {name!r} is registered twice")
        CHECKERS[name] = Checker(name, summary, function)
        return function

    return register


def within(count: int, what: str, exactly: int | None, at_least: int | None, at_most: int | None) -> Verdict:
    """The verdict on a count. Raises `UsageError` when no bound is given."""
    if exactly is None and at_least is None and at_most is None:
        raise UsageError(f"a count of {what} needs 'exactly', 'at_least' or 'at_most'")
    low = exactly if exactly is not None else at_least
    high = exactly if exactly is not None else at_most
    wanted = " and ".join(
        part
        for part in (
            f"exactly {exactly}" if exactly is not None else "",
            f"at least {at_least}" if at_least is not None else "",
            f"at most {at_most}" if at_most is not None else "",
        )
        if part
    )
    holds = (low is None or count >= low) and (high is None or count <= high)
    return Verdict(holds, f"{count} {what}, wanted {wanted}")


def lines(text: str) -> list[str]:
    """Lines that are not blank, trailing white space off."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def unfenced(text: str) -> str:
    """The inside of a code fence that holds the whole text, else the text."""
    rows = text.strip().splitlines()
    if len(rows) >= 2 and rows[0].startswith("```") and rows[-1].strip() == "```":
        return "\n".join(rows[1:-1]).strip()
    return text.strip()
