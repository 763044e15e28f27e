"""How reports say numbers: an estimate with its interval and n, a status as a tone, the opening of a page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from bunny_probe.reports.display import Tile, finding, markdown

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.fits import Crossing, DecayFit, Estimate, WindowFit
    from bunny_probe.reports.study import Study

__all__ = [
    "Tone",
    "clip",
    "crossing_tile",
    "curves_table",
    "estimate_tile",
    "listed",
    "opening",
    "provenance",
    "span",
    "still_missing",
    "tone_of",
    "window_advice",
]

Tone = Literal["plain", "unsure", "refused", "bad"]


def opening(study: Study, heading: str) -> None:
    """The title, the suite, and where the numbers come from."""
    release = f", release {study.release}" if study.release else ""
    about = study.description.rstrip(".")
    markdown(f"# {heading}{release}")
    markdown(f"Suite **{study.suite}**: {about}. {provenance(study.frame)}")


def provenance(frame: pd.DataFrame) -> str:
    """How many observations, asked when; and whether a model was asked at all."""
    tokens, moments = frame["prompt_tokens"].sum(), frame["started_at"].dropna()
    when = ""
    if len(moments):
        import pandas as pd

        first, last = (pd.Timestamp(float(t), unit="s", tz="UTC") for t in (moments.min(), moments.max()))
        until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
        when = f", asked {first:%Y-%m-%d %H:%M} to {until} UTC"
    phantom = len(frame) and frame["model"].str.startswith("phantom").any()
    simulated = " **This is the phantom, a simulated endpoint: no model was asked.**" if phantom else ""
    return f"{len(frame):,} observations, {int(tokens):,} prompt tokens{when}.{simulated}"


def still_missing(study: Study) -> None:
    """A finding when trials of the plan have no observation; nothing otherwise."""
    if study.missing > 0:
        finding(
            f"{study.missing:,} of {study.planned:,} planned trials have no observation yet.",
            "Run the notebook again: it goes on where it stopped.",
            tone="unsure",
        )


def tone_of(status: str) -> Tone:
    """The tone of a fit's status."""
    tones: dict[str, Tone] = {"ok": "plain", "censored": "unsure", "refused": "refused"}
    return tones[status]


def span(low: float | None, high: float | None, form: str = ".2f") -> str:
    """`0.60 to 0.95`, with words for a side that the data do not bound."""
    left = "unbounded" if low is None else f"{low:{form}}"
    right = "unbounded" if high is None else f"{high:{form}}"
    return f"{left} to {right}"


def estimate_tile(name: str, estimate: Estimate | None, *, form: str = ".2f", why: str = "") -> Tile:
    """A headline number. `form`: how its value is written, as in a format string; `why`: why there is none."""
    if estimate is None or estimate.value is None:
        return Tile(name, "not estimable", why or "the data do not carry it")
    documents = f" from {estimate.clusters:,} documents" if estimate.clusters else ""
    between = span(estimate.low, estimate.high, form)
    return Tile(
        name,
        f"{estimate.value:{form}}",
        f"{estimate.level:.0%} interval {between}, n = {estimate.n:,}{documents}",
    )


def crossing_tile(name: str, crossing: Crossing | None, n: int, *, unit: str, why: str = "") -> Tile:
    """A place in tokens as a headline number; censored ones say up to where was looked."""
    if crossing is None:
        return Tile(name, "not estimable", why or "the data do not carry it")
    beyond = f"beyond {crossing.probed_to:,.0f}"
    low = "none" if crossing.low is None else f"{crossing.low:,.0f}"
    high = beyond if crossing.high is None else f"{crossing.high:,.0f}"
    value = beyond if crossing.value is None else f"{crossing.value:,.0f}"
    return Tile(name, value, f"{unit}; {crossing.level:.0%} interval {low} to {high}, n = {n:,}")


def listed(names: Iterable[str], most: int = 6) -> str:
    """`a, b and c`; of more than `most`, the first and how many others."""
    items = list(names)
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most} others"
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def clip(text: object, limit: int = 110) -> str:
    """An answer on one line, cut at `limit` characters; nothing where there is no text."""
    flat = " ".join(text.split()) if isinstance(text, str) else ""
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def curves_table(decay: DecayFit) -> pd.DataFrame:
    """The curves that were tried, best first: parameters in words, AICc, distance from the best, weight."""
    shown = decay.table()[["model", "parameters", "aicc", "delta", "weight"]].copy()
    shown["parameters"] = shown["parameters"].map(
        lambda values: ", ".join(
            f"{name.replace('_', ' ')} " + (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}")
            for name, value in values.items()
        )
    )
    shown["weight"] = shown["weight"].map(lambda weight: "below 0.001" if weight < 0.001 else f"{weight:.3f}")
    return shown.rename(columns={"model": "curve", "aicc": "AICc", "delta": "above best"})


def window_advice(fit: WindowFit) -> str:
    """What to do with an effective window, as far as it is known."""
    window = fit.window
    if window is None:
        return "Ask more probes at the shortest lengths: without a base there is nothing to fall from."
    if window.low is not None and window.low <= 1.01 * window.probed_from:
        return "So few answers bound it on neither side: ask more documents at each length."
    if window.censored:
        return f"Probe beyond {window.probed_to:,.0f} tokens to find where it ends."
    return (
        ""
        if window.low is None
        else f"Keep what matters within {window.low:,.0f} tokens, the interval's lower end."
    )
