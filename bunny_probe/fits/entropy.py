"""How unsure the model is, token by token: entropy as bounds against length, depth or stress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.entropy_bounds import token_entropy_bounds
from bunny_probe.fits.means import cluster_mean, cluster_slope
from bunny_probe.fits.result import Counts, Estimate, Result, Status, records_table
from bunny_probe.fits.sample import refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Entropy", "EntropyFit", "EntropyLevel", "token_entropy_bounds"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EntropyLevel:
    """One length, depth or variant. All in nats."""

    at: float | str  # the length, depth or variant
    low: float  # mean lower bound
    high: float  # mean upper bound
    low_from: float | None  # interval of the mean lower bound; None: a single document
    low_to: float | None
    high_from: float | None  # interval of the mean upper bound
    high_to: float | None
    n: int
    clusters: int


@dataclass(frozen=True, slots=True)
class EntropyFit(Result):
    status: Status
    reason: str
    by: str
    token: str  # "answer": mean over the answer's tokens; "first": its first token
    levels: tuple[EntropyLevel, ...]
    low: Estimate  # mean lower bound over everything
    high: Estimate  # mean upper bound over everything
    slope_low: Estimate | None  # nats per doubling of length (or per unit of depth), of the lower bound
    slope_high: Estimate | None
    without: int  # answers that came without log-probabilities
    counts: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per length, depth or variant."""
        return records_table(self.levels)

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No entropy: {self.reason}."
        where = "of the first answer token" if self.token == "first" else "per answer token"
        text = (
            f"Entropy {where} lies between {self.low.text()} and {self.high.text()} nats on average, over "
            f"{self.counts.used:,} answers from {self.counts.clusters:,} documents ({self.level:.0%} intervals)"
        )
        if self.slope_low is not None and self.slope_high is not None:
            unit = "doubling of length" if self.by == "length_tokens" else f"unit of {self.by}"
            text += f"; per {unit} it moves by {self.slope_low.text()} (lower bound) and "
            text += f"{self.slope_high.text()} (upper bound)"
        return text + (f"; {self.reason}." if self.reason else ".")


@dataclass(frozen=True, slots=True)
class Entropy:
    """Means of the entropy bounds by length, depth or variant, with intervals between documents.

    The truth lies between the bounds: what of the vocabulary was not returned is unknown. An endpoint
    without log-probabilities gives a refused result that says so.
    """

    by: Literal["length_tokens", "depth", "variant"] = "length_tokens"
    token: Literal["answer", "first"] = "answer"
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, frame: pd.DataFrame) -> EntropyFit:
        prefix = "first_" if self.token == "first" else ""
        try:
            needs = (f"{prefix}entropy_high",) + (() if self.by == "variant" else (self.by,))
            sample = take(frame, needs, value=f"{prefix}entropy_low")
        except FitRefused as error:
            counts = refused_counts(error)
            answered = counts.rows - sum(n for _, n in counts.failed)
            reason = str(error)
            if answered and counts.unscored == answered:
                reason = f"log-probabilities unavailable in all {answered:,} answers: the endpoint gave none"
            return self._refused(reason, counts)
        low, high = sample.score, sample.columns[f"{prefix}entropy_high"]
        if self.by == "variant":
            import pandas as pd

            if not sample.has("variant"):
                return self._refused("the frame has no column 'variant'", sample.counts)
            code, names = pd.factorize(sample.column("variant").fillna(""), sort=True)
            keys: list[float | str] = [str(name) for name in names]
        else:
            values, code = np.unique(np.round(sample.columns[self.by], 6), return_inverse=True)
            if values.size > 64:
                edges = np.quantile(sample.columns[self.by], np.linspace(0, 1, 33)[1:-1])
                _, code = np.unique(np.searchsorted(edges, sample.columns[self.by]), return_inverse=True)
                values = np.bincount(code, weights=sample.columns[self.by]) / np.bincount(code)
            keys = [float(v) for v in values]
        order = np.argsort(code, kind="stable")
        borders = np.cumsum(np.bincount(code))[:-1]
        levels = []
        for key, rows in zip(keys, np.split(order, borders), strict=True):
            a, a_from, a_to, documents = cluster_mean(low[rows], sample.cluster[rows], self.level)
            b, b_from, b_to, _ = cluster_mean(high[rows], sample.cluster[rows], self.level)
            levels.append(
                EntropyLevel(key, a, b, _positive(a_from), a_to, _positive(b_from), b_to, rows.size, documents)
            )
        slope_low = slope_high = None
        if self.by != "variant":
            x = sample.columns[self.by]
            x = np.log2(np.maximum(x, 1)) if self.by == "length_tokens" else x
            slope_low, slope_high = (
                None if s is None else Estimate(*s, low.size, sample.counts.clusters, self.level)
                for s in (cluster_slope(x, y, sample.cluster, self.level) for y in (low, high))
            )
        return EntropyFit(
            status="ok",
            reason=f"{sample.counts.unscored:,} answers came without log-probabilities"
            if sample.counts.unscored
            else "",
            by=self.by,
            token=self.token,
            levels=tuple(levels),
            low=_overall(low, sample.cluster, self.level),
            high=_overall(high, sample.cluster, self.level),
            slope_low=slope_low,
            slope_high=slope_high,
            without=sample.counts.unscored,
            counts=sample.counts,
            level=self.level,
        )

    def _refused(self, reason: str, counts: Counts) -> EntropyFit:
        nothing = Estimate(level=self.level)
        return EntropyFit(
            "refused",
            reason,
            self.by,
            self.token,
            (),
            nothing,
            nothing,
            None,
            None,
            counts.unscored,
            counts,
            self.level,
        )


def _positive(value: float | None) -> float | None:
    return None if value is None else max(value, 0.0)


def _overall(value: Floats, cluster: npt.NDArray[np.int64], level: float) -> Estimate:
    mean, low, high, documents = cluster_mean(value, cluster, level)
    return Estimate(mean, _positive(low), high, value.size, documents, level)
