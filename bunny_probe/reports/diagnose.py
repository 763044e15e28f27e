"""The sections of the diagnose report: each takes a study and shows question, picture, numbers, meaning.

A section shows what it can and says plainly what it cannot; none of them raises for thin or odd data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bunny_probe import fits, plots
from bunny_probe.fits.groups import Groups
from bunny_probe.reports.common import answers, length_check, outcomes
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.wording import (
    crossing_tile,
    curves_table,
    estimate_tile,
    opening,
    span,
    still_missing,
    tone_of,
    window_advice,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bunny_probe.reports.study import Study

__all__ = [
    "answers",
    "confidence",
    "headline",
    "length_check",
    "length_decay",
    "method",
    "outcomes",
    "position_recall",
    "stress",
    "timing",
    "wrong_anchors",
]


def headline(study: Study) -> None:
    """Title, where the data come from, and the numbers to remember."""
    opening(study, f"How {study.endpoint} behaves")
    answered = fits.Outcomes()(study.frame)
    decay, window = fits.Decay()(study.family("length")), fits.Window()(study.family("length"))
    recall = fits.Recall()(study.family("position"))
    stress_fit = Groups(by=("family",))(study.family("stress"))
    depths = recall.reason or "not enough depths"
    shown = [
        estimate_tile("Requests answered", answered.answered, form=".0%"),
        estimate_tile("Recall in the shortest context, on the fitted curve", decay.base, why=decay.reason),
        crossing_tile(
            f"Effective window, {window.fraction:.0%} of the base", window.window, window.counts.used,
            unit="prompt tokens", why=window.reason,
        ),
        estimate_tile("End against middle of the context", recall.recency, form="+.2f", why=depths),
        estimate_tile("Wrong anchor given", recall.wrong, form=".0%", why="no planted distractors"),
    ]  # fmt: skip
    if stress_fit.rows and stress_fit.rows[0].score is not None:
        row = stress_fit.rows[0]
        shown.append(
            Tile(
                "Stress probes passed",
                f"{row.score:.0%}",
                f"{stress_fit.level:.0%} interval {span(row.low, row.high, '.0%')}, n = {row.n} of "
                f"{row.asked} asked",
            )
        )
    tiles(shown)
    still_missing(study)


def length_decay(study: Study) -> None:
    """How the score falls with length, and how far the context may be trusted."""
    frame = study.family("length")
    decay, window = fits.Decay()(frame), fits.Window()(frame)
    plot(lambda width: plots.decay_curve(decay, window=window, width=width))
    finding(decay.sentence(), tone=tone_of(decay.status))
    finding(window.sentence(), window_advice(window), tone=tone_of(window.status))
    if decay.models:
        table(curves_table(decay), "Curves tried, best first", text_columns=["curve", "parameters"])


def position_recall(study: Study) -> None:
    """Where in the context a fact is found."""
    fit = fits.Recall()(study.family("position"))
    plot(lambda width: plots.recall_heatmap(fit, width=width))
    finding(fit.sentence(), _recency_advice(fit), tone=tone_of(fit.status))
    if ends := _ends(fit):
        finding(ends)


def wrong_anchors(study: Study) -> None:
    """How often another planted fact's value is given instead."""
    frame = study.family("position")
    fit = fits.Recall()(frame)
    if fit.wrong is None:
        finding(
            "These probes plant no second fact, so a wrong anchor cannot be told from a miss.", tone="refused"
        )
        return
    plot(lambda width: plots.wrong_anchor_heatmap(fit, width=width))
    labels = frame["label"].value_counts()
    hits, wrong = int(labels.get("hit", 0)), int(labels.get("wrong_anchor", 0))
    scored = int(frame["score"].notna().sum())
    rest = scored - hits - wrong
    finding(
        f"Of {scored:,} scored answers {hits:,} are right, {wrong:,} give another planted fact's value "
        f"({fit.wrong.text()}), and {rest:,} give none of the planted values.",
        "A wrong anchor is worse than a miss: it looks right. Check answers against their source before use."
        if wrong > rest
        else "",
        tone="bad" if wrong > max(rest, hits) else "plain",
    )


def stress(study: Study) -> None:
    """How it acts when the input turns hostile."""
    frame = study.family("stress")
    fit = Groups(by=("task",))(frame)
    finding(fit.sentence(), tone=tone_of(fit.status))
    if fit.status == "refused":
        return
    table(
        fit.table().drop(columns="clusters"),
        "Stress probes by task: mean score with 95% interval, scored answers and requests",
        text_columns=["task"],
    )
    finer = Groups(by=("task", "variant"))(frame).table().drop(columns="clusters")
    table(
        finer.sort_values(["task", "score", "variant"], na_position="last"),
        "The same by variant",
        text_columns=["task", "variant"],
        folded=True,
    )


def confidence(study: Study) -> None:
    """How sure the model is of its own tokens, and whether length changes that."""
    fit = fits.Entropy()(study.family("length"))
    plot(lambda width: plots.entropy_band(fit, width=width))
    finding(
        fit.sentence(),
        "Between the bounds lies what the endpoint does not show of its distribution.",
        tone=tone_of(fit.status),
    )


def timing(study: Study) -> None:
    """How long it takes, from outside."""
    planted = study.frame["family"].isin(["length", "position"])  # the others have a natural length each
    frame = study.frame[planted] if planted.any() else study.frame
    cached = frame["cached_tokens"].fillna(0) > 0
    fresh = frame[~cached]
    plot(lambda width: plots.ttft_by_length(fresh, width=width))
    plot(lambda width: plots.latency_ecdf(frame, column="latency_s", width=width))
    invalid = int((~frame["timing_valid"].fillna(True)).sum())
    note = f" {invalid:,} were measured while this client was saturated." if invalid else ""
    finding(
        f"Time to first token is drawn from the {len(fresh):,} requests whose prompt did not come from the "
        f"server's prefix cache; {int(cached.sum()):,} others shared a prefix and are left out of it.{note}",
        tone="unsure" if invalid else "plain",
    )


def method(study: Study) -> None:
    """How the numbers were made, for whoever must defend them."""
    markdown(
        "Shares carry Wilson intervals on the effective number of trials, because trials that share a document "
        "are not independent. Curves are fitted by maximum likelihood to the raw trials and chosen by AICc; "
        "intervals take the choice into account. Failures are counted beside the scores and are never a 0. "
        "Entropy is bounded, not guessed: what the endpoint does not show of its distribution is unknown.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned. "
        "The same suite and seed give the same probes anywhere."
    )


def _recency_advice(fit: fits.RecallFit) -> str:
    contrasts: Sequence[tuple[str, fits.Estimate | None]] = (("end", fit.recency), ("start", fit.primacy))
    strong = [name for name, e in contrasts if e and e.low is not None and e.low > 0]
    weak = [name for name, e in contrasts if e and e.high is not None and e.high < 0]
    advice = []
    if strong:
        advice.append(f"Put what must be found at the {' or the '.join(strong)} of the context.")
    if weak:
        advice.append(f"Do not leave it at the {' or the '.join(weak)}: recall there is below the middle's.")
    return " ".join(advice) or "No part is shown to differ from the middle; more documents would narrow this."


def _ends(fit: fits.RecallFit) -> str:
    """The last anchor against the first at the longest length, where both were asked."""
    from bunny_probe.fits.proportions import mover_difference

    if len(fit.depths) < 2 or not fit.lengths:
        return ""
    cells = {(cell.depth, cell.length): cell for cell in fit.cells if cell.n}
    first = cells.get((fit.depths[0], fit.lengths[-1]))
    last = cells.get((fit.depths[-1], fit.lengths[-1]))
    if first is None or last is None:
        return ""
    low, high = mover_difference((last.recall, last.low, last.high), (first.recall, first.low, first.high))
    return (
        f"At {fit.lengths[-1]:,.0f} tokens the last anchor (depth {last.depth:g}) is given in "
        f"{last.recall:.2f} [{last.low:.2f}, {last.high:.2f}] of {last.n} answers and the first "
        f"(depth {first.depth:g}) in "
        f"{first.recall:.2f} [{first.low:.2f}, {first.high:.2f}] of {first.n}: a difference of "
        f"{last.recall - first.recall:+.2f} [{low:+.2f}, {high:+.2f}] ({fit.level:.0%} intervals)."
    )
