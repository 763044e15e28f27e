"""The sections of the regression report: this release against the one before and against a pinned baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bunny_probe.measures import Difference, Measured, amount
from bunny_probe.plots.moves import Move, move_dots
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.regression_case import Against, Moved, Regression, open_regression
from bunny_probe.reports.wording import clip

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Against",
    "Moved",
    "Regression",
    "answers",
    "headline",
    "method",
    "open_regression",
    "quality",
    "same_model",
    "speed",
    "visible",
]

_TIMES = ("ttft_p50", "ttft_p95", "latency_p50", "latency_p95")


# ── sections ────────────────────────────────────────────────────────────────────────────────────────


def headline(case: Regression) -> None:
    """What is compared, the numbers to remember, and the verdict first."""
    markdown(f"# Release {case.release or 'without a name'} of {case.endpoint}: what changed")
    if case.frame["model"].str.startswith("phantom").any():
        markdown("**The phantom answered, a simulated endpoint: these are no results of a model.**")
    shown = [case.values[name] for name in ("recall", "answered_share", "latency_p95") if name in case.values]
    tiles(Tile(told.title, amount(told.value, told.unit), _interval(told)) for told in shown)
    if not case.against:
        finding(
            "There is no earlier release of this endpoint to compare with: these numbers are the first.",
            "Run the next release under the same endpoint name, or pin this one as the baseline.",
            tone="unsure",
        )
        rows = [_now(told) for told in case.values.values() if told.n]
        table(_as_frame(rows), "The numbers of this release", text_columns=["metric", "of"])
    for other in case.against:
        _verdict_on(case, other)


def _verdict_on(case: Regression, other: Against) -> None:
    worse, better = other.named("worse"), other.named("better")
    if other.compared.status == "refused":
        finding(f"Against the {other.name}: no comparison, {other.compared.reason}.", tone="refused")
        return
    parts = [
        f"{word}: {', '.join(map(_phrase, moves))}"
        for word, moves in (("worse", worse), ("better", better))
        if moves
    ]
    same, undecided = other.named("same"), other.named("undecided")
    if same:
        parts.append(f"{len(same)} the same within {case.margin:.0%}")
    if undecided:
        parts.append(f"undecided: {', '.join(move.difference.after.title for move in undecided)}")
    finding(
        f"Against the {other.name}, {len(other.moves)} numbers compared, corrected for how many: "
        f"{'; '.join(parts)}.",
        _advice(worse, better),
        tone="bad" if worse else "plain",
    )


def quality(case: Regression) -> None:
    """What it says: recall, windows, wrong anchors, stress."""
    for other in case.against:
        shares = [m for m in other.moves if m.difference.after.unit == "share"]
        moves = [_dot(m, 100.0) for m in shares if m.difference.value is not None]
        plot(
            lambda width, moves=moves, other=other: move_dots(  # type: ignore[misc]
                moves,
                title=_quality_title(other),
                unit="points",
                margin=100 * case.margin,
                note=f"this release minus the {other.name}, {case.level:.0%} intervals; "
                f"grey band: ±{100 * case.margin:g} points, which nobody would mind",
                width=width,
            )
        )
        rows = [_row(m) for m in other.moves if m.difference.measure not in _TIMES]
        table(
            _as_frame(rows),
            f"This release against the {other.name}: value, difference with {case.level:.0%} interval, "
            "corrected p and verdict",
            text_columns=["metric", "verdict", "why not"],
        )
        finding(
            f"All scored probes together: {other.compared.sentence()}",
            tone="bad" if other.compared.verdict == "worse" else "plain",
        )


def speed(case: Regression) -> None:
    """How fast it says it, and whether speed was bought with quality."""
    for other in case.against:
        times = [m for m in other.moves if m.difference.measure in _TIMES and m.difference.value is not None]
        if not times:
            finding(f"Against the {other.name}: no times to compare.", tone="refused")
            continue
        dots = [_dot(m, 100.0 / _base(m.difference)) for m in times if _base(m.difference) > 0]
        plot(
            lambda width, dots=dots, other=other: move_dots(  # type: ignore[misc]
                dots,
                title=_speed_title(other),
                unit="% of the time before (less is faster)",
                note=f"this release minus the {other.name}; {case.level:.0%} intervals, bootstrap of documents",
                width=width,
            )
        )
        table(
            _as_frame([_row(m) for m in times]),
            f"Times against the {other.name}",
            text_columns=["metric", "verdict"],
        )
        _trade(other)


def _trade(other: Against) -> None:
    faster = [m for m in other.named("better") if m.difference.measure in _TIMES]
    lost = [m for m in other.named("worse") if m.difference.after.unit in ("share", "tokens")]
    doubtful = [
        m
        for m in other.named("undecided")
        if m.difference.after.unit == "share" and (m.difference.worsening[0] or 0) > 0
    ]
    if faster and lost:
        finding(
            f"Faster but worse than the {other.name}: {', '.join(map(_phrase, faster))}, at the price of "
            f"{', '.join(map(_phrase, lost))}.",
            "Do not read the speed without the loss: a smaller or more compressed model answers like this.",
            tone="bad",
        )
    elif faster and doubtful:
        finding(
            f"Faster than the {other.name}, and whether it is worse is undecided: "
            f"{', '.join(map(_phrase, doubtful))}.",
            "Ask more documents before this speed is taken for a gift.",
            tone="unsure",
        )
    elif faster:
        finding(f"Faster than the {other.name}, and no loss was shown.")
    else:
        finding(f"No speed was shown to be bought with quality against the {other.name}.")


def same_model(case: Regression) -> None:
    """Whether the answers could come from the same model."""
    for other in case.against:
        tests = [q for q in other.compared.questions if q.kind == "distribution"]
        if not tests:
            finding(f"Against the {other.name}: too few shared answers for a test of sameness.", tone="refused")
            continue
        found = "; ".join(
            f"{q.name}: distance {q.difference:.4f}, corrected p = {q.p_adjusted:.3f}" for q in tests
        )
        if other.compared.same_model is False:
            finding(
                f"These are not answers of the model that answered as the {other.name} ({found}, "
                f"n = {tests[0].n:,} probes).",
                "Expected for a new model. If nothing was meant to change, ask what did: weights, "
                "quantisation, prompt template or sampling.",
                tone="unsure",
            )
        else:
            finding(
                f"No difference to the model that answered as the {other.name} was seen ({found}, "
                f"n = {tests[0].n:,} probes). That is no proof of sameness, only of nothing seen at this n."
            )


def visible(case: Regression) -> None:
    """What could have been seen with this many probes."""
    for other in case.against:
        rows = [
            {
                "question": q.name,
                "smallest visible difference": q.detectable,
                "pairs": q.n,
                "documents": q.clusters,
            }
            for q in other.compared.questions
            if q.detectable is not None
        ]
        if rows:
            table(
                _as_frame(rows),
                f"Score differences to the {other.name} that would have been seen four times in five",
                text_columns=["question"],
            )


def answers(case: Regression, limit: int = 12) -> None:
    """The answers behind the change: what was right before and is wrong now."""
    for other in case.against:
        key = ["probe_id", "decoding_id", "repeat"]
        columns = [*key, "family", "task", "length_tokens", "depth", "score", "text"]
        both = other.frame[columns].merge(
            case.frame[[*key, "score", "text"]], on=key, suffixes=("_before", "_now")
        )
        change = (both["score_now"] - both["score_before"]).fillna(0.0)
        lost, won = both[change < 0], both[change > 0]
        finding(
            f"Against the {other.name}: of {len(both):,} answers in both runs {len(lost):,} lost score and "
            f"{len(won):,} gained."
        )
        if len(lost):
            shown = lost.assign(loss=-change[change < 0]).sort_values("loss", ascending=False).head(limit)
            shown = shown[
                ["task", "length_tokens", "depth", "score_before", "score_now", "text_before", "text_now"]
            ]
            for name in ("text_before", "text_now"):
                shown = shown.assign(**{name: shown[name].map(lambda text: clip(text, 160))})
            shown.columns = ["task", "length", "depth", "score before", "now", "answer before", "answer now"]
            table(
                shown,
                f"Answers that lost score against the {other.name}"
                + f", {limit} of {len(lost)}" * (len(lost) > limit),
                text_columns=["task", "answer before", "answer now"],
            )


def method(case: Regression) -> None:
    """How these numbers were made."""
    markdown(
        "Probes are paired by content: the same probe, decoding and repeats in both runs; documents are the "
        "unit. Scores: sign-flip test and smoothed interval of the documents' differences. Times: labels "
        "exchanged within each probe, bootstrap of documents. *Same*: the whole interval lies within "
        f"the margin ({100 * case.margin:g} points, or {case.margin:.0%} of the value before); *better* and "
        f"*worse*: it lies to one side of 0 and p is below {1 - case.level:.2g}, corrected by Holm's method "
        "among the numbers of a kind (what it says, how fast); *undecided*: neither. Sameness of models: "
        "permutation test on the answers' n-grams and the first token's distribution within probes."
    )


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def _phrase(move: Moved) -> str:
    told = move.difference
    if told.value is None:
        return f"{told.after.title} ({told.reason})"
    unit = told.after.unit
    low, high = amount(told.low, unit, signed=True, bare=True), amount(told.high, unit, signed=True)
    return f"{told.after.title} {amount(told.value, unit, signed=True)} [{low}, {high}]"


def _advice(worse: Sequence[Moved], better: Sequence[Moved]) -> str:
    if any(move.difference.after.unit == "share" for move in worse):
        return "Look at the answers that were lost, below, before this release goes out."
    if worse:
        return "Check that the endpoint was as busy as before: times are compared as they were measured."
    if better:
        return "Nothing was shown to be worse; what is undecided needs more documents, not more trust."
    return "Nothing was shown to have moved."


def _quality_title(other: Against) -> str:
    shares = [m for m in other.moves if m.difference.after.unit == "share"]
    worse = [m for m in shares if m.verdict == "worse"]
    better = [m for m in shares if m.verdict == "better"]
    if worse:
        return f"{len(worse)} of {len(shares)} shares got worse against the {other.name}"
    if better:
        return f"{len(better)} of {len(shares)} shares got better against the {other.name}"
    return f"No share was shown to move against the {other.name}"


def _speed_title(other: Against) -> str:
    times = [m for m in other.moves if m.difference.measure in _TIMES]
    slower, faster = (sum(m.verdict == word for m in times) for word in ("worse", "better"))
    if slower:
        return f"{slower} of {len(times)} times got longer against the {other.name}"
    if faster:
        return f"{faster} of {len(times)} times got shorter against the {other.name}"
    return f"No time was shown to move against the {other.name}"


def _dot(move: Moved, scale: float) -> Move:
    told = move.difference
    value = told.value or 0.0
    low, high = value if told.low is None else told.low, value if told.high is None else told.high
    return Move(told.after.title, scale * value, scale * low, scale * high, move.verdict, told.n)


def _base(told: Difference) -> float:
    return told.before.value or 0.0


def _row(move: Moved) -> dict[str, object]:
    told, unit = move.difference, move.difference.after.unit
    low, high = amount(told.low, unit, signed=True, bare=True), amount(told.high, unit, signed=True, bare=True)
    cells = {
        "before": told.before.text(),
        "now": told.after.text(),
        "difference": amount(told.value, unit, signed=True),
        "interval": "—" if told.low is None else f"{low} to {high}",
    }
    return {
        "metric": told.after.title,
        **{name: text.replace(" ", "\N{NO-BREAK SPACE}") for name, text in cells.items()},
        "n": told.n,
        "p": move.p,
        "verdict": move.verdict if told.value is not None else "not compared",
        "why not": told.reason,
    }


def _now(told: Measured) -> dict[str, object]:
    return {"metric": told.title, "value": told.text(), "interval": _interval(told), "of": told.denominator}


def _interval(told: Measured) -> str:
    if told.value is None:
        return told.reason or "not known"
    low, high = amount(told.low, told.unit, bare=True), amount(told.high, told.unit)
    return f"{told.level:.0%} interval {low} to {high}, n = {told.n:,} of {told.asked:,}"


def _as_frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows)
    return frame.drop(columns=[name for name in ("why not",) if name in frame and not frame[name].any()])
