"""The answer is the accepted text and nothing else, dressing aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains
from bunny_probe.scores.text import fold

__all__ = ["Exact"]

_DRESSING = " \t\r\n`*_\"'#.,;:!?。,;:!?()()[]【】「」『』《》<>"


@dataclass(frozen=True, slots=True)
class Exact(Scorer):
    """Equal to one of `expectation.answers` after folding, quotes, markdown and end punctuation stripped.

    With `strict` the text must be equal to the character, outer white space aside.
    """

    name: ClassVar[str] = "exact"
    strict: bool = False

    def judge(self, probe: Probe, text: str) -> Score:
        for answer in probe.expectation.answers:
            if self._bare(text) == self._bare(answer):
                return self.result(1.0, "hit", f"is {clip(answer)!r}", value=answer)
        bare = self._bare(text)
        for wrong in probe.expectation.distractors:
            if bare == self._bare(wrong):
                return self.result(0.0, "wrong_anchor", f"is {clip(wrong)!r}, planted elsewhere", value=wrong)
        words = abstains(fold(text))
        if words is not None:
            return self.result(0.0, "abstain", f"says {clip(words)!r}")
        return self.result(0.0, "miss", f"is {clip(text)!r}")

    def _bare(self, text: str) -> str:
        return text.strip() if self.strict else " ".join(fold(text).strip(_DRESSING).split())
