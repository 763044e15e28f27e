"""Anchor recall: does the answer give the wanted value, another planted one, or none?

The rule, in the order in which it decides. A *mention* is a place where the text names an accepted value
or a distractor (see `mentions`).

1. What the model invents after its answer (a next question of its own) is not read.
2. A mention that is denied ("not X", "X is wrong") does not count.
3. No mention left: `abstain` when the text says that it does not know or that nothing is there, else `miss`.
4. A distractor that is named together with its own key is an *aside* ("the south code is Y, the north code
   is X"): true, and not the answer. Up to `max_asides` different ones are passed over when an accepted
   value stands elsewhere; more are a recital of the document, and no answer. Asides beside an "I do not
   know" are an `abstain`.
5. Of what is left the *statement* decides: the mentions behind the last "the answer is", "therefore" or
   "actually", else the first ones. Mentions that are merely listed ("X, Y and Z", "X or Y", bullets)
   are one statement. Only accepted values in it: `hit`. Only distractors: `wrong_anchor`. Both: `miss`,
   for the answer does not choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains, denied, final_cues, only_joins
from bunny_probe.scores.mentions import Mention, find
from bunny_probe.scores.text import cut_new_turn, fold

__all__ = ["Anchor"]


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
        keys = _own_keys(probe)
        asides = _asides(folded, asserted, values, right, keys) if keys else set()
        if not any(m.value < right for m in asserted):
            if len(asides) == len(asserted) and (words := abstains(folded)) is not None:
                return self.result(0.0, "abstain", f"says {clip(words)!r}, and tells of other anchors")
            return self._wrong(values, asserted[0])
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
    """Mentions of distractors that the text names together with their own key, which is not the asked one.

    An accepted value that is named with another's key is set aside too, where something else is named with
    the asked key: "the south code is <north's>, the north code is <south's>" has them the wrong way round.
    A text writes its keys before the values ("A is X, B is Y") or behind them ("X is A's, Y is B's"): what
    stands before its first value tells which.
    """
    known = list(dict.fromkeys(keys.values()))
    named = find(folded, known)
    behind = not any(key.start < mentions[0].start for key in named)
    labels: list[str | None] = []
    for index, mention in enumerate(mentions):
        if behind:
            end = mentions[index + 1].start if index + 1 < len(mentions) else len(folded)
            label = next((key for key in named if mention.end <= key.start < end), None)
        else:
            start = mentions[index - 1].end if index else 0
            label = next((key for key in reversed(named) if start <= key.start < mention.start), None)
        labels.append(None if label is None else known[label.value])
    asked = {keys[fold(value)] for value in values[:right] if fold(value) in keys}
    bound = any(label in asked for label in labels)
    return {
        mention
        for mention, label in zip(mentions, labels, strict=True)
        if label is not None
        and label not in asked
        and (bound if mention.value < right else label == keys.get(fold(values[mention.value])))
    }


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
