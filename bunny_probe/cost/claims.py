"""A vendor's claims, checked: does the arithmetic hold, do the statements agree, what must be measured.

    [[claim]]  id, says, type = "value" | "pair" | "growth" | "measured", and what the type needs (see TYPES)

A figure holds when the computed number rounds to it, is close within 1 % (and flagged), and else fails. Two
statements of the vendor that give different numbers contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bunny_probe.cost.claims_input import (
    MEASURES,
    TYPES,
    Claim,
    ClaimsTable,
    computed,
    read_claims,
    shown,
    working,
)
from bunny_probe.cost.growth import growth_of
from bunny_probe.cost.money import plain
from bunny_probe.cost.rounding import agreement
from bunny_probe.cost.units import Unit

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MEASURES",
    "TYPES",
    "VERDICTS",
    "Audit",
    "Claim",
    "ClaimsTable",
    "Found",
    "Row",
    "audit",
    "read_claims",
]

Verdict = Literal["holds", "close", "fails", "contradict", "needs measurement"]
VERDICTS: tuple[Verdict, ...] = ("holds", "close", "fails", "contradict", "needs measurement")


@dataclass(frozen=True, slots=True)
class Found:
    """What a run measured for a claim, in base units. None: not bounded on that side."""

    value: float
    low: float | None
    high: float | None
    n: int
    what: str  # "95th percentile of 120 latencies at 65,536 tokens"
    level: float = 0.95


@dataclass(frozen=True, slots=True)
class Row:
    """The verdict on one claim."""

    id: str
    says: str
    verdict: Verdict
    claimed: str
    computed: str  # or what was measured, with its interval and n
    working: str  # the formula with its numbers
    reason: str
    relative: float | None = None  # (claimed - computed) / computed


@dataclass(frozen=True, slots=True)
class Audit:
    title: str
    rows: tuple[Row, ...]

    def count(self, *verdicts: Verdict) -> int:
        return sum(row.verdict in verdicts for row in self.rows)

    def sentence(self) -> str:
        """How many of the claims stand."""
        n = len(self.rows)
        told = [_counted(self.count(v), v) for v in VERDICTS if self.count(v)]
        return f"Of {n} claim{'s' * (n != 1)}, {_listed(told)}." if told else "The table holds no claim."

    def table(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "claim": row.says,
                    "verdict": row.verdict,
                    "claimed": row.claimed,
                    "found": row.computed,
                    "working": row.working,
                    "why": row.reason,
                }
                for row in self.rows
            ],
            columns=["claim", "verdict", "claimed", "found", "working", "why"],
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Audit", "sentence": self.sentence(), **plain(self)}


_COUNTED: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "close": ("is close but not equal", "are close but not equal"),
    "fails": ("fails", "fail"),
    "contradict": ("contradicts another claim", "contradict other claims"),
    "needs measurement": ("is to be measured", "are to be measured"),
}


def _counted(count: int, verdict: Verdict) -> str:
    return f"{count} {_COUNTED[verdict][count != 1]}"


def audit(table: ClaimsTable, found: Mapping[str, Found] | None = None) -> Audit:
    """Every claim's verdict; `found` maps ids of `measured` claims to what a run says of them."""
    measured = found or {}
    return Audit(table.title, tuple(_row(claim, measured.get(claim.id)) for claim in table.claims))


def _row(claim: Claim, found: Found | None) -> Row:
    if claim.type == "growth":
        assert claim.values is not None
        seen = growth_of(claim.formula, claim.values, claim.variable, *claim.span)
        holds = seen == claim.growth
        reason = f"in {claim.variable} the formula is {seen}"
        verdict: Verdict = "holds" if holds else "fails"
        why = _joined(reason, claim.note)
        return Row(claim.id, claim.says, verdict, claim.growth, seen, working(claim), why)
    if claim.type == "measured":
        return _measured(claim, found)
    result = computed(claim)
    agreed, relative = agreement(claim.claimed, result, claim.slack)
    told = shown(result, claim.claimed_unit)
    if agreed == "holds":
        reason = "rounds to the figure" if result != claim.claimed else "exactly"
    elif agreed == "close":
        reason = (
            f"{abs(relative):.2%} too {'high' if relative > 0 else 'low'}, more than its digits allow: flagged"
        )
    else:
        reason = f"{claim.claimed_text} is {_ratio(claim.claimed, result)} the computed {told}"
    for what, formula in claim.slips:
        if agreed != "holds" and agreement(claim.claimed, computed(claim, formula), claim.slack)[0] == "holds":
            reason = f"{reason}; the figure is what one gets with {what}"
    final: Verdict = "contradict" if claim.type == "pair" and agreed == "fails" else agreed
    why = _joined(reason, claim.note)
    return Row(claim.id, claim.says, final, claim.claimed_text, told, working(claim), why, relative)


def _measured(claim: Claim, found: Found | None) -> Row:
    unit, meaning = MEASURES[claim.measure]
    at = f" at {claim.length:,} tokens" if claim.length else ""
    asked = f"{claim.relation} {claim.claimed_text}" if claim.relation != "about" else claim.claimed_text
    what = f"{meaning}{at}"
    if found is None:
        reason = _joined("no run was given, or it holds nothing of this kind", claim.note)
        return Row(claim.id, claim.says, "needs measurement", asked, "not measured", what, reason)
    display = claim.claimed_unit if claim.claimed_text and claim.claimed_unit.text else Unit(1.0, {}, unit)
    low = "unbounded" if found.low is None else shown(found.low, display, bare=True)
    high = "unbounded" if found.high is None else shown(found.high, display)
    told = f"{shown(found.value, display)} [{low}, {high}], n = {found.n}"
    verdict, reason = _by_interval(claim, found)
    relative = (claim.claimed - found.value) / found.value if found.value else None
    return Row(claim.id, claim.says, verdict, asked, told, found.what, _joined(reason, claim.note), relative)


def _by_interval(claim: Claim, found: Found) -> tuple[Verdict, str]:
    low = -float("inf") if found.low is None else found.low
    high = float("inf") if found.high is None else found.high
    limit, sure = claim.claimed, f"the {found.level:.0%} interval lies"
    if claim.relation == "about":
        band = sorted((limit * (1 - claim.tolerance), limit * (1 + claim.tolerance)))
        if band[0] <= low and high <= band[1]:
            return "holds", f"{sure} within ±{claim.tolerance:.0%} of the claim"
        if high < band[0] or low > band[1]:
            return "fails", f"{sure} wholly outside ±{claim.tolerance:.0%} of the claim"
    else:
        best, worst = (
            (high <= limit, low > limit) if claim.relation == "at most" else (low >= limit, high < limit)
        )
        if best:
            return "holds", f"{sure} wholly on the claimed side"
        if worst:
            return "fails", f"{sure} wholly on the other side"
    return (
        "needs measurement",
        f"the {found.level:.0%} interval leaves it open: more than {found.n} trials are needed",
    )


def _ratio(one: float, other: float) -> str:
    if not other or not one or (one < 0) != (other < 0):
        return "not"
    factor = one / other
    return f"{factor:.3g} times"


def _joined(reason: str, note: str) -> str:
    return f"{reason}. {note}" if note else reason


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
