"""Measured inputs: a run's frame → latencies and error shares, with what their number of trials can carry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.inputs import Input
from bunny_probe.cost.latency import LatencyLoss, Stratum, beta_of, mix_weights
from bunny_probe.cost.money import plain
from bunny_probe.cost.units import Unit
from bunny_probe.cost.worksheet import Option, Worksheet
from bunny_probe.errors import WorksheetError, unknown_choice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Measured", "Share", "effective_trials", "feed", "measure"]

_WRONG = ("miss", "wrong_anchor", "abstain", "partial", "fail")


@dataclass(frozen=True, slots=True)
class Share:
    """Hits among trials at one length."""

    length: float  # NaN: natural lengths, not told apart
    hits: int
    trials: int
    effective: (
        float  # independent trials that are worth as much: trials over the design effect of shared documents
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run says of one endpoint."""

    endpoint: str
    rows: int
    scored: int
    latency: tuple[Stratum, ...]
    ttft: tuple[Stratum, ...]
    shares: Mapping[
        str, tuple[Share, ...]
    ]  # kind → by length; "wrong" is any of the labels, "no_answer" any failure
    left_out: int  # rows whose timing is not the server's (client saturated) or that have no time

    def sentence(self) -> str:
        wrong = self.shares.get("wrong", ())
        hits, trials = sum(s.hits for s in wrong), sum(s.trials for s in wrong)
        times = sum(stratum.seconds.size for stratum in self.latency)
        told = f"{hits} of {trials} scored answers wrong" if trials else "no answer was scored"
        lengths = [f"{s.length:,.0f}" for s in wrong if math.isfinite(s.length)]
        at = f" at {', '.join(lengths)} tokens" if lengths else ""
        return f"{self.endpoint}: {told}{at}; {times} latencies, {self.left_out} rows without a usable time."

    def table(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            [
                {"kind": kind, "length": share.length, "hits": share.hits, "trials": share.trials,
                 "effective trials": round(share.effective, 1)}
                for kind, shares in self.shares.items()
                for share in shares
            ]
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {"kind": "Measured", "sentence": self.sentence(), **plain(self)}


def measure(frame: pd.DataFrame, endpoint: str = "") -> Measured:
    """Latencies and error shares of `endpoint` in a run's frame (see bunny_probe.columns), by prompt length.

    A failure is no wrong answer: shares of the labels count scored answers only, `no_answer` counts all rows.
    Raises WorksheetError when the frame holds no row of the endpoint, or several endpoints and none is named.
    """
    names = sorted(str(name) for name in frame["endpoint"].dropna().unique())
    if not endpoint and len(names) == 1:
        endpoint = names[0]
    if endpoint not in names:
        raise WorksheetError(unknown_choice("endpoint in the run", endpoint, names))
    rows = frame[frame["endpoint"] == endpoint]
    length = _floats(rows, "length_tokens")
    cluster = rows["cluster"].fillna(rows["probe_id"]).to_numpy(dtype=object)
    scored = rows["score"].notna().to_numpy(dtype=bool)
    label = rows["label"].fillna("").to_numpy(dtype=object)
    answered = rows["answered"].fillna(False).to_numpy(dtype=bool)
    valid = rows["timing_valid"].fillna(True).to_numpy(dtype=bool) & answered

    shares: dict[str, tuple[Share, ...]] = {}
    for kind in (*_WRONG, "wrong"):
        hits = np.isin(label, _WRONG) if kind == "wrong" else label == kind
        if kind == "wrong" or hits[scored].any():
            shares[kind] = _shares(hits, scored, length, cluster)
    shares["no_answer"] = _shares(~answered, np.ones(len(rows), dtype=bool), length, cluster)
    times = {}
    for name in ("latency_s", "ttft_s"):
        seconds = _floats(rows, name)
        usable = valid & np.isfinite(seconds) & (seconds >= 0)
        times[name] = (_strata(seconds, usable, length, cluster), int((~usable).sum()))
    return Measured(
        endpoint,
        len(rows),
        int(scored.sum()),
        times["latency_s"][0],
        times["ttft_s"][0],
        shares,
        times["latency_s"][1],
    )


def feed(sheet: Worksheet, option_key: str, found: Measured) -> Worksheet:
    """The worksheet with every input of the option that asks for a measurement taken from `found`.

    Lengths are weighted by the worksheet's [length_mix], or as they were probed. Raises WorksheetError when an
    input asks for a kind that the run does not hold, without an `otherwise`.
    """
    option = sheet.option(option_key)
    terms = tuple(
        replace(term, inputs={s: _fed(sheet, option, item, found) for s, item in term.inputs.items()})
        for term in option.terms
    )
    loss = option.loss
    if loss is not None and option.awaits_latency:
        strata = found.ttft if option.awaits_latency == "ttft" else found.latency
        if strata:
            counts = [float(stratum.seconds.size) for stratum in strata]
            weights = _weights(sheet, [stratum.length for stratum in strata], counts)
            n = sum(stratum.seconds.size for stratum in strata)
            loss = LatencyLoss(loss.shape, strata, weights, f"measured: {n} latencies of {found.endpoint}")
    fed = replace(option, terms=terms, loss=loss)
    return replace(sheet, options=tuple(fed if item.key == option_key else item for item in sheet.options))


def _fed(sheet: Worksheet, option: Option, item: Input, found: Measured) -> Input:
    if not item.measured:
        return item
    shares = tuple(share for share in found.shares.get(item.measured, ()) if share.trials)
    if not shares:
        # a label that never came up was seen 0 times among all scored answers
        if item.measured in _WRONG and found.scored:
            shares = tuple(replace(share, hits=0) for share in found.shares["wrong"])
        elif math.isnan(item.central):
            told = unknown_choice("measure", item.measured, (*_WRONG, "wrong", "no_answer"))
            raise WorksheetError(told, file=sheet.file, key=item.name)
        else:
            return item
    strata = tuple((share.length, share.hits / share.trials, share.effective) for share in shares)
    weights = _weights(sheet, [s.length for s in shares], [float(s.trials) for s in shares])
    share = beta_of(strata, weights)
    hits, trials = sum(s.hits for s in shares), sum(s.trials for s in shares)
    by_length = strata if len(strata) > 1 and all(math.isfinite(s.length) for s in shares) else ()
    return replace(
        item,
        name=f"{option.key}.{item.name.split('.', 1)[1]}",
        label=item.label if item.label.startswith(option.key) else f"{option.key}: {item.label}",
        distribution=share,
        unit=Unit(1.0, item.unit.dims or {}, ""),
        text=f"{share.estimate:.2%}",
        source=f"measured: {hits} of {trials}, {found.endpoint}",
        note="" if len(shares) == 1 else f"weighted over {len(shares)} lengths",
        strata=by_length,
    )


def _floats(rows: pd.DataFrame, column: str) -> Floats:
    return np.asarray(rows[column].astype("Float64").to_numpy(dtype=float, na_value=np.nan), dtype=np.float64)


def _weights(sheet: Worksheet, lengths: list[float], counts: list[float]) -> tuple[float, ...]:
    if not sheet.length_mix or not all(math.isfinite(length) for length in lengths):
        return tuple(count / sum(counts) for count in counts)
    weights = np.zeros(len(lengths))
    for length, share in sheet.length_mix.items():
        weights += share * np.asarray(mix_weights(lengths, length))
    return tuple(float(weight) for weight in weights)


def _shares(
    hits: np.ndarray[Any, Any], counted: np.ndarray[Any, Any], length: Floats, cluster: np.ndarray[Any, Any]
) -> tuple[Share, ...]:
    found = []
    for value, rows in _groups(length, counted):
        x = hits[rows].astype(float)
        found.append(Share(value, int(x.sum()), x.size, effective_trials(x, cluster[rows])))
    return tuple(found)


def _strata(
    seconds: Floats, usable: np.ndarray[Any, Any], length: Floats, cluster: np.ndarray[Any, Any]
) -> tuple[Stratum, ...]:
    return tuple(
        Stratum(value, np.sort(seconds[rows]), effective_trials(seconds[rows], cluster[rows]))
        for value, rows in _groups(length, usable)
    )


def _groups(length: Floats, counted: np.ndarray[Any, Any]) -> list[tuple[float, np.ndarray[Any, Any]]]:
    """(length, row numbers) by distinct length; one group of NaN where any row has no length."""
    rows = np.flatnonzero(counted)
    if rows.size == 0:
        return []
    if np.isnan(length[rows]).any():
        return [(math.nan, rows)]
    return [(float(value), rows[length[rows] == value]) for value in np.unique(length[rows])]


def effective_trials(x: Floats, cluster: np.ndarray[Any, Any]) -> float:
    """Trials over the design effect (Kish 1965): how much rows that share a document repeat each other."""
    labels, which = np.unique(cluster.astype(str), return_inverse=True)
    clusters, n = labels.size, x.size
    spread = float(x.var())
    if clusters == n:
        return float(n)
    if clusters < 2 or spread == 0.0:
        return float(clusters)  # nothing tells the rows of a document apart: count documents
    sums = np.bincount(which, weights=x - x.mean(), minlength=clusters)
    effect = clusters / (clusters - 1) * float((sums**2).sum()) / (n * spread)
    return float(np.clip(n / max(effect, 1.0), 1.0, n))
