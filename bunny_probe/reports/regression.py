"""The sections of the regression report: this release against the one before and against a pinned baseline."""

from __future__ import annotations

from bunny_probe.measures import amount
from bunny_probe.plots.moves import move_dots
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.regression_case import Against, Moved, Regression, open_regression
from bunny_probe.reports.regression_wording import (
    TIMES,
    advice,
    as_frame,
    base,
    dot,
    interval,
    now,
    phrase,
    quality_title,
    row,
    speed_title,
)
from bunny_probe.reports.wording import clip

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


# ── sections ────────────────────────────────────────────────────────────────────────────────────────


def headline(case: Regression) -> None:
    """What is compared, the numbers to remember, and the verdict first."""
    markdown(f"# Release {case.release or 'without a name'} of {case.endpoint}: what changed")
    if case.frame["model"].str.startswith("phantom").any():
        markdown("**The phantom answered, a simulated endpoint: these are no results of a model.**")
    shown = [case.values[name] for name in ("recall", "answered_share", "latency_p95") if name in case.values]
    tiles(Tile(told.title, amount(told.value, told.unit), interval(told)) for told in shown)
    if not case.against:
        finding(
            "There is no earlier release of this endpoint to compare with: these numbers are the first.",
            "Run the next release under the same endpoint name, or pin this one as the baseline.",
            tone="unsure",
        )
        rows = [now(told) for told in case.values.values() if told.n]
        table(as_frame(rows), "The numbers of this release", text_columns=["metric", "of"])
    for other in case.against:
        _verdict_on(case, other)


def _verdict_on(case: Regression, other: Against) -> None:
    worse, better = other.named("worse"), other.named("better")
    if other.compared.status == "refused":
        finding(f"Against the {other.name}: no comparison, {other.compared.reason}.", tone="refused")
        return
    parts = [
        f"{word}: {', '.join(map(phrase, moves))}"
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
        advice(worse, better),
        tone="bad" if worse else "plain",
    )


def quality(case: Regression) -> None:
    """What it says: recall, windows, wrong anchors, stress."""
    for other in case.against:
        shares = [m for m in other.moves if m.difference.after.unit == "share"]
        moves = [dot(m, 100.0) for m in shares if m.difference.value is not None]
        plot(
            lambda width, moves=moves, other=other: move_dots(  # type: ignore[misc]
                moves,
                title=quality_title(other),
                unit="points",
                margin=100 * case.margin,
                note=f"this release minus the {other.name}, {case.level:.0%} intervals; "
                f"grey band: ±{100 * case.margin:g} points, which nobody would mind",
                width=width,
            )
        )
        rows = [row(m) for m in other.moves if m.difference.measure not in TIMES]
        table(
            as_frame(rows),
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
        times = [m for m in other.moves if m.difference.measure in TIMES and m.difference.value is not None]
        if not times:
            finding(f"Against the {other.name}: no times to compare.", tone="refused")
            continue
        dots = [dot(m, 100.0 / base(m.difference)) for m in times if base(m.difference) > 0]
        plot(
            lambda width, dots=dots, other=other: move_dots(  # type: ignore[misc]
                dots,
                title=speed_title(other),
                unit="% of the time before (less is faster)",
                note=f"this release minus the {other.name}; {case.level:.0%} intervals, bootstrap of documents",
                width=width,
            )
        )
        table(
            as_frame([row(m) for m in times]),
            f"Times against the {other.name}",
            text_columns=["metric", "verdict"],
        )
        _trade(other)


def _trade(other: Against) -> None:
    faster = [m for m in other.named("better") if m.difference.measure in TIMES]
    lost = [m for m in other.named("worse") if m.difference.after.unit in ("share", "tokens")]
    doubtful = [
        m
        for m in other.named("undecided")
        if m.difference.after.unit == "share" and (m.difference.worsening[0] or 0) > 0
    ]
    if faster and lost:
        finding(
            f"Faster but worse than the {other.name}: {', '.join(map(phrase, faster))}, at the price of "
            f"{', '.join(map(phrase, lost))}.",
            "Do not read the speed without the loss: a smaller or more compressed model answers like this.",
            tone="bad",
        )
    elif faster and doubtful:
        finding(
            f"Faster than the {other.name}, and whether it is worse is undecided: "
            f"{', '.join(map(phrase, doubtful))}.",
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
                as_frame(rows),
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
