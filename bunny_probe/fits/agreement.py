"""How steady the answers are: over repeats, over temperatures, under a repetition penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.paired import paired_difference, paired_ratio
from bunny_probe.fits.proportions import critical, wilson
from bunny_probe.fits.result import Counts, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import Sample, cells_of, refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Agreement", "AgreementFit", "LengthConsistency", "SettingEffect", "fingerprint"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """A decoding setting against the mildest one, on the same probes."""

    setting: str  # "temperature" or "repetition_penalty"
    value: float
    against: float
    score: float  # mean score at this value
    difference: float  # its score minus the score at `against`
    low: float
    high: float
    ratio: float | None  # score kept, in shares of the score at `against`; None: that is 0
    ratio_low: float | None
    ratio_high: float | None  # None: the score at `against` is not told from 0
    pairs: int
    clusters: int


@dataclass(frozen=True, slots=True)
class LengthConsistency:
    length: float  # prompt tokens
    consistency: Estimate


@dataclass(frozen=True, slots=True)
class AgreementFit(Result):
    status: Status
    reason: str
    consistency: Estimate | None  # share of pairs of repeats that agree; None: no probe was asked twice
    by_length: tuple[LengthConsistency, ...]
    temperature: tuple[SettingEffect, ...]
    penalty: tuple[SettingEffect, ...]
    resilience: Estimate | None  # score kept at the highest temperature (ratio)
    sensitivity: Estimate | None  # score lost per unit of repetition penalty, at the strongest one
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per setting."""
        return records_table(self.temperature + self.penalty)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No agreement: {self.reason}."
        parts = []
        if self.consistency is not None:
            c = self.consistency
            parts.append(f"repeats of a probe agree in {c.text()} of pairs (n = {c.n:,} probes)")
        if self.temperature:
            last = self.temperature[-1]
            parts.append(
                f"at temperature {last.value:g} the score moves by {last.difference:+.2f} "
                f"[{last.low:+.2f}, {last.high:+.2f}] against {last.against:g} (n = {last.pairs:,} pairs)"
            )
        if self.penalty:
            last = self.penalty[-1]
            parts.append(
                f"at repetition penalty {last.value:g} by {last.difference:+.2f} "
                f"[{last.low:+.2f}, {last.high:+.2f}] (n = {last.pairs:,} pairs)"
            )
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]} ({self.level:.0%} intervals)."


@dataclass(frozen=True, slots=True)
class Agreement:
    """Self-consistency, temperature resilience and repetition-penalty sensitivity.

    Self-consistency is the share of pairs of repeats (same probe, same decoding but for its seed) that agree:
    `key` is "text" (spacing and case aside) or "label". Settings are compared with the lowest value of the
    same probes, all other decoding being equal in a designed campaign; documents are the unit throughout.
    """

    key: str = "text"
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> AgreementFit:
        """`frame`: columns probe_id, decoding_id, repeat, text, score, temperature, repetition_penalty …"""
        try:
            if "probe_id" not in frame.columns:
                raise FitRefused("the frame has no column 'probe_id'")
            sample = take(frame[frame["probe_id"].notna()])
            overall, by_length = self._consistency(sample)
            heat = self._setting(sample, "temperature", 0.0)
            penalty = self._setting(sample, "repetition_penalty", 1.0)
            if overall is None and not heat and not penalty:
                raise FitRefused("no probe was asked twice, at two temperatures or at two repetition penalties")
        except FitRefused as error:
            return AgreementFit(
                "refused", str(error), None, (), (), (), None, None, refused_counts(error), self.level
            )
        return AgreementFit(
            "ok", "", overall, by_length, heat, penalty, _kept(heat, self.level), _lost(penalty, self.level),
            sample.counts, self.level,
        )  # fmt: skip

    def _consistency(self, sample: Sample) -> tuple[Estimate | None, tuple[LengthConsistency, ...]]:
        import pandas as pd

        frame = sample.whole.iloc[sample.rows]
        if self.key not in frame.columns:
            raise FitRefused(f"the frame has no column {self.key!r}")
        group = frame["probe_id"].astype(str) + "/" + _decoding(frame)
        code, _ = pd.factorize(group.to_numpy(dtype=object))
        answer = frame[self.key].fillna("").astype(str)
        if self.key == "text":
            answer = answer.str.split().str.join(" ").str.casefold()
        told, _ = pd.factorize(answer.to_numpy(dtype=object))
        size = np.bincount(code)
        # pairs that agree: Σ c(c-1)/2 over the distinct answers of a probe
        both, counts = np.unique(code.astype(np.int64) * (told.max() + 1) + told, return_counts=True)
        agree = np.bincount(both // (told.max() + 1), weights=counts * (counts - 1), minlength=size.size)
        asked = size > 1
        if not asked.any():
            return None, ()
        _, row = np.unique(code, return_index=True)
        share = agree[asked] / (size * (size - 1))[asked]
        cluster = sample.cluster[row][asked]
        overall = self._share(share, cluster)
        by_length = []
        if "length_tokens" in frame.columns:
            length = frame["length_tokens"].to_numpy(dtype=float, na_value=np.nan)[row][asked]
            values = np.unique(length[np.isfinite(length)])
            if values.size <= 64:
                by_length = [
                    LengthConsistency(float(v), self._share(share[length == v], cluster[length == v]))
                    for v in values
                ]
        return overall, tuple(by_length)

    def _share(self, share: Floats, cluster: Ints) -> Estimate:
        cells = cells_of(np.zeros(share.size, dtype=np.int64), 1, share, cluster)
        _, n = cells.effective()
        # graded shares may vary less than hits, but not believably so on a handful of documents
        ceiling = np.minimum(n, 4 * cells.clusters)
        low, high = wilson(cells.share * ceiling, ceiling, self.level, z=critical(self.level, cells.df))
        return Estimate(
            float(cells.share[0]), float(low[0]), float(high[0]), share.size, int(cells.clusters[0]), self.level
        )

    def _setting(self, sample: Sample, name: str, default: float) -> tuple[SettingEffect, ...]:
        import pandas as pd

        if not sample.has(name):
            return ()
        value = sample.column(name).to_numpy(dtype=float, na_value=np.nan)
        value = np.where(np.isfinite(value), value, default)
        levels = np.unique(value)
        if levels.size < 2 or levels.size > 24:
            return ()
        code, _ = pd.factorize(sample.column("probe_id").astype(str).to_numpy(dtype=object))
        base = levels[0]

        def mean(v: float) -> tuple[Floats, Floats]:
            rows = value == v
            n = np.bincount(code[rows], minlength=code.max() + 1).astype(float)
            total = np.bincount(code[rows], weights=sample.score[rows], minlength=code.max() + 1)
            return np.divide(total, n, out=np.zeros(n.size), where=n > 0), n

        _, row = np.unique(code, return_index=True)
        reference, asked = mean(base)
        out = []
        for v in levels[1:]:
            here, n = mean(v)
            both = (n > 0) & (asked > 0)
            if both.sum() < 5:
                continue
            found = paired_difference(
                (here - reference)[both], sample.cluster[row][both], level=self.level, seed=self.seed
            )
            before = float(reference[both].mean())
            least, most = paired_ratio(reference[both], here[both], sample.cluster[row][both], level=self.level)
            out.append(
                SettingEffect(
                    name, float(v), float(base), float(here[both].mean()), found.value, found.low, found.high,
                    float(here[both].mean()) / before if before > 0 else None, least, most,
                    found.n, found.clusters,
                )
            )  # fmt: skip
        return tuple(out)


_SETTINGS = ("temperature", "repetition_penalty", "frequency_penalty", "presence_penalty")


def _decoding(frame: pd.DataFrame) -> pd.Series[str]:
    """What a row was decoded with. Samples that differ in their seed alone are repeats of one decoding."""
    import pandas as pd

    name = pd.Series("", index=frame.index, dtype=object)
    if "decoding_id" in frame.columns:
        name = frame["decoding_id"].fillna("").astype(str).astype(object)
    present = [c for c in _SETTINGS if c in frame.columns]
    if "decoding_seed" not in frame.columns or not present:
        return name
    settings = frame[present].astype(object).fillna("").astype(str).agg("/".join, axis=1)
    return name.where(frame["decoding_seed"].isna(), settings)


def _kept(effects: tuple[SettingEffect, ...], level: float) -> Estimate | None:
    """Ratio of the score at the highest setting to that at the mildest."""
    if not effects or effects[-1].ratio is None:
        return None
    last = effects[-1]
    return Estimate(last.ratio, last.ratio_low, last.ratio_high, last.pairs, last.clusters, level)


def _lost(effects: tuple[SettingEffect, ...], level: float) -> Estimate | None:
    if not effects:
        return None
    last = effects[-1]
    step = last.value - last.against
    return Estimate(
        -last.difference / step, -last.high / step, -last.low / step, last.pairs, last.clusters, level
    )


def fingerprint(fits: dict[str, AgreementFit]) -> pd.DataFrame:
    """The two-axis behaviour fingerprint: a row per (name, axis pair, point) with both coordinates.

    `fits`: name of an endpoint → its agreement. Axis pair "length and consistency" has a point per length,
    "penalty and temperature" one point: x is the score lost per unit of penalty, y the score kept when hot.
    """
    import pandas as pd

    rows: list[tuple[object, ...]] = []
    for name, fit in fits.items():
        for point in fit.by_length:
            c = point.consistency
            rows.append((name, "length and consistency", point.length, None, None, c.value, c.low, c.high, c.n))
        if fit.resilience is not None and fit.sensitivity is not None:
            r, s = fit.resilience, fit.sensitivity
            rows.append((name, "penalty and temperature", s.value, s.low, s.high, r.value, r.low, r.high, r.n))
    columns = ["name", "axes", "x", "x_low", "x_high", "y", "y_low", "y_high", "n"]
    return pd.DataFrame(rows, columns=columns)
