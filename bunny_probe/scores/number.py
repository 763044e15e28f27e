"""A numeric answer, within a tolerance.

Which of several numbers is the answer: the one behind the last "the answer is", "total"
or "="; else the first, when the text opens with a number; else the last, for reasoning comes before its
result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.errors import UsageError
from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains, final_cues
from bunny_probe.scores.numerals import Numeral, numerals, parse_number
from bunny_probe.scores.text import cut_new_turn, fold

__all__ = ["Number"]

_OPENING = re.compile(r"[\W_]*(?:(?:it is|it's|there (?:are|is)|about|exactly|共有?|有|是)\s*)?[\W_]*$")
_RESULT = re.compile(r"=|\b(?:so|total|altogether|sum)\b|共|总计|合计")
_BULLET = re.compile(r"(?m)^[ \t]*\d{1,3}[.)](?=\s)")


@dataclass(frozen=True, slots=True)
class Number(Scorer):
    """Right when within `tolerance` (absolute) or `relative` of one of `expectation.answers`."""

    name: ClassVar[str] = "number"
    tolerance: float = 0.0
    relative: float = 0.0

    def judge(self, probe: Probe, text: str) -> Score:
        wanted = [self._wanted(answer) for answer in probe.expectation.answers]
        wrong = [
            value for item in probe.expectation.distractors if (value := parse_number(fold(item))) is not None
        ]
        folded = fold(text)
        # a list's own numbering is not an answer, unless it is all there is ("7.")
        found = numerals(_BULLET.sub(lambda m: " " * len(m[0]), folded)) or numerals(folded)
        if not found:
            words = abstains(folded)
            if words is not None:
                return self.result(0.0, "abstain", f"says {clip(words)!r} and gives no number")
            return self.result(0.0, "miss", "gives no number")
        shorter = cut_new_turn(folded, found[0].end)
        given = _final(shorter, [n for n in found if n.end <= len(shorter)])
        if any(self._near(given, value) for value in wanted):
            return self.result(1.0, "hit", f"gives {given:g}", value=given)
        if any(self._near(given, value) for value in wrong):
            return self.result(0.0, "wrong_anchor", f"gives {given:g}, planted elsewhere", value=given)
        return self.result(0.0, "miss", f"gives {given:g}, wanted {wanted[0]:g}" if wanted else "wants none")

    def _near(self, given: float, wanted: float) -> bool:
        return math.isclose(given, wanted, rel_tol=max(self.relative, 1e-12), abs_tol=self.tolerance)

    def _wanted(self, answer: str) -> float:
        value = parse_number(fold(answer))
        if value is None:
            raise UsageError(f"scorer 'number' cannot read the expected answer {answer!r} as a number")
        return value


def _final(folded: str, found: Sequence[Numeral]) -> float:
    """The number that is the answer, by the rule at the top."""
    cues = [*final_cues(folded), *(match.end() for match in _RESULT.finditer(folded))]
    for cue in sorted(cues, reverse=True):
        behind = next((n for n in found if n.start >= cue), None)
        if behind is not None:
            return behind.value
    if _OPENING.match(folded, 0, found[0].start):
        return found[0].value
    return found[-1].value
