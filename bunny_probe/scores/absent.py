"""The document does not hold what is asked: does the answer say so, or invent it?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains
from bunny_probe.scores.mentions import find
from bunny_probe.scores.text import cut_new_turn, fold

__all__ = ["Absent"]

_DRAW = {"#": r"\d", "^": r"\d", "@": "[a-z]"}


@dataclass(frozen=True, slots=True)
class Absent(Scorer):
    """Passes when the answer says that the thing is not there and gives no value.

    A value is one of `expectation.distractors`, or anything of the shape `form` (# and ^ a digit, @ a letter).
    """

    name: ClassVar[str] = "absent"
    form: str = ""

    def judge(self, probe: Probe, text: str) -> Score:
        folded = cut_new_turn(fold(text), 1)
        planted = find(folded, probe.expectation.distractors)
        if planted:
            value = probe.expectation.distractors[planted[0].value]
            return self.result(0.0, "fail", f"gives {clip(value)!r}, which is not the answer", value=value)
        shape = "".join(_DRAW.get(char, re.escape(fold(char))) for char in self.form)
        invented = re.search(rf"(?<!\w){shape}(?!\w)", folded) if shape else None
        if invented:
            why = f"invents {clip(invented[0])!r}, which stands nowhere"
            return self.result(0.0, "fail", why, value=invented[0])
        said = abstains(folded)
        number = re.search(r"\d[\w.,:-]*", folded)
        if said is None and number and number[0] not in fold(probe.recipe.tail):
            return self.result(
                0.0, "fail", f"gives {clip(number[0])!r} where nothing is stated", value=number[0]
            )
        if said is None:
            return self.result(0.0, "miss", "does not say that it is not there")
        return self.result(1.0, "pass", f"says {clip(said)!r}")
