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
_FEWEST = 10  # rows that a band of lengths must hold; a thinner one joins its neighbour


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
        lengths = [s.length for s in wrong if math.isfinite(s.length)]
        at = f" at about {min(lengths):,.0f} to {max(lengths):,.0f} prompt tokens" if lengths else ""
        rest = f", {self.left_out} rows without a usable time" if self.left_out else ""
        return f"{self.endpoint}: {told}{at}; {times} latencies{rest}."

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

    Kinds: the labels of wrong answers, `wrong` for any of them, `no_answer` for any failure; each over all
    probes, and as `family:kind` over one family's. A failure is no wrong answer: shares of the labels count
    scored answers, `no_answer` counts all rows. Lengths are the server's own counts where it gives them, in
    bands of an octave.
    Raises WorksheetError when the frame holds no row of the endpoint, or several endpoints and none is named.
    """
    names = sorted(str(name) for name in frame["endpoint"].dropna().unique())
    if not endpoint and len(names) == 1:
        endpoint = names[0]
    if endpoint not in names:
        raise WorksheetError(unknown_choice("endpoint in the run", endpoint, names))
    rows = frame[frame["endpoint"] == endpoint]
    counted, intended = _floats(rows, "prompt_tokens"), _floats(rows, "length_tokens")
    length = np.where(np.isfinite(counted) & (counted > 0), counted, intended)
    cluster = rows["cluster"].fillna(rows["probe_id"]).to_numpy(dtype=object)
    scored = rows["score"].notna().to_numpy(dtype=bool)
    label = rows["label"].fillna("").to_numpy(dtype=object)
    family = rows["family"].fillna("").to_numpy(dtype=object)
    answered = rows["answered"].fillna(False).to_numpy(dtype=bool)
    valid = rows["timing_valid"].fillna(True).to_numpy(dtype=bool) & answered

    shares: dict[str, tuple[Share, ...]] = {}
    everything = np.ones(len(rows), dtype=bool)
    for name in ("", *sorted(set(family.tolist()) - {""})):
        within, front = (family == name, f"{name}:") if name else (everything, "")
        for kind in (*_WRONG, "wrong"):
            hits = np.isin(label, _WRONG) if kind == "wrong" else label == kind
            if kind == "wrong" or hits[scored & within].any():
                shares[f"{front}{kind}"] = _shares(hits, scored & within, length, cluster)
        shares[f"{front}no_answer"] = _shares(~answered, within, length, cluster)
    times = {}
    for name in ("latency_s", "ttft_s"):
        seconds = _floats(rows, name)
        usable = valid & np.isfinite(seconds) & (seconds >= 0)
        times[name] = (_strata(seconds, usable, length, cluster), int((~usable).sum()))
    latency, left_out = times["latency_s"]
    return Measured(endpoint, len(rows), int(scored.sum()), latency, times["ttft_s"][0], shares, left_out)


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
            reach = _reach(sheet, [stratum.length for stratum in strata])
            source = f"measured: {n} latencies of {found.endpoint}{'; ' * bool(reach)}{reach}"
            loss = LatencyLoss(loss.shape, strata, weights, source)
    fed = replace(option, terms=terms, loss=loss)
    return replace(sheet, options=tuple(fed if item.key == option_key else item for item in sheet.options))


def _fed(sheet: Worksheet, option: Option, item: Input, found: Measured) -> Input:
    if not item.measured:
        return item
    shares = tuple(share for share in found.shares.get(item.measured, ()) if share.trials)
    if not shares:
        # a label that never came up was seen 0 times among all scored answers
        front, colon, kind = item.measured.rpartition(":")
        among = tuple(share for share in found.shares.get(f"{front}{colon}wrong", ()) if share.trials)
        if kind in _WRONG and among:
            shares = tuple(replace(share, hits=0) for share in among)
        elif math.isnan(item.central):
            told = unknown_choice("measure", item.measured, {*_WRONG, *found.shares})
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
        note=_reach(sheet, [share.length for share in shares]),
        strata=by_length,
    )


def _floats(rows: pd.DataFrame, column: str) -> Floats:
    return np.asarray(rows[column].astype("Float64").to_numpy(dtype=float, na_value=np.nan), dtype=np.float64)


def _reach(sheet: Worksheet, lengths: list[float]) -> str:
    """What a reader must know about the lengths behind a measured number."""
    if len(lengths) < 2 and not sheet.length_mix:
        return ""
    if not sheet.length_mix or not all(math.isfinite(length) for length in lengths):
        return "weighted as probed"
    low, high = min(lengths), max(lengths)
    beyond = sum(part for length, part in sheet.length_mix.items() if not low / 1.5 <= length <= high * 1.5)
    if beyond == 0:
        return ""
    measured = f"{low:,.0f} to {high:,.0f}" if low < high else f"{low:,.0f}"
    return (
        f"{beyond:.0%} of the traffic lies beyond the measured {measured} tokens, "
        "where the nearest measured length stands in"
    )


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
    """(length, row numbers) by octave of the length; one group of NaN where no row has a length.

    A band of fewer than _FEWEST rows joins the nearer of its neighbours. A band's length is the geometric mean
    of its rows': exactly the probed length where all have the same.
    """
    rows = np.flatnonzero(counted)
    if rows.size == 0:
        return []
    logs = np.log2(length[rows])
    if not np.isfinite(logs).all():
        return [(math.nan, rows)]
    bands = [rows[np.round(logs) == octave] for octave in np.unique(np.round(logs))]

    def centre(band: np.ndarray[Any, Any]) -> float:
        return float(np.log2(length[band]).mean())

    while len(bands) > 1 and min(band.size for band in bands) < _FEWEST:
        thin = min(range(len(bands)), key=lambda i: bands[i].size)
        beside = [i for i in (thin - 1, thin + 1) if 0 <= i < len(bands)]
        into = min(beside, key=lambda i: abs(centre(bands[i]) - centre(bands[thin])))
        first = min(thin, into)
        bands[first : first + 2] = [np.concatenate(bands[first : first + 2])]
    return [(round(2.0 ** centre(band), 6), band) for band in bands]


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
