"""The sections of the claims audit, and what a run can say about a claim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.cost.claims import MEASURES, Audit, Claim, ClaimsTable, Found, Row, audit, read_claims
from bunny_probe.cost.growth import GROWTHS
from bunny_probe.cost.measured import effective_trials
from bunny_probe.fits.proportions import quantile_ranks, wilson
from bunny_probe.reports.cost_case import read_bundled, run_frame
from bunny_probe.reports.display import Tile, finding, markdown, table, tiles

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Desk", "arithmetic", "headline", "measurements", "method", "open_audit", "results", "verdicts"]

_NEAR = 0.02  # prompts within this share of the asked length count as of that length
_BAD = ("fails", "contradict")


@dataclass(frozen=True, slots=True)
class Desk:
    """A claims table, its verdicts, and the endpoint that was asked, if any."""

    claims: ClaimsTable
    audit: Audit
    endpoint: str  # "" when nothing was measured
    rows: int  # of the run
    release: str


def open_audit(
    claims: str = "sample_vendor", *, endpoint: str = "", run_path: str = "", release: str = "", **study: Any
) -> Desk:
    """Read a claims table (a bundled name or a path) and measure what an endpoint or a run can show.

    The other parameters are those of `open_study`. Raises WorksheetError and what `open_study` raises.
    """
    sheet = read_claims(read_bundled("claims", claims), file=claims)
    frame = run_frame(endpoint, run_path, release, study)
    found: dict[str, Found] = {}
    name = ""
    if frame is not None:
        names = sorted(str(item) for item in frame["endpoint"].dropna().unique())
        name = ", ".join(names) or Path(run_path).name
        found = {claim.id: seen for claim in sheet.claims if (seen := find(frame, claim)) is not None}
    return Desk(sheet, audit(sheet, found), name, 0 if frame is None else len(frame), release)


def find(frame: pd.DataFrame, claim: Claim, *, level: float = 0.95) -> Found | None:
    """What a run's frame says about a `measured` claim; None when it holds nothing of the kind.

    Quantiles get distribution-free intervals from order statistics, shares Wilson's on effective trials.
    """
    if claim.type != "measured":
        return None
    rows = frame
    if claim.length is not None:
        length = rows["length_tokens"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
        rows = rows[np.abs(length / claim.length - 1) <= _NEAR]
    at = f" at {claim.length:,} tokens" if claim.length else ""
    cluster = rows["cluster"].fillna(rows["probe_id"]).to_numpy(dtype=object)
    answered = rows["answered"].fillna(False).to_numpy(dtype=bool)
    if claim.measure in {"answered", "score"}:
        if claim.measure == "answered":
            values, what = answered.astype(float), "requests, the answered ones"
        else:
            scores = _floats(rows["score"])
            values, cluster = scores[np.isfinite(scores)], cluster[np.isfinite(scores)]
            what = "scores, their mean"
        if values.size == 0:
            return None
        n = effective_trials(values, cluster)
        low, high = wilson(values.mean() * n, n, level)
        return Found(
            float(values.mean()), float(low), float(high), values.size, f"{values.size} {what}{at}", level
        )
    seconds, name = _seconds(
        rows[answered & rows["timing_valid"].fillna(True).to_numpy(dtype=bool)], claim.measure
    )
    if seconds.size < 2:
        return None
    q = 0.5 if claim.measure == "tokens_per_s" else float(claim.measure.rpartition("_p")[2]) / 100
    ordered = np.sort(seconds)
    below, above = quantile_ranks(ordered.size, q, level)
    return Found(
        float(np.quantile(ordered, q)),
        None if below is None else float(ordered[below]),
        None if above is None else float(ordered[above]),
        int(ordered.size),
        f"{MEASURES[claim.measure][1]}, {ordered.size} {name}{at}",
        level,
    )


def _seconds(rows: pd.DataFrame, measure: str) -> tuple[np.ndarray[Any, Any], str]:
    if measure == "tokens_per_s":
        took = _floats(rows["latency_s"]) - _floats(rows["ttft_s"])
        tokens = _floats(rows["completion_tokens"]) - 1
        usable = np.isfinite(took) & np.isfinite(tokens) & (took > 0) & (tokens >= 1)
        return tokens[usable] / took[usable], "answers"
    seconds = _floats(rows["ttft_s" if measure.startswith("ttft") else "latency_s"])
    return seconds[np.isfinite(seconds)], "times"


def _floats(column: pd.Series[Any]) -> np.ndarray[Any, Any]:
    return np.asarray(column.astype("Float64").to_numpy(dtype=float, na_value=np.nan), dtype=float)


# ── sections ────────────────────────────────────────────────────────────────────────────────────────


def headline(desk: Desk) -> None:
    """What was claimed, and how many of the claims stand."""
    release = f", release {desk.release}" if desk.release else ""
    markdown(f"# {desk.claims.title}{release}")
    markdown(desk.claims.about)
    n = len(desk.audit.rows)
    tiles(
        [
            Tile("Hold", str(desk.audit.count("holds")), f"of {n} claims"),
            Tile("Close, flagged", str(desk.audit.count("close")), "within 1 %, but not what the digits say"),
            Tile("Fail or contradict", str(desk.audit.count("fails", "contradict")), f"of {n} claims"),
            Tile("To be measured", str(desk.audit.count("needs measurement")), _asked(desk)),
        ]
    )
    bad = [row for row in desk.audit.rows if row.verdict in _BAD]
    finding(
        desk.audit.sentence(),
        f"Ask the vendor first about: {'; '.join(row.says for row in bad)}." if bad else "",
        tone="bad" if bad else "plain",
    )


def verdicts(desk: Desk) -> None:
    """The whole table, a verdict a row."""
    import pandas as pd

    rows = [
        {"claim": row.says, "verdict": row.verdict, "claimed": row.claimed, "found": row.computed}
        for row in desk.audit.rows
    ]
    table(
        pd.DataFrame(rows),
        "Every claim with its verdict",
        text_columns=["claim", "verdict", "claimed", "found"],
    )


def arithmetic(desk: Desk) -> None:
    """The claims that arithmetic decides, with the working."""
    import pandas as pd

    decided = _of(desk, measured=False)
    if not decided:
        finding("No claim of this table can be decided by arithmetic.", tone="refused")
        return
    rows = [
        {
            "claim": r.says,
            "working": f"{r.working}{': ' if r.computed in GROWTHS else ' = '}{r.computed}",
            "why": r.reason,
        }
        for r in decided
    ]
    table(pd.DataFrame(rows), "The working", text_columns=["claim", "working", "why"])
    for row in decided:
        if row.verdict != "holds":
            tone = "bad" if row.verdict in _BAD else "unsure"
            finding(f"{row.says}: {_spoken(row)}", tone=tone)  # type: ignore[arg-type]


def measurements(desk: Desk) -> None:
    """The claims that only an endpoint can decide."""
    import pandas as pd

    asked = _of(desk, measured=True)
    if not asked:
        finding("No claim of this table asks for a measurement.")
        return
    rows = [
        {"claim": r.says, "claimed": r.claimed, "measured": r.computed, "from": r.working, "why": r.reason}
        for r in asked
    ]
    table(pd.DataFrame(rows), "What only an endpoint can show", text_columns=list(rows[0]))
    open_rows = [row for row in asked if row.verdict == "needs measurement"]
    if desk.endpoint:
        settled = len(asked) - len(open_rows)
        finding(
            f"{desk.endpoint} settled {settled} of {len(asked)} such claims, from {desk.rows:,} observations.",
            "For the open ones use a suite with the lengths they name, and more repeats." if open_rows else "",
            tone="unsure" if open_rows else "plain",
        )
    else:
        finding(
            f"Nothing was measured: {len(open_rows)} claims stay open.",
            "Name an endpoint in the first cell, with a suite that holds the lengths these claims name.",
            tone="unsure",
        )


def method(desk: Desk) -> None:
    """How the verdicts came about."""
    markdown(
        "- A figure **holds** when the computed number rounds to it in the digits it was stated with; it is "
        "**close** when it is off by at most 1 %; else it **fails**.\n"
        "- Two statements of the vendor that give different numbers **contradict** each other.\n"
        "- A measured claim is decided only when the whole 95 % interval lies on one side: order-statistic "
        "intervals for percentiles, Wilson intervals for shares, counted by documents where these are shared.\n"
        "- Units are part of the arithmetic: GB are 10⁹ bytes; K is 1,000 unless a row says 1,024."
    )


def results(desk: Desk) -> dict[str, Any]:
    """The audit as JSON values, for a summary file."""
    return {"endpoint": desk.endpoint, "release": desk.release, **desk.audit.to_json()}


def _of(desk: Desk, *, measured: bool) -> list[Row]:
    kinds = {claim.id: claim.type for claim in desk.claims.claims}
    return [row for row in desk.audit.rows if (kinds[row.id] == "measured") is measured]


def _asked(desk: Desk) -> str:
    return f"{desk.endpoint} was asked" if desk.endpoint else "no endpoint was named"


def _spoken(row: Row) -> str:
    lead = {
        "close": "close, but not what its own numbers give",
        "fails": "does not follow from its own numbers",
        "contradict": "two statements that cannot both be true",
    }[row.verdict]
    return f"{lead}. Computed {row.computed}, claimed {row.claimed}: {row.reason}."
