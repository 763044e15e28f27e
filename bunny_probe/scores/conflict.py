"""Two clauses contradict each other: does the first win, the last, or reason?

`expectation.params` hold what the document says first and last. Where a rule of the document decides
(`accepted` among the answers), the score is 1 for the value that the rule gives; where none does (`open`),
it is 1 for an answer that shows the conflict. The label tells which way the answer went:

    reasoned    the right value together with why (a word of `reasons`, or both values weighed), or an open
                conflict shown as one (both values, or "the clauses contradict each other")
    first_wins  the value that stands first, taken without a reason
    last_wins   the value that stands last, likewise

A `control` document says the same in both clauses: there an alarm is false (`fail`) and the value a `hit`.

In one order a right value may be luck of its place: asked in both orders, first-wins and last-wins models
are right half of the time, and only a model that applies the rule is right in both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.errors import UsageError
from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import CONFLICT, abstains, denied, final_cues, only_joins
from bunny_probe.scores.mentions import contains, find_spelled
from bunny_probe.scores.text import cut_new_turn, fold

__all__ = ["Conflict"]

_UNIT = re.compile(r"^\s?[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Conflict(Scorer):
    """`first` and `last` are the two values in the order of the document; "|" parts spellings of one."""

    name: ClassVar[str] = "conflict"
    first: str = ""
    last: str = ""
    reasons: tuple[str, ...] = ()  # words that only an answer which applies the rule uses
    open: bool = False  # no rule decides: the conflict itself is the answer
    control: bool = False  # both clauses say the same: to see a conflict is a false alarm

    def judge(self, probe: Probe, text: str) -> Score:
        if not (self.first and self.last):
            raise UsageError("scorer 'conflict' needs the parameters 'first' and 'last'")
        values = (self.first, self.last)
        folded = fold(text)
        mentions = find_spelled(folded, values)
        if mentions:
            folded = cut_new_turn(folded, mentions[0].end)
        mentions = [m for m in mentions if m.end <= len(folded)]
        asserted = [m for m in mentions if not denied(folded, m.start, m.end)]
        named = {m.value for m in mentions}
        spotted = CONFLICT.search(folded)
        if self.control and spotted:
            return self.result(0.0, "fail", f"says {spotted[0]!r} where nothing is in conflict")
        if self.open and (len(named) == 2 or spotted):
            how = f"says {spotted[0]!r}" if spotted else "gives both values"
            return self.result(1.0, "reasoned", f"shows the conflict: {how}", value=None)
        if not asserted:
            words = abstains(folded)
            if words is not None:
                return self.result(0.0, "abstain", f"says {clip(words)!r}")
            return self.result(0.0, "miss", "gives neither value")
        cues = [c for c in final_cues(folded) if any(m.start >= c for m in asserted)]
        at = next(i for i, m in enumerate(asserted) if not cues or m.start >= cues[-1])
        chosen = asserted[at]
        behind = asserted[at + 1 : at + 2]
        if any(m.value != chosen.value and _in_one_breath(folded[chosen.end : m.start]) for m in behind):
            return self.result(0.0, "miss", "gives both values and does not choose", hedged=True)
        place = ("first_wins", "last_wins")[chosen.value]
        spellings = values[chosen.value].split("|")
        value = spellings[0]
        if self.control:
            return self.result(1.0, "hit", f"gives {value!r}, which both clauses say", value=value)
        if self.open:
            return self.result(0.0, place, f"gives {value!r} and does not tell of the conflict", value=value)
        right = not set(spellings).isdisjoint(probe.expectation.answers)
        why = next((reason for reason in self.reasons if contains(folded, reason)), None)
        weighed = why is not None or len(named) == 2
        reason = f"gives {value!r}, the {('first', 'last')[chosen.value]} value"
        reason += f", and says {why!r}" if why else ", and weighs both" if weighed else ""
        label = "reasoned" if right and weighed else place
        return self.result(float(right), label, reason, value=value)


def _in_one_breath(between: str) -> bool:
    """Whether two values are merely listed, each with its unit or not: "30 days or 45 days"."""
    return only_joins(_UNIT.sub("", between[:64]))
