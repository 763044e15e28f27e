"""A difference in one of four words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bunny_probe.fits.compare import adjusted
from bunny_probe.measures.differences import Difference

__all__ = ["Verdict", "corrected", "verdict"]

Verdict = Literal["better", "same", "worse", "undecided"]


def verdict(move: Difference, *, margin: float = 0.05, share: float = 0.05, p: float | None = None) -> Verdict:
    """`same` when the whole interval lies within the margin; `better` or `worse` when it lies to one side of 0
    and the test agrees; else `undecided`.

    `margin` is for shares, in their own unit; other units take `share` of the value before. `p`: the corrected
    one, where several questions are asked. A neutral measure is never better nor worse.
    """
    worse, low, high = move.worsening
    if worse is None or low is None or high is None:
        return "undecided"
    base = move.before.value if move.before.value is not None else move.before.probed_to
    width = margin if move.after.unit == "share" else share * abs(base or 0.0)
    if -width < low and high < width:
        return "same"
    tested = move.p if p is None else p
    shown = (low > 0 or high < 0) and (tested is None or tested < 1 - move.level)
    if not shown or move.after.direction == "neutral":
        return "undecided"
    return "worse" if worse > 0 else "better"


def corrected(moves: Sequence[Difference]) -> dict[str, float]:
    """Measure → p corrected among the questions of its kind: what it says, and how fast (Holm 1979).

    A neutral measure is never called better or worse, so it asks no question that needs correcting.
    """
    judged = [move for move in moves if move.p is not None and move.after.direction != "neutral"]
    kinds = [[move for move in judged if (move.after.unit == "s") == timed] for timed in (False, True)]
    return {
        move.measure: p
        for kind in kinds
        for move, p in zip(kind, adjusted([move.p or 0.0 for move in kind]), strict=True)
    }
