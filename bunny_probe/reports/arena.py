"""The sections of the arena: several models on the same probes, ranked, and how far the weights decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bunny_probe import fits, plots
from bunny_probe.errors import UsageError
from bunny_probe.fits.bradley_terry import BradleyTerry, BradleyTerryFit
from bunny_probe.fits.groups import Groups
from bunny_probe.fits.ranking import Ranking, RankingFit
from bunny_probe.reports.ballot import ballot_of, read_votes, show_ballot
from bunny_probe.reports.beside import beside
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.study import open_study
from bunny_probe.reports.wording import opening, span, still_missing, tone_of

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.reports.study import Study

__all__ = [
    "Arena",
    "headline",
    "method",
    "open_arena",
    "pareto",
    "preference",
    "quality",
    "ranking",
    "rivals_of",
    "sensitivity",
    "speed",
    "vote",
]


@dataclass(frozen=True, slots=True)
class Arena:
    """Every model that answered the suite in the run, the votes, and the ranking under the weights."""

    study: Study
    frames: dict[str, pd.DataFrame]
    votes: BradleyTerryFit
    ranking: RankingFit


def rivals_of(rivals: Sequence[str], endpoint: str) -> list[tuple[str, str]]:
    """(endpoint, model) of each `model` or `model @ url`. Raises UsageError for an empty one."""
    found = []
    for item in rivals:
        before, mark, after = item.rpartition("@")
        model, url = (before.strip(), after.strip()) if mark else (item.strip(), endpoint)
        if not model or not url:
            raise UsageError(f"a rival is 'model' or 'model @ url', not {item!r}")
        found.append((url, model))
    return found


def open_arena(
    *,
    endpoint: str = "engine",
    rivals: Sequence[str] = (),
    others: str = "",
    weights: Sequence[float] = (0.4, 0.4, 0.2),
    human_part: float = 0.3,
    **study: Any,
) -> Arena:
    """Ask every rival what is missing, read the run, and rank. `study`: the parameters of `open_study`.

    Raises UsageError for weights that are not three numbers of 0 or more, and what `open_study` raises.
    """
    if len(weights) != 3 or min(weights) < 0 or sum(weights) <= 0:
        raise UsageError("weights are three numbers of 0 or more: speed, quality, stability")
    for url, model in rivals_of(rivals, endpoint):
        open_study(**{**study, "endpoint": url, "model": model})
    own = open_study(endpoint=endpoint, **study)
    frames = beside(own, others) or {own.endpoint: own.frame}
    votes = BradleyTerry()(vote for vote in read_votes(own.run_path) if {vote[0], vote[1]} <= set(frames))
    human = {s.name: s.share for s in votes.standings}
    speed, quality, stability = (float(w) for w in weights)
    ranked = Ranking(weights=(speed, quality, stability), human=human, human_part=human_part)(frames)
    return Arena(own, frames, votes, ranked)


def headline(arena: Arena) -> None:
    """Who was compared, and the numbers to remember."""
    opening(arena.study, f"The arena: {len(arena.frames)} models on the same probes")
    rows = arena.ranking.rows
    tiles(
        [
            Tile(
                f"{i + 1}. {r.name}",
                f"{r.total.value:.2f}",
                f"95% interval {span(r.total.low, r.total.high)}, n = {r.quality.n} scored answers from "
                f"{r.total.clusters} documents",
            )
            for i, r in enumerate(rows[:6])
        ]
        or [Tile("Ranking", "not estimable", arena.ranking.reason)]
    )
    if len(arena.frames) < 2:
        finding(
            "One model has answered: there is nobody to compare it with.",
            "Name others in `rivals`, as 'model' or 'model @ url', or run files in `others`.",
            tone="refused",
        )
    still_missing(arena.study)


def ranking(arena: Arena, *, radar: bool = False) -> None:
    """Speed, quality, stability and the total; as a radar chart besides, where that is wanted."""
    fit = arena.ranking
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    plot(lambda width: plots.ranking_dots(fit, width=width))
    if radar:
        plot(lambda width: plots.ranking_radar(fit, width=width))
    best, *rest = fit.rows
    sure = best.first >= 0.95
    finding(
        fit.sentence(),
        "The lead does not hang on which documents were drawn."
        if sure
        else f"{best.name} and {rest[0].name} are not told apart: ask more probes before you choose.",
        tone="plain" if sure else "unsure",
    )


def sensitivity(arena: Arena) -> None:
    """Who would come first under other weights."""
    import pandas as pd

    fit = arena.ranking
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    rows = [
        {
            "model": r.name,
            "first under these weights, of resampled campaigns": f"{r.first:.0%}",
            "first, of all 66 weightings in tenths": f"{r.first_by_weights:.0%}",
            "documents": r.total.clusters,
        }
        for r in fit.rows
    ]
    table(pd.DataFrame(rows), "Who comes first when the weights change", text_columns=["model"])
    held = max(r.first_by_weights for r in fit.rows)
    finding(
        f"{fit.rows[0].name} leads under {fit.rows[0].first_by_weights:.0%} of all weightings of speed, "
        "quality and stability.",
        "The ranking is made by the weights: agree on them before anybody sees the names."
        if held < 0.8
        else "The weights hardly matter here.",
        tone="unsure" if held < 0.8 else "plain",
    )


def pareto(arena: Arena) -> None:
    """Quality against time: whom nobody beats on both."""
    fit = arena.ranking
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    plot(lambda width: plots.pareto_front(fit, width=width))
    finding(
        "No weights are needed here: what lies below and to the right of another is never the better choice."
    )


def quality(arena: Arena) -> None:
    """Each task apart, a column a model."""
    import pandas as pd

    rows: dict[str, dict[str, object]] = {}
    for name, frame in arena.frames.items():
        for r in Groups(by=("family", "task"))(frame).rows:
            label = " / ".join(part.replace("_", " ") for part in r.names)
            row = rows.setdefault(label, {"task": label})
            row[name] = (
                f"none scored of {r.asked}"
                if r.score is None
                else f"{r.score:.2f}\u00a0[{r.low:.2f},\u00a0{r.high:.2f}], n\u00a0=\u00a0{r.n} of {r.asked}"
            )
    if not rows:
        finding("Nothing was scored.", tone="refused")
        return
    table(pd.DataFrame(list(rows.values())), "Mean score by task with its 95 % interval", text_columns=["task"])


def speed(arena: Arena) -> None:
    """Latency as a distribution, a row a model."""
    import pandas as pd

    rows = []
    for name, frame in arena.frames.items():
        fit = fits.Distribution(quantities=("latency_s", "ttft_s"), q=(0.5, 0.95))(frame)
        row: dict[str, object] = {"model": name}
        for p in fit.percentiles:
            what = "latency" if p.quantity == "latency_s" else "first token"
            low, high = ("…" if v is None else f"{v * 1000:,.0f}" for v in (p.low, p.high))
            row[f"{what} P{p.q * 100:.0f}, ms"] = f"{p.value * 1000:,.0f}\u00a0[{low},\u00a0{high}]"
        row["n"] = fit.percentiles[0].n if fit.percentiles else 0
        rows.append(row)
    table(pd.DataFrame(rows), "Times with 95 % intervals from order statistics", text_columns=["model"])


def preference(arena: Arena) -> None:
    """What people preferred, blind."""
    fit = arena.votes
    if fit.status == "refused":
        finding(
            f"{fit.sentence()} Quality rests on the scorers alone.",
            "Set voting = True in the first cell and run the notebook live: pairs are shown without names.",
            tone="refused",
        )
        return
    plot(lambda width: plots.preference_dots(fit, width=width))
    finding(fit.sentence(), tone=tone_of(fit.status))


def vote(arena: Arena, *, voting: bool = False, count: int = 20, seed: int = 0) -> None:
    """Show the ballot in a live notebook; in a report, say how many pairs wait."""
    ballot = ballot_of(arena.frames, arena.study.run_path, count=count, seed=seed)
    if not voting or not ballot.pairs:
        finding(
            f"{arena.votes.votes:,} votes are in the run; {len(ballot.pairs):,} pairs of different answers "
            f"wait for one (at most {count} are shown at a time)."
        )
        return
    from IPython.display import display

    display(show_ballot(ballot))  # type: ignore[no-untyped-call]


def method(arena: Arena) -> None:
    """How the numbers were made."""
    study = arena.study
    markdown(
        "Only probes that every model was asked count. Speed is the fastest model's median latency over a "
        "model's own; quality the mean score, mixed with the share of blind votes where every model has one; "
        "stability the share of requests that were answered within twice the model's own median time for "
        "prompts of about that length (the nearest power of two). "
        "Intervals of the total resample documents, the same for every model; the votes' own uncertainty "
        "is in the Bradley-Terry intervals and not in the total's. Failures are no answers: they lower "
        "stability and never the score.\n\n"
        f"Run file: `{study.run_path.name}`, {len(study.frame):,} observations of {study.planned:,} planned."
    )
