"""Recall of several wanted values: the share that is given, with order and a price for wrong ones if asked."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains, denied
from bunny_probe.scores.mentions import find
from bunny_probe.scores.text import cut_new_turn, fold

__all__ = ["Items"]


@dataclass(frozen=True, slots=True)
class Items(Scorer):
    """`expectation.answers` are all wanted, each as often as it is listed.

    value = max(0, found / wanted - penalty * wrong / wanted), where `wrong` counts the different
    distractors that are given. With `order`, `found` is the longest series in the wanted order.
    With `limit`, the answer is read until so many different values were given: a question for three things
    is not answered by reciting all of them.
    """

    name: ClassVar[str] = "items"
    order: bool = False
    penalty: float = 0.0
    limit: int = 0  # 0: no limit

    def judge(self, probe: Probe, text: str) -> Score:
        wanted, wrong = probe.expectation.answers, probe.expectation.distractors
        if not wanted:
            return self.unscored("the expectation wants no items")
        values = [*dict.fromkeys(wanted), *wrong]
        kinds = len(dict.fromkeys(wanted))
        folded = fold(text)
        mentions = find(folded, values)
        if mentions:
            folded = cut_new_turn(folded, mentions[0].end)
        given = [m.value for m in mentions if m.end <= len(folded) and not denied(folded, m.start, m.end)]
        if self.limit:
            given = _first_different(given, self.limit)
        if not given and (words := abstains(folded)) is not None:
            return self.result(0.0, "abstain", f"says {clip(words)!r} and gives no item")
        found = self._found(wanted, [values[index] for index in given if index < kinds])
        bad = sorted({values[index] for index in given if index >= kinds})
        value = max(0.0, (found - self.penalty * len(bad)) / len(wanted))
        reason = f"{found} of {len(wanted)} wanted" + (" in order" if self.order else "")
        if bad:
            reason += f", {len(bad)} wrong: {clip(', '.join(bad))}"
        label = "hit" if value == 1.0 else "partial" if value > 0 else "wrong_anchor" if bad else "miss"
        return self.result(value, label, reason, found=found, wanted=len(wanted), wrong=len(bad))

    def _found(self, wanted: Sequence[str], given: Sequence[str]) -> int:
        if not self.order:
            return sum((Counter(wanted) & Counter(given)).values())
        return _longest_in_order(wanted, given)


def _first_different(given: Sequence[int], limit: int) -> list[int]:
    """The values up to the first that would be one different value too many."""
    kept: list[int] = []
    for value in given:
        if value not in kept and len(set(kept)) == limit:
            break
        kept.append(value)
    return kept


def _longest_in_order(wanted: Sequence[str], given: Sequence[str]) -> int:
    """Length of the longest common subsequence (Hunt and Szymanski 1977: fast where few pairs match)."""
    places: dict[str, list[int]] = {}
    for index, value in enumerate(wanted):
        places.setdefault(value, []).append(index)
    tails: list[int] = []
    for value in given:
        for place in reversed(places.get(value, ())):
            at = bisect_left(tails, place)
            tails[at : at + 1] = [place]
    return len(tails)
