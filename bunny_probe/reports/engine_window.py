"""The engine's window policy: what is really seen, what the instrument finds of it, and how the two agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bunny_probe import fits, plots
from bunny_probe.reports.display import finding, plot
from bunny_probe.reports.engine_policies import Bench
from bunny_probe.reports.position_recall import from_end
from bunny_probe.reports.wording import tone_of

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.fits.window import WindowFit

__all__ = ["WINDOW", "seen", "window", "window_fit"]

WINDOW = "window"


def window(bench: Bench) -> None:
    """The instrument against a window that is known: the estimate beside the truth."""
    if bench.why_not:
        found = fits.Window(axis="from_end")(from_end(bench.whole))
        finding(f"{found.sentence()} Nothing is known here to hold it against.", tone="unsure")
        return
    if bench.truth is None or WINDOW not in bench.studies:
        finding("No window policy was asked, or the suite has no facts at stated distances.", tone="refused")
        return
    truth, frame = bench.truth, _inside(bench)
    decay, found = fits.Decay(axis="from_end")(frame), window_fit(bench)
    if decay.status != "refused":
        plot(lambda width: plots.decay_curve(decay, window=found, width=width))
    said = (
        f"The truth: of a prompt of {truth.length} tokens the last token sees the newest {truth.visible}, in "
        f"blocks of {truth.block}. A fact with up to {truth.whole_to} tokens of text behind it is seen whole, "
        f"one with more than {truth.gone_from} not at all"
    )
    crossing = found.window
    if found.status == "refused" or crossing is None:
        finding(f"{said}. {found.sentence()}", "Ask more documents.", tone="refused")
        return
    low = crossing.low if crossing.low is not None else 0.0
    high = crossing.high if crossing.high is not None else float("inf")
    meets = low <= truth.gone_from and high >= truth.whole_to
    finding(
        f"{said}. The estimate: {crossing.text()}, from {found.counts.used} answers; its interval "
        f"{'meets' if meets else 'misses'} the truth.",
        ""
        if meets
        else "What lies behind the window can still reach the answer through tokens that saw it; and a model "
        "that finds little at any distance shows no edge.",
        tone="plain" if meets and tone_of(found.status) == "plain" else "unsure",
    )


def seen(bench: Bench, distance: int) -> str:
    """Whether the window policy sees a fact with so much text behind it, in words."""
    truth = bench.truth
    assert truth is not None
    if distance <= truth.whole_to:
        return "seen"
    if distance >= truth.first_block:
        return "seen, first block"
    return "forgotten" if distance > truth.gone_from else "at the edge"


def window_fit(bench: Bench) -> WindowFit:
    """The window as it is estimated from answers alone."""
    return fits.Window(axis="from_end", fraction=0.5)(_inside(bench))


def _inside(bench: Bench) -> pd.DataFrame:
    """The window policy's answers, without facts in the first block, which it never forgets."""
    frame = from_end(bench.studies[WINDOW])
    assert bench.truth is not None
    behind = (1 - frame["depth"].astype("float64")) * bench.truth.length
    return frame[behind < bench.truth.first_block]
