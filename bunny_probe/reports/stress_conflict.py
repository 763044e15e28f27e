"""The contradictions of the stress report: two clauses that say different things, in both orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.fits.contrasts import Contrasts, ContrastsFit
from bunny_probe.fits.groups import GroupRow, Groups
from bunny_probe.reports.display import Tile, finding, table

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.reports.study import Study

__all__ = ["ORDER", "asked_lengths", "conflict", "of_task", "order_tile", "told"]

ORDER = (("right value first minus last", "rule/right_last", "rule/right_first"),)
_CHOICES = {"first_wins": "the first clause", "last_wins": "the last clause", "reasoned": "reasoned"}


def conflict(study: Study) -> None:
    """Two clauses contradict each other: does the first win, the last, or the rule?"""
    frame = of_task(study, "conflict")
    if frame.empty:
        finding("This suite asks no contradictions.", tone="refused")
        return
    natural, timed = frame[frame["label"].notna()], asked_lengths(frame)
    order = Contrasts(ORDER, match=("cluster", "length_tokens"))(frame)
    shares = _choice_shares(natural)
    if len(shares):
        table(
            shares,
            "What was taken, by form: share of scored answers with its 95 % interval",
            text_columns=["form"],
        )
    if order.status == "refused":
        finding(
            f"Order bias is not estimable: {order.reason}.",
            "Ask both orders of more documents.",
            tone="refused",
        )
    else:
        row = order.rows[0]
        blind = not row.first and not row.second
        biased = row.p is not None and row.p < 1 - order.level
        side = "first" if (row.difference or 0) > 0 else "last"
        finding(
            f"With a rule in the document that decides, the right value is taken in {row.second:.2f} of cases "
            f"where it stands first and in {row.first:.2f} where it stands last: a difference of "
            f"{row.difference:+.2f} [{row.low:+.2f}, {row.high:+.2f}] over {row.n:,} pairs from "
            f"{row.clusters:,} documents (95% interval, p = {row.p:.2g}).",
            f"It leans to the clause that stands {side}: put the amendment there, or delete what it replaces."
            if biased
            else "It is never right in either order, so nothing can be said about a lean: read the answers."
            if blind
            else "No lean is shown: what was wrong was wrong in both orders alike.",
            tone="bad" if biased else "unsure" if blind else "plain",
        )
    _control(frame)
    if len(timed) > 1:
        _order_by_length(frame, timed)


def of_task(study: Study, name: str) -> pd.DataFrame:
    frame = study.family("stress")
    return frame[frame["task"] == name]


def asked_lengths(frame: pd.DataFrame, least: int = 4) -> list[float]:
    """Lengths that were asked for on purpose: several probes stand at exactly each."""
    counts = frame["length_tokens"].value_counts()
    pairs = zip(map(float, counts.index), counts, strict=True)
    return sorted(length for length, n in pairs if n >= least and length % 64 == 0)


def _choice_shares(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a form, a column a choice; the rest gave neither value, or abstained."""
    import pandas as pd

    form = frame["variant"].str.split("/").str[0]
    scored = frame[frame["score"].notna()]
    scored = scored.assign(form=form.reindex(scored.index))
    if scored.empty:
        return pd.DataFrame()
    # a right value without its reason is told by its place, as the document had it
    right = (scored["score"] == 1) & ~scored["label"].isin(("reasoned",))
    place = np.where(scored["variant"].str.endswith("right_first"), "first_wins", "last_wins")
    taken = scored["label"].where(~right | scored["label"].isin(list(_CHOICES)), pd.Series(place, scored.index))
    rows = []
    for name in ("rule", "open"):
        part = scored[scored["form"] == name]
        if part.empty:
            continue
        row: dict[str, object] = {"form": {"rule": "a rule decides", "open": "nothing decides"}[name]}
        for label, words in _CHOICES.items():
            hit = (taken[part.index] == label).astype(float)
            found = Groups(by=("form",))(part.assign(score=hit)).rows[0]
            row[words] = f"{found.score:.2f}\u00a0[{found.low:.2f},\u00a0{found.high:.2f}]"
        rows.append({**row, "n": len(part), "asked": int((form == name).sum())})
    return pd.DataFrame(rows)


def _control(frame: pd.DataFrame) -> None:
    control = frame[frame["variant"].str.startswith("control")]
    fit = Groups(by=("variant",))(control)
    if fit.status == "refused" or fit.rows[0].score is None:
        return
    alarms = int((control["label"] == "fail").sum())
    finding(
        f"Where both clauses say the same it gives the value in {told(fit.rows[0])}, and reports a conflict "
        f"that is not there {alarms} times of {fit.rows[0].n}.",
    )


def _order_by_length(frame: pd.DataFrame, lengths: list[float]) -> None:
    rows = []
    for length in lengths:
        fit = Contrasts(ORDER)(frame[frame["length_tokens"] == length])
        if fit.rows and fit.rows[0].low is not None:
            r = fit.rows[0]
            rows.append(f"{length:,.0f} tokens {r.difference:+.2f} [{r.low:+.2f}, {r.high:+.2f}], n = {r.n}")
    if rows:
        finding(f"The same difference with filling text between the clauses: {'; '.join(rows)} pairs.")


def told(row: GroupRow) -> str:
    return f"{row.score:.2f} [{row.low:.2f}, {row.high:.2f}] (n = {row.n} of {row.asked} asked)"


def order_tile(fit: ContrastsFit) -> Tile:
    name = "Order bias: right first minus right last"
    row = fit.rows[0] if fit.rows else None
    if row is None or row.low is None:
        return Tile(name, "not estimable", fit.reason or "too few pairs")
    return Tile(
        name, f"{row.difference:+.2f}", f"95% interval {row.low:+.2f} to {row.high:+.2f}, n = {row.n} pairs"
    )
