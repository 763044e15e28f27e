"""Word overlap with a reference: token F1 (as in SQuAD) and ROUGE-L (Lin 2004), in any script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer
from bunny_probe.scores.text import fold, words

__all__ = ["Overlap", "lcs_length", "rouge_l", "token_f1"]


@dataclass(frozen=True, slots=True)
class Overlap(Scorer):
    """The best overlap with any of `expectation.answers`. A word is a run of letters, or one CJK character."""

    name: ClassVar[str] = "overlap"
    measure: str = "f1"  # "f1" or "rouge_l"

    def __post_init__(self) -> None:
        if self.measure not in _MEASURES:
            raise UsageError(unknown_choice("measure of scorer 'overlap'", self.measure, _MEASURES))

    def judge(self, probe: Probe, text: str) -> Score:
        if not probe.expectation.answers:
            return self.unscored("the expectation holds no reference")
        given = words(fold(text))
        measure = _MEASURES[self.measure]
        value, best = max((measure(given, words(fold(a))), i) for i, a in enumerate(probe.expectation.answers))
        label = "hit" if value == 1.0 else "partial" if value > 0 else "miss"
        reason = f"{self.measure} {value:.3f} against reference {best + 1} of {len(probe.expectation.answers)}"
        return self.result(value, label, reason, words=len(given))


def token_f1(given: Sequence[str], reference: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over the multisets of words."""
    return _f1(sum((Counter(given) & Counter(reference)).values()), len(given), len(reference))


def rouge_l(given: Sequence[str], reference: Sequence[str]) -> float:
    """F1 over the longest common subsequence of words."""
    return _f1(lcs_length(given, reference), len(given), len(reference))


def lcs_length(given: Sequence[str], reference: Sequence[str]) -> int:
    """Longest common subsequence by bit vectors (Hyyrö 2004): one big-integer step a given word."""
    masks: dict[str, int] = {}
    for index, word in enumerate(reference):
        masks[word] = masks.get(word, 0) | 1 << index
    full = (1 << len(reference)) - 1
    row = full
    for word in given:
        hit = row & masks.get(word, 0)
        row = ((row + hit) | (row - hit)) & full
    return len(reference) - row.bit_count()


def _f1(shared: int, given: int, reference: int) -> float:
    return 2 * shared / (given + reference) if shared else 0.0


_MEASURES = {"f1": token_f1, "rouge_l": rouge_l}
