"""The gate: each rule against the intervals of this run and of the one it is held to. Pure.

A rule about another run *fails* when the run is shown to be worse (the interval of the loss lies above 0, and
the test says so corrected for all rules asked, Holm 1979) and the best estimate exceeds what the rule allows.
It *passes* when the whole interval of the loss lies within that. Between the two it is *undecided*, and says
how many documents would decide. A difference inside the noise can therefore never fail, nor a thin run pass
for a good one unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from bunny_probe.fits.compare import adjusted
from bunny_probe.measures import Difference, Measure, Measured, amount, differ, matching, measured, measures
from bunny_probe.releases.rules import Rule, Rules

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Decision", "Side", "judge"]

Decision = Literal["pass", "fail", "undecided", "skipped"]


@dataclass(frozen=True, slots=True)
class Side:
    """A run that is judged or held up as an example."""

    release: str
    frame: pd.DataFrame  # of one endpoint


@dataclass(frozen=True, slots=True)
class Check:
    """One rule's verdict on one metric of one endpoint."""

    endpoint: str
    metric: str
    rule: str  # in words
    where: str  # file and number of the rule
    decision: Decision
    blocks: bool  # the release must not go out
    reason: str  # with the numbers, their intervals and n
    reference: str  # the release it was held to; empty for an absolute limit
    allowed: float | None  # loss, in the metric's unit
    loss: float | None  # best estimate, more is worse
    loss_low: float | None
    loss_high: float | None
    p: float | None  # of no difference; corrected over all rules
    n: int
    clusters: int
    paired: bool
    documents_needed: int | None  # to decide, when undecided; None: no number would, or none is known

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(
    rules: Rules,
    endpoint: str,
    current: Side,
    references: Mapping[str, Side],
    *,
    seed: int = 0,
) -> list[Check]:
    """Every rule's verdict on one endpoint. `references`: "previous" and "baseline", where there are such."""
    known = measures(current.frame)
    differences: dict[tuple[str, str], Difference] = {}
    asked: list[tuple[Rule, Measure]] = []
    skipped: list[Check] = []
    for rule in rules.rules:
        if rule.endpoint is not None and rule.endpoint != endpoint:
            continue
        found = matching(rule.metric, _all(known, references, rule))
        if not found:
            skipped.append(_absent(rule, rule.metric, endpoint, "no length was asked of two documents"))
        asked += [(rule, item) for item in found]
    for rule, measure in asked:
        key = (measure.name, rule.compare)
        if rule.compare != "absolute" and rule.compare in references and key not in differences:
            differences[key] = differ(
                measure, references[rule.compare].frame, current.frame, level=rules.level, seed=seed
            )
    tested = [key for key, difference in differences.items() if difference.p is not None]
    corrected = dict(zip(tested, adjusted([differences[key].p or 0.0 for key in tested]), strict=True))
    checks = []
    for rule, measure in asked:
        if rule.compare == "absolute":
            checks.append(_absolute(rule, measured(measure, current.frame, level=rules.level), endpoint))
        elif rule.compare not in references:
            checks.append(
                _absent(rule, measure.name, endpoint, f"there is no {rule.compare} release to hold it to")
            )
        else:
            key = (measure.name, rule.compare)
            difference = differences[key]
            release = references[rule.compare].release
            checks.append(_relative(rule, difference, corrected.get(key), endpoint, release, rules.level))
    return checks + skipped


def _all(known: Sequence[Measure], references: Mapping[str, Side], rule: Rule) -> list[Measure]:
    """What either side was asked: a length that was dropped from the suite is told, not overlooked."""
    if rule.compare not in references:
        return list(known)
    names = {item.name for item in known}
    return [*known, *(item for item in measures(references[rule.compare].frame) if item.name not in names)]


# ── against another run ─────────────────────────────────────────────────────────────────────────────


def _relative(
    rule: Rule, difference: Difference, p: float | None, endpoint: str, release: str, level: float
) -> Check:
    before, after = difference.before, difference.after
    check = _check(rule, after.name, endpoint, reference=release, p=p)
    if difference.value is None or (before.value is None and before.probed_to is None):
        return _without(rule, check, difference.reason)
    allowed = rule.not_worse_by if rule.not_worse_by is not None else None
    if allowed is None:
        scale = before.value if before.value is not None else before.probed_to or 0.0
        allowed = (rule.not_worse_by_share or 0.0) * abs(scale)
    loss, low, high = _loss(rule, difference)
    check = replace(
        check, allowed=allowed, loss=loss, loss_low=low, loss_high=high, n=difference.n,
        clusters=difference.clusters, paired=difference.paired,
    )  # fmt: skip
    shown_worse = low is not None and low > 0 and (p is None or p < 1 - level)
    numbers = _numbers(difference, release, level)
    if shown_worse and loss > allowed:
        return replace(
            check, decision="fail", blocks=True,
            reason=f"{numbers}: worse by more than {_limit(rule, allowed, after.unit)}",
        )  # fmt: skip
    if high is not None and high <= allowed:
        within = (
            "no loss is possible within the interval" if high <= 0 else "the loss lies within what is allowed"
        )
        return replace(check, decision="pass", reason=f"{numbers}: {within}")
    needed = _needed(loss, low, high, allowed, difference.clusters)
    told = (
        f"more than {_limit(rule, allowed, after.unit)} was lost, but not more than chance may take"
        if loss > allowed
        else f"the interval does not rule out that more than {_limit(rule, allowed, after.unit)} was lost"
    )
    if needed:
        told += f"; about {needed:,} documents would decide, {difference.clusters:,} were compared"
    return replace(
        check, decision="undecided", blocks=rule.strict, documents_needed=needed, reason=f"{numbers}: {told}"
    )  # fmt: skip


def _loss(rule: Rule, difference: Difference) -> tuple[float, float | None, float | None]:
    value, low, high = difference.worsening
    assert value is not None
    if difference.after.direction == "neutral" and rule.direction == "higher":
        return -value, None if high is None else -high, None if low is None else -low
    return value, low, high


def _needed(loss: float, low: float | None, high: float | None, allowed: float, clusters: int) -> int | None:
    """Documents at which the interval, which shrinks with the square root of their number, would decide."""
    if low is None or high is None or clusters < 1:
        return None
    half = (high - low) / 2
    gap = loss if loss > allowed else allowed - loss
    if gap <= 0 or half <= 0:
        return None
    needed = clusters * (half / gap) ** 2
    return max(math.ceil(needed), clusters + 1) if needed < 1e7 else None


def _numbers(difference: Difference, release: str, level: float) -> str:
    before, after = difference.before, difference.after
    unit = after.unit
    low, high = amount(difference.low, unit, signed=True, bare=True), amount(difference.high, unit, signed=True)
    return (
        f"{after.title} {after.text()}, {release} had {before.text()}; difference "
        f"{amount(difference.value, unit, signed=True)} ({level:.0%} interval {low} to {high}, "
        f"{difference.n:,} {'probes in both runs' if difference.paired else 'answers, not paired'})"
    )


def _limit(rule: Rule, allowed: float, unit: str) -> str:
    told = amount(allowed, unit, signed=True).lstrip("+")
    share = rule.not_worse_by_share
    return f"the allowed {told}" if share is None else f"the allowed {share:.0%} ({told})"


# ── against a limit ─────────────────────────────────────────────────────────────────────────────────


def _absolute(rule: Rule, told: Measured, endpoint: str) -> Check:
    check = _check(rule, told.name, endpoint)
    limit = rule.at_least if rule.at_least is not None else rule.at_most
    assert limit is not None
    value, low, high = told.value, told.low, told.high
    if value is None and told.probed_to is not None:  # a window that was not left is at least so long
        value, low, high = told.probed_to, told.low or told.probed_to, None
    if value is None:
        return _without(rule, check, told.reason)
    turn = -1.0 if rule.at_least is not None else 1.0
    ends = (low, high) if turn > 0 else (high, low)
    best, worst = (None if end is None else turn * (end - limit) for end in ends)
    check = replace(
        check, allowed=0.0, loss=turn * (value - limit), loss_low=best, loss_high=worst, n=told.n,
        clusters=told.clusters,
    )  # fmt: skip
    word = "at least" if rule.at_least is not None else "at most"
    numbers = (
        f"{told.title} {amount(value, told.unit)} ({told.level:.0%} interval "
        f"{amount(low, told.unit, bare=True)} to {amount(high, told.unit)}, n = {told.n:,}), {word} "
        f"{amount(limit, told.unit)} is asked"
    )
    if best is not None and best > 0:
        return replace(check, decision="fail", blocks=True, reason=f"{numbers}: missed")
    if worst is not None and worst <= 0:
        return replace(check, decision="pass", reason=f"{numbers}: kept")
    needed = _needed(check.loss or 0.0, best, worst, 0.0, told.clusters)
    more = f"; about {needed:,} documents would decide" if needed else ""
    return replace(
        check, decision="undecided", blocks=rule.strict, documents_needed=needed,
        reason=f"{numbers}: the limit lies within the interval{more}",
    )  # fmt: skip


# ── what cannot be judged ───────────────────────────────────────────────────────────────────────────


def _check(rule: Rule, metric: str, endpoint: str, *, reference: str = "", p: float | None = None) -> Check:
    return Check(
        endpoint, metric, rule.words() if "*" not in rule.metric else replace(rule, metric=metric).words(),
        rule.where, "skipped", False, "", reference, None, None, None, None, p, 0, 0, False, None,
    )  # fmt: skip


def _absent(rule: Rule, metric: str, endpoint: str, reason: str) -> Check:
    """Nothing to hold it to: a first release passes, unless the rule is strict."""
    return _without(replace(rule, optional=not rule.strict), _check(rule, metric, endpoint), reason)


def _without(rule: Rule, check: Check, reason: str) -> Check:
    """A number that is not there is undecided, never passed in silence."""
    if rule.optional:
        return replace(check, decision="skipped", reason=f"not judged: {reason}")
    return replace(check, decision="undecided", blocks=rule.strict, reason=f"cannot be judged: {reason}")
