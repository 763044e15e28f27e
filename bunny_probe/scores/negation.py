"""Was what should not be mentioned left out, and the task still done? And its positive twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains
from bunny_probe.scores.mentions import find_spelled
from bunny_probe.scores.text import cut_new_turn, fold

__all__ = ["Negation"]


@dataclass(frozen=True, slots=True)
class Negation(Scorer):
    """Passes when no `expectation.distractors` is named and at least `share` of the `answers` are.

    A word named in order to say that it is left out ("I won't mention winter") is named: the instruction
    was not to mention it. The positive twin has no distractors and wants the word among its answers.
    `answers` and distractors may hold several spellings of one thing, parted by "|".
    """

    name: ClassVar[str] = "negation"
    share: float = 0.5
    must: int = 0  # so many of the first `answers` are indispensable

    def judge(self, probe: Probe, text: str) -> Score:
        folded = cut_new_turn(fold(text), 1)
        named = _named(folded, probe.expectation.distractors)
        if named:
            return self.result(
                0.0, "fail", f"mentions {clip(', '.join(named))!r}, which it was told to leave out"
            )
        wanted = probe.expectation.answers
        found = _named(folded, wanted)
        words = abstains(folded)
        if words is not None and wanted and not found:
            return self.result(0.0, "abstain", f"says {clip(words)!r} and does not do the task")
        lacking = [item.split("|")[0] for item in wanted[: self.must] if item.split("|")[0] not in found]
        if lacking:
            return self.result(0.0, "fail", f"does not mention {clip(', '.join(lacking))!r}", found=len(found))
        if wanted and len(found) < self.share * len(wanted):
            missing = [item.split("|")[0] for item in wanted if item.split("|")[0] not in found]
            why = f"names {len(found)} of {len(wanted)}, lacks {clip(', '.join(missing))}"
            return self.result(0.0, "fail", why, found=len(found))
        return self.result(
            1.0, "pass", f"names {len(found)} of {len(wanted)} and nothing forbidden", found=len(found)
        )


def _named(folded: str, things: tuple[str, ...]) -> list[str]:
    """The first spelling of each thing that the text names."""
    return [things[index].split("|")[0] for index in sorted({m.value for m in find_spelled(folded, things)})]
