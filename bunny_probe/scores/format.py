"""Is the answer in the form that was asked for? One checker, or several that must all hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer
from bunny_probe.scores.formats import CHECKERS, Verdict

__all__ = ["Format", "check_format"]


@dataclass(frozen=True, slots=True)
class Format(Scorer):
    """`checker` with `args`, and every one of `also` ([{checker, args}, …]).

    Raises `UsageError` for a checker or an argument that does not exist.
    """

    name: ClassVar[str] = "format"
    checker: str = ""
    args: Mapping[str, Any] | None = None
    also: tuple[Mapping[str, Any], ...] = ()

    def judge(self, probe: Probe, text: str) -> Score:
        rules: list[tuple[str, Mapping[str, Any]]] = [(self.checker, self.args or {})]
        rules += [(str(rule.get("checker", "")), rule.get("args", {})) for rule in self.also]
        reasons = []
        for name, args in rules:
            verdict = check_format(name, args, text)
            if not verdict.holds:
                return self.result(0.0, "fail", f"{name}: {verdict.reason}", checker=name)
            reasons.append(f"{name}: {verdict.reason}")
        return self.result(1.0, "pass", "; ".join(reasons), checker=self.checker)


def check_format(name: str, args: Mapping[str, Any], text: str) -> Verdict:
    """One checker's verdict. Raises `UsageError` for a checker or an argument that does not exist."""
    if name not in CHECKERS:
        raise UsageError(unknown_choice("format checker", name, CHECKERS))
    return CHECKERS[name](text, args)
