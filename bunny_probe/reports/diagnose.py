"""The sections of the diagnose report: each takes a study and shows question, picture, numbers, meaning.

A section shows what it can and says plainly what it cannot; none of them raises for thin or odd data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bunny_probe import fits, plots
from bunny_probe.fits.groups import Groups
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

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

Tone = Literal["plain", "unsure", "refused", "bad"]


def headline(study: Study) -> None:
    """Title, where the data come from, and the numbers to remember."""
    frame = study.frame
    release = f", release {study.release}" if study.release else ""
    markdown(f"# How {study.endpoint} behaves{release}")
    about = study.description.rstrip(".")
    markdown(f"Suite **{study.suite}**: {about}. {_provenance(study)}")
    answered = fits.Outcomes()(frame)
    decay, window = fits.Decay()(study.family("length")), fits.Window()(study.family("length"))
    recall = fits.Recall()(study.family("position"))
    stress_fit = Groups(by=("family",))(study.family("stress"))
    shown = [
        Tile("Requests answered", _percent(answered.answered.value), _qualifier(answered.answered)),
        Tile("Recall in the shortest context", _number(decay.base.value), _qualifier(decay.base)),
        Tile(
            "Effective window",
            window.window.text().split(" [")[0].replace(" tokens", "") if window.window else "not estimable",
            _window_qualifier(window),
        ),
        Tile(
            "End against middle of the context",
            _signed(recall.recency.value) if recall.recency else "not estimable",
            _qualifier(recall.recency) if recall.recency else recall.reason or "not enough depths",
        ),
        Tile(
            "Wrong anchor given",
            _percent(recall.wrong.value) if recall.wrong else "not estimable",
            _qualifier(recall.wrong) if recall.wrong else "no planted distractors",
        ),
    ]
    if stress_fit.rows and stress_fit.rows[0].score is not None:
        row = stress_fit.rows[0]
        shown.append(
            Tile(
                "Stress probes passed",
                f"{row.score:.0%}",
                f"95% interval {row.low:.0%} to {row.high:.0%}, n = {row.n} of {row.asked} asked",
            )
        )
    tiles(shown)
    if study.missing:
        finding(
            f"{study.missing:,} of {study.planned:,} planned trials have no observation yet.",
            "Run the same command again: it goes on where it stopped.",
            tone="unsure",
        )


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


def length_decay(study: Study) -> None:
    """How the score falls with length, and how far the context may be trusted."""
    frame = study.family("length")
    decay, window = fits.Decay()(frame), fits.Window()(frame)
    plot(lambda width: plots.decay_curve(decay, window=window, width=width))
    finding(decay.sentence(), tone=_tone(decay.status))
    finding(window.sentence(), _window_advice(window), tone=_tone(window.status))
    if decay.models:
        table(_curves(decay), "Curves tried, best first", text_columns=["curve", "parameters"])


def position_recall(study: Study) -> None:
    """Where in the context a fact is found."""
    fit = fits.Recall()(study.family("position"))
    plot(lambda width: plots.recall_heatmap(fit, width=width))
    finding(fit.sentence(), _recency_advice(fit), tone=_tone(fit.status))
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
    finding(fit.sentence(), tone=_tone(fit.status))
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
        tone=_tone(fit.status),
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
    shown["text"] = shown["text"].map(lambda text: _clip(str(text), 140))
    shown["reason"] = shown["reason"].map(lambda text: _clip(str(text), 120))
    table(
        shown,
        "Answers with the lowest scores, a few of each task",
        text_columns=["task", "variant", "label", "reason", "text"],
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


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def _provenance(study: Study) -> str:
    frame = study.frame
    tokens, seconds = frame["prompt_tokens"].sum(), frame["started_at"].dropna()
    when = ""
    if len(seconds):
        import pandas as pd

        first, last = (
            pd.Timestamp(float(moment), unit="s", tz="UTC") for moment in (seconds.min(), seconds.max())
        )
        when = f", asked {first:%Y-%m-%d %H:%M} to {last:%H:%M} UTC"
    simulated = " **This is the phantom, a simulated endpoint: no model was asked.**" if _phantom(frame) else ""
    return f"{len(frame):,} observations, {int(tokens):,} prompt tokens{when}.{simulated}"


def _phantom(frame: pd.DataFrame) -> bool:
    return bool(frame["model"].str.startswith("phantom").any()) if len(frame) else False


def _tone(status: str) -> Tone:
    tones: dict[str, Tone] = {"ok": "plain", "censored": "unsure", "refused": "refused"}
    return tones[status]


def _qualifier(estimate: fits.Estimate) -> str:
    if estimate.value is None:
        return "not estimable from these data"
    low = "unbounded" if estimate.low is None else f"{estimate.low:.2f}"
    high = "unbounded" if estimate.high is None else f"{estimate.high:.2f}"
    return f"{estimate.level:.0%} interval {low} to {high}, n = {estimate.n:,}"


def _window_qualifier(window: fits.WindowFit) -> str:
    if window.window is None:
        return window.reason
    crossing = window.window
    low = "none" if crossing.low is None else f"{crossing.low:,.0f}"
    high = f"beyond {crossing.probed_to:,.0f}" if crossing.high is None else f"{crossing.high:,.0f}"
    return (
        f"prompt tokens; {crossing.level:.0%} interval {low} to {high}, n = {window.counts.used:,}, "
        f"{window.fraction:.0%} of the short-context score"
    )


def _window_advice(window: fits.WindowFit) -> str:
    if window.window is None:
        return "Ask more probes at the shortest lengths: without a base there is nothing to fall from."
    if window.window.low is not None and window.window.low <= 1.01 * window.window.probed_from:
        return "So few answers bound it on neither side: ask more documents at each length."
    if window.window.censored:
        return f"Probe beyond {window.window.probed_to:,.0f} tokens to find where it ends."
    safe = window.window.low
    if safe is None:
        return ""
    return f"Keep what matters within {safe:,.0f} tokens, the lower end of the interval."


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


def _number(value: float | None) -> str:
    return "not estimable" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "not estimable" if value is None else f"{value:.0%}"


def _signed(value: float | None) -> str:
    return "not estimable" if value is None else f"{value:+.2f}"


def _curves(fit: fits.DecayFit) -> pd.DataFrame:
    """The curves as a person reads them: parameters in words, AICc's difference and weight."""
    shown = fit.table()[["model", "parameters", "aicc", "delta", "weight"]].copy()
    shown["parameters"] = shown["parameters"].map(
        lambda values: ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in values.items())
    )
    return shown.rename(columns={"model": "curve", "aicc": "AICc", "delta": "above best"})


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _clip(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
