"""Multiple choice: which option does the answer take?

In the order in which it decides: a lone letter at the start ("B", "(B)", "B. because …"); the letter behind
the last "the answer is", "option", 答案是 or 选; a letter in brackets or bold; the text of exactly one
option. An answer that takes two different options takes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains, denied
from bunny_probe.scores.mentions import find
from bunny_probe.scores.text import CJK, LETTER, cut_new_turn, fold

__all__ = ["Choice"]

_CUE = (
    r"(?:answer|choice|option|pick|choose|select|答案|选项|选择|选)\W{0,3}"
    r"(?:(?:is|are|为|是)\W{0,3})?(?:option\W{0,3})?"
)


@dataclass(frozen=True, slots=True)
class Choice(Scorer):
    """`expectation.answers[0]` is the label of the right option; `options` maps every label to its text."""

    name: ClassVar[str] = "choice"
    options: Mapping[str, Any] | None = None

    def judge(self, probe: Probe, text: str) -> Score:
        accepted = {fold(answer) for answer in probe.expectation.answers}
        options = {fold(label): str(body) for label, body in (self.options or {}).items()}
        labels = list(options) or sorted({*accepted, *map(fold, probe.expectation.distractors)})
        folded = fold(text).strip()
        taken, how = _taken(folded, labels, options)
        if len(taken) == 1:
            label = taken[0]
            if label in accepted:
                return self.result(1.0, "hit", f"takes option {label.upper()} ({how})", value=label)
            return self.result(0.0, "miss", f"takes option {label.upper()} ({how})", value=label)
        if taken:
            return self.result(
                0.0, "miss", f"takes {', '.join(taken).upper()} and does not choose", hedged=True
            )
        words = abstains(folded)
        if words is not None:
            return self.result(0.0, "abstain", f"says {clip(words)!r} and takes no option")
        return self.result(0.0, "miss", "takes no option")


def _taken(folded: str, labels: Sequence[str], options: Mapping[str, str]) -> tuple[list[str], str]:
    """The labels that the text takes, and what showed it."""
    one = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    bare = rf"({one})(?!{LETTER})"
    opening = re.match(rf"[\W_]*{bare}(?=[\W_]*$|[)\].:,;*\n。,:、]|\s*[-(]|[{CJK}])", folded)
    if opening:
        listed = re.match(
            rf"[\W_]*({one})(?:(?:[\s,/&、或和]|\band\b|\bor\b){{1,5}}({one}))+(?!{LETTER})", folded
        )
        if listed:
            return sorted(set(re.findall(rf"(?<!{LETTER}){bare}", listed[0]))), "listed at the start"
        return [opening[1]], "at the start"
    folded = cut_new_turn(folded, 1)
    cued = [
        m for m in re.finditer(rf"{_CUE}[\W_]{{0,3}}{bare}", folded) if not denied(folded, m.start(1), m.end(1))
    ]
    if cued:
        return [cued[-1][1]], "announced"
    marked = re.findall(rf"(?:\(|\*\*|\[|【|「){bare}(?=[)\]】」*.])", folded)
    if marked:
        return sorted(set(marked)), "marked"
    if options:
        names = list(options)
        mentions = find(folded, [options[label] for label in names])
        return sorted({names[m.value] for m in mentions if not denied(folded, m.start, m.end)}), "by its text"
    return [], ""
