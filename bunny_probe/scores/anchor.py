"""Anchor recall: does the answer give the wanted value, another planted one, or none?

The rule, in the order in which it decides. A *mention* is a place where the text names an accepted value
or a distractor (see `mentions`).

1. What the model invents after its answer (a next question of its own) is not read.
2. A mention that is denied ("not X", "X is wrong") does not count.
3. No mention left: `abstain` when the text says that it does not know or that nothing is there, else `miss`.
4. A distractor that is named together with its own key is an *aside* ("the south code is Y, the north code
   is X"): true, and not the answer. Up to `max_asides` different ones are passed over when an accepted
   value stands elsewhere; more are a recital of the document, and no answer.
5. Of what is left the *statement* decides: the mentions behind the last "the answer is", "therefore" or
   "actually", else the first ones. Mentions that are merely listed ("X, Y and Z", "X or Y", bullets)
   are one statement. Only accepted values in it: `hit`. Only distractors: `wrong_anchor`. Both: `miss`,
   for the answer does not choose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains, denied, final_cues, only_joins
from bunny_probe.scores.mentions import Mention, contains, find
from bunny_probe.scores.text import cut_new_turn, fold

__all__ = ["Anchor"]

_CLAUSE_END = re.compile(r"[.!?]\s|[;\n。;!?!?]")


@dataclass(frozen=True, slots=True)
class Anchor(Scorer):
    """Any of `expectation.answers` is a hit; `expectation.distractors` stand in the prompt and are wrong."""

    name: ClassVar[str] = "anchor"
    max_asides: int = 2  # true statements about other anchors that may stand beside the answer

    def judge(self, probe: Probe, text: str) -> Score:
        accepted, wrong = probe.expectation.answers, probe.expectation.distractors
        values = [*accepted, *wrong]
        folded = fold(text)
        mentions = find(folded, values)
        if mentions:
            folded = cut_new_turn(folded, mentions[0].end)
            mentions = [m for m in mentions if m.end <= len(folded)]
        asserted = [m for m in mentions if not denied(folded, m.start, m.end)]
        if not asserted:
            return self._nothing(folded, mentions, values)
        right = len(accepted)
        if not any(m.value < right for m in asserted):
            return self._wrong(values, asserted[0])
        keys = _own_keys(probe)
        asides = _asides(folded, asserted, values, right, keys) if keys else set()
        statement = _statement(folded, [m for m in asserted if m not in asides])
        recited = len({m.value for m in asides if m.start < statement[0].start})
        named = sorted({m.value for m in statement})
        if named[0] >= right:
            return self._wrong(values, statement[0])
        if named[-1] >= right:
            listed = ", ".join(values[index] for index in named)
            return self.result(0.0, "miss", f"lists {clip(listed)} and does not choose", hedged=True)
        if recited > self.max_asides:
            why = f"recites {recited} other anchors before {values[named[0]]!r} and does not choose"
            return self.result(0.0, "miss", why, hedged=True)
        return self.result(1.0, "hit", f"gives {clip(values[named[0]])!r}", value=values[named[0]])

    def _nothing(self, folded: str, mentions: Sequence[Mention], values: Sequence[str]) -> Score:
        words = abstains(folded)
        if words is not None:
            return self.result(0.0, "abstain", f"says {clip(words)!r} and gives no value")
        if mentions:
            return self.result(0.0, "miss", f"names {clip(values[mentions[0].value])!r} only to deny it")
        return self.result(0.0, "miss", "gives none of the planted values")

    def _wrong(self, values: Sequence[str], mention: Mention) -> Score:
        value = values[mention.value]
        return self.result(0.0, "wrong_anchor", f"gives {clip(value)!r}, planted elsewhere", value=value)


def _own_keys(probe: Probe) -> dict[str, str]:
    """Anchor value → its key, both folded, when the probe says what it planted and what it asks."""
    if not any(anchor.asked for anchor in probe.anchors):
        return {}
    return {fold(anchor.value): anchor.key for anchor in probe.anchors if anchor.key}


def _asides(
    folded: str, mentions: Sequence[Mention], values: Sequence[str], right: int, keys: dict[str, str]
) -> set[Mention]:
    """Mentions of distractors that stand with their own key and without the key of an accepted value."""
    asked = {keys[fold(value)] for value in values[:right] if fold(value) in keys}
    found = set()
    for index, mention in enumerate(mentions):
        own = keys.get(fold(values[mention.value]))
        if mention.value < right or own is None or own in asked:
            continue
        before = mentions[index - 1].end if index else 0
        after = mentions[index + 1].start if index + 1 < len(mentions) else len(folded)
        clause = _clause(folded, mention, before, after)
        if any(contains(clause, key) for key in asked):
            continue
        if contains(clause, own) or contains(folded[before : mention.start], own):
            found.add(mention)
    return found


def _clause(folded: str, mention: Mention, low: int, high: int) -> str:
    """The clause around a mention that reaches neither into the mention before nor the one behind."""
    start, end = low, high
    for match in _CLAUSE_END.finditer(folded, low, mention.start):
        start = match.end()
    behind = _CLAUSE_END.search(folded, mention.end, high)
    return folded[start : behind.start() if behind else end]


def _statement(folded: str, mentions: Sequence[Mention]) -> list[Mention]:
    """The mentions that are the answer: behind the last announcement, else the first; with what is listed."""
    first = 0
    for cue in final_cues(folded):
        behind = next((i for i, m in enumerate(mentions) if m.start >= cue), None)
        if behind is None:
            break
        first = behind
    statement = [mentions[first]]
    for mention in mentions[first + 1 :]:
        if not only_joins(folded[statement[-1].end : mention.start]):
            break
        statement.append(mention)
    return statement
