"""The sections of the fingerprint: how steady a model is under repetition, heat, penalty, length and "
"place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bunny_probe import fits, plots
from bunny_probe.reports.beside import beside
from bunny_probe.reports.common import answers, outcomes
from bunny_probe.reports.display import finding, markdown, plot, table, tiles
from bunny_probe.reports.wording import estimate_tile, opening, still_missing, tone_of

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.reports.study import Study

__all__ = [
    "Characters",
    "agreement",
    "answers",
    "compare",
    "consistency",
    "determinism",
    "entropy",
    "headline",
    "heat",
    "method",
    "outcomes",
    "penalty",
    "portrait",
]


_FEW = 3  # questions a length needs before it is drawn: below it, it is an anecdote


@dataclass(frozen=True, slots=True)
class Characters:
    """The study and every model beside it, each with its agreement."""

    study: Study
    frames: dict[str, pd.DataFrame]  # the study's own model first
    agreement: dict[str, fits.AgreementFit]

    @property
    def own(self) -> str:
        return next(iter(self.frames), self.study.endpoint)


def compare(study: Study, others: str = "") -> Characters:
    """The study's model and those beside it (see `beside`). Raises RunError for a file that is not a run."""
    frames = beside(study, others) or {study.endpoint: study.frame}
    return Characters(study, frames, {name: agreement(part) for name, part in frames.items()})


def headline(models: Characters) -> None:
    """Title, where the data come from, and the numbers to remember."""
    study, own = models.study, models.agreement[models.own]
    opening(study, f"The fingerprint of {study.endpoint}")
    tiles(
        [
            estimate_tile(
                "Samples of a question agree", own.consistency, why=own.reason or "nothing asked twice"
            ),
            estimate_tile(
                "Score kept at the highest temperature", own.resilience, form=".0%",
                why=own.reason or "fewer than five questions were asked at two temperatures",
            ),
            estimate_tile(
                "Score lost per unit of repetition penalty", own.sensitivity,
                why=own.reason or "fewer than five questions were asked at two penalties",
            ),
            estimate_tile(
                "Greedy answers are the same to the letter", _repeats(models.frames[models.own], "greedy"),
                why="nothing was asked again at temperature 0",
            ),
        ]
    )  # fmt: skip
    if len(models.frames) == 1:
        finding(
            "One model is shown. Others that answered the same suite, in this run file or in others, are "
            "drawn beside it.",
            "Ask a second model with the same run_path, or name further run files in `others`.",
        )
    still_missing(study)


def consistency(models: Characters) -> None:
    """Do samples of one question agree, and does length change that?"""
    if any(fit.by_length for fit in models.agreement.values()):
        plot(lambda width: plots.consistency_by_length(models.agreement, width=width))
    for name, fit in models.agreement.items():
        c = fit.consistency
        if c is None or c.value is None:
            finding(f"{name}: no question was asked twice, so agreement is unknown.", tone="refused")
            continue
        ends = [p for p in fit.by_length if p.consistency.value is not None]
        course = ""
        falls = False
        if len(ends) > 1:
            first, last = ends[0], ends[-1]
            falls = (last.consistency.high or 1) < (first.consistency.low or 0)
            course = (
                f"; from {first.consistency.text()} at {first.length:,.0f} tokens to "
                f"{last.consistency.text()} at {last.length:,.0f}"
            )
        finding(
            f"{name}: samples of one question agree in {c.text()} of pairs (n = {c.n:,} questions from "
            f"{c.clusters:,} documents){course}.",
            "Draw several samples and take what most of them say, above all for long prompts."
            if falls or c.value < 0.7
            else "",
            tone="bad" if falls else "plain",
        )


def heat(models: Characters) -> None:
    """What temperature does to the score."""
    _setting(
        models, "temperature", "temperature", "Keep the temperature below the first value that costs score."
    )


def penalty(models: Characters) -> None:
    """What a repetition penalty does to the score."""
    _setting(
        models, "penalty", "repetition penalty", "Leave the penalty at 1 where answers must quote the prompt."
    )


def _setting(models: Characters, field: str, words: str, advice: str) -> None:
    effects = {name: getattr(fit, field) for name, fit in models.agreement.items()}
    if not any(effects.values()):
        finding(f"Fewer than five questions were answered at two values of the {words}.", tone="refused")
        return
    plot(lambda width: plots.setting_curve(models.agreement, setting=field, width=width))
    for name, rows in effects.items():
        if not rows:
            finding(f"{name}: not asked at two values of the {words}.", tone="refused")
            continue
        said = "; ".join(
            f"at {e.value:g}: {e.difference:+.2f} [{e.low:+.2f}, {e.high:+.2f}], n = {e.pairs} pairs"
            for e in rows
        )
        loses = any(e.high < 0 for e in rows)
        finding(
            f"{name}: against {rows[0].against:g} the score moves {said} (95% intervals).",
            advice if loses else "No loss is shown within these intervals.",
            tone="bad" if loses else "plain",
        )


def portrait(models: Characters) -> None:
    """The two-axis portrait of every model that was asked."""
    plot(lambda width: plots.portrait(models.agreement, width=width))
    points = fits.fingerprint(models.agreement)
    if points.empty:
        finding("No model has a point on either pair of axes.", tone="refused")
        return
    shown = points.rename(columns={"name": "model"})
    shown["x"] = [
        f"{x:,.0f} tokens"
        if axes.startswith("length")
        else f"{round(x, 2) + 0.0:.2f}\u00a0[{low:.2f},\u00a0{high:.2f}]"
        for axes, x, low, high in zip(
            points["axes"], points["x"], points["x_low"], points["x_high"], strict=True
        )
    ]
    shown["y"] = [
        f"{y:.2f}\u00a0[{low:.2f},\u00a0{high:.2f}]"
        for y, low, high in zip(points["y"], points["y_low"], points["y_high"], strict=True)
    ]
    table(
        shown[["model", "axes", "x", "y", "n"]],
        "Every point: x is prompt tokens or score lost per unit of penalty, y is agreement or score kept",
        text_columns=["model", "axes"],
    )
    finding(
        "A model far to the right breaks under a repetition penalty; one far down breaks when heated. Two "
        "models whose crosses overlap on both axes are not told apart here.",
        "Choose decoding settings for each model by itself.",
    )


def determinism(models: Characters) -> None:
    """Temperature 0 and a fixed seed: is the answer the same to the letter?"""
    for name, part in models.frames.items():
        said = []
        broken = False
        for task, words in (("greedy", "at temperature 0"), ("seeded", "with one seed at temperature 1")):
            found = _repeats(part, task)
            if found is None or found.value is None:
                continue
            said.append(f"{words} repeats agree in {found.text()} of pairs (n = {found.n} questions)")
            broken = broken or found.value < 1
        if not said:
            finding(f"{name}: nothing was asked again unchanged.", tone="refused")
            continue
        finding(
            f"{name}: {'; '.join(said)}.",
            "Do not count on exact repeats: store answers that must be shown again." if broken else "",
            tone="unsure" if broken else "plain",
        )


def entropy(models: Characters) -> None:
    """Where in the context it is sure of its first word: entropy by depth and length."""
    own = models.frames[models.own]
    frame = own[own["depth"].notna() & (own["family"] == "position")]
    lengths = sorted(float(v) for v in frame["length_tokens"].dropna().unique())
    maps = {
        length: fits.Entropy(by="depth", token="first")(frame[frame["length_tokens"] == length])
        for length in lengths[:8]
    }
    by_length = fits.Entropy(token="first")(own[own["length_tokens"].isin(lengths)] if lengths else own)
    if by_length.status == "refused":
        finding(by_length.sentence(), "Ask an endpoint that returns log-probabilities.", tone="refused")
        return
    if maps:
        plot(lambda width: plots.entropy_map(maps, width=width))
    rows = [
        (f"depth {v.at:g} at {length:,.0f} tokens", v)
        for length, fit in maps.items()
        for v in fit.levels
        if isinstance(v.at, float)
    ]
    lows = [v.low for _, v in rows]
    if rows and max(lows) - min(lows) < 0.01:
        finding(f"It is as sure of its first word at every place, within 0.01 nats ({len(rows)} places).")
    elif rows:
        where, worst = max(rows, key=lambda row: row[1].low)
        up = None if worst.low_to is None else worst.low_to
        finding(
            f"It is least sure of its first word at {where}: between {worst.low:.2f} and {worst.high:.2f} "
            f"nats (interval of the lower bound {_span(worst.low_from, up)}, n = {worst.n} from "
            f"{worst.clusters} documents).",
        )
    finding(by_length.sentence(), tone=tone_of(by_length.status))


def method(models: Characters) -> None:
    """How the numbers were made."""
    study = models.study
    markdown(
        "Agreement is the share of pairs of samples of one question that are the same after folding case and "
        "spacing; samples differ only in their seed. Temperature and penalty are compared on the same "
        "questions with the mildest value, so that differences are paired; documents are the unit "
        "throughout. Entropy is told as two bounds: what the endpoint does not return of its distribution "
        "is unknown, and the truth lies between them.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned."
    )


# ── parts of the frame ──────────────────────────────────────────────────────────────────────────────


def agreement(frame: pd.DataFrame) -> fits.AgreementFit:
    """Steadiness from the samples of one temperature, heat and penalty each from the task that varies it."""
    decoding = frame[frame["family"] == "decoding"]
    sampled = fits.Agreement()(_alike(decoding[decoding["task"] == "self_consistency"]))
    heat = fits.Agreement()(decoding[decoding["task"] == "temperature"])
    penalty = fits.Agreement()(decoding[decoding["task"] == "repetition_penalty"])
    whole = next((fit for fit in (sampled, heat, penalty) if fit.status == "ok"), sampled)
    return replace(
        whole,
        consistency=sampled.consistency,
        by_length=tuple(p for p in sampled.by_length if p.consistency.n >= _FEW),
        temperature=heat.temperature,
        resilience=heat.resilience,
        penalty=penalty.penalty,
        sensitivity=penalty.sensitivity,
    )


def _alike(frame: pd.DataFrame) -> pd.DataFrame:
    """Samples that differ in their seed alone count as repeats of one decoding."""
    return frame.assign(decoding_id=frame["temperature"].astype(str))


def _repeats(frame: pd.DataFrame, task: str) -> fits.Estimate | None:
    part = frame[(frame["family"] == "decoding") & (frame["task"] == task)]
    return fits.Agreement()(part).consistency if len(part) else None


def _span(low: float | None, high: float | None) -> str:
    return "unknown" if low is None or high is None else f"{low:.2f} to {high:.2f}"
