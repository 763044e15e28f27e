"""The sections that every report of one endpoint shares: what became of the requests, lengths, the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bunny_probe import fits, plots
from bunny_probe.reports.display import finding, plot, table
from bunny_probe.reports.wording import clip

if TYPE_CHECKING:
    from bunny_probe.reports.study import Study

__all__ = ["answers", "length_check", "outcomes"]


def outcomes(study: Study) -> None:
    """Whether requests were answered at all, and what became of the rest."""
    fit = fits.Outcomes(by="family")(study.frame)
    plot(lambda width: plots.outcome_bars(fit, width=width))
    failed = study.frame[~study.frame["answered"].fillna(False)]
    finding(
        fit.sentence(),
        "Scores below rest on the answered requests only."
        if len(failed)
        else "Nothing stands in the way of reading the scores below.",
        tone="unsure" if len(failed) else "plain",
    )
    if len(failed):
        kinds = (
            failed.groupby(["family", "task", "outcome"], observed=True, dropna=False)
            .agg(count=("probe_id", "size"), example=("evidence", "first"))
            .reset_index()
        )
        table(kinds, "Requests that were not answered", text_columns=["family", "task", "outcome", "example"])


def length_check(study: Study) -> None:
    """Whether the server counted what was meant to be sent."""
    frame = study.frame
    counted = frame[frame["length_tokens"].notna() & frame["prompt_tokens"].notna()]
    if counted.empty:
        finding(
            "The endpoint reported no prompt tokens, so truncation cannot be ruled out.",
            "Ask the provider for usage counts.",
            tone="refused",
        )
        return
    off = counted[counted["length_tokens"] != counted["prompt_tokens"]]
    if off.empty:
        finding(
            f"In all {len(counted):,} observations with a stated length, the server counted exactly the "
            "intended number of prompt tokens: nothing was cut, nothing was added."
        )
        return
    worst = (off["prompt_tokens"] - off["length_tokens"]).abs().max()
    finding(
        f"In {len(off):,} of {len(counted):,} observations the server counted another number of prompt tokens "
        f"than intended (by up to {worst:,}).",
        "Fewer than intended means silent truncation; more usually means another tokenizer or chat template.",
        tone="bad",
    )


def answers(study: Study, count: int = 12) -> None:
    """What the model really said, the worst first: no number replaces reading it."""
    frame = study.frame[study.frame["score"].notna()]
    if frame.empty:
        finding("There is no scored answer to read.", tone="refused")
        return
    picked = (
        frame.sort_values(["score", "length_tokens"], kind="stable")
        .groupby(["family", "task"], observed=True, sort=False)
        .head(max(1, count // max(frame.groupby(["family", "task"], observed=True).ngroups, 1)))
        .head(count)
    )
    shown = picked[["task", "variant", "length_tokens", "depth", "label", "reason", "text"]].copy()
    shown["text"] = shown["text"].map(lambda text: clip(text, 140))
    shown["reason"] = shown["reason"].map(lambda text: clip(text, 120))
    table(
        shown,
        "Answers with the lowest scores, a few of each task",
        text_columns=["task", "variant", "label", "reason", "text"],
    )
