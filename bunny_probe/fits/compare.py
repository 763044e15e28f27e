"""Two runs, or two endpoints, on the same probes: better, same within a margin, worse, or undecided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.errors import FitRefused
from bunny_probe.fits.paired import PairedDifference, paired_difference, unpaired_difference
from bunny_probe.fits.proportions import critical
from bunny_probe.fits.result import Counts, Result, Status, records_table
from bunny_probe.fits.sameness import answer_features, ecdf_distance, first_token_features, permutation_mmd
from bunny_probe.fits.sample import Sample, refused_counts, take
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Compare", "CompareFit", "Question", "Verdict", "adjusted"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Verdict = Literal["better", "same", "worse", "different", "undecided"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question put to the two runs. Differences are second minus first."""

    name: str  # "score", "score at 4096 tokens", "answers", "first token", "latency_s", …
    kind: Literal["score", "distribution", "time"]
    verdict: Verdict  # "different" is for distributions of answers, which have no better side
    difference: float | None  # of means; the distance for distributions
    low: float | None
    high: float | None
    p: float
    p_adjusted: float  # over all questions asked
    margin: float | None
    detectable: (
        float | None
    )  # the smallest difference that would have been seen with the power; None: none would
    n: int
    clusters: int
    test: str


@dataclass(frozen=True, slots=True)
class CompareFit(Result):
    status: Status
    reason: str
    verdict: Verdict  # the whole score's, but worse where any score question is worse
    questions: tuple[Question, ...]
    same_model: bool | None  # False: answers or first tokens differ; None: that could not be asked
    pairs: int  # probes that both runs answered
    only_first: int  # probes answered in one run alone: not compared
    only_second: int
    first: Counts
    second: Counts
    level: float

    def table(self) -> pd.DataFrame:
        """A row per question."""
        return records_table(self.questions)

    @property
    def decisive(self) -> Question:
        """The question that the verdict rests on: the whole score, or the worst of the parts that are worse."""
        if self.verdict == "worse" and self.questions[0].verdict != "worse":
            worse = [q for q in self.questions if q.kind == "score" and q.verdict == "worse"]
            return min(worse, key=lambda q: q.difference or 0.0)
        return self.questions[0]

    def sentence(self) -> str:
        if self.status == "refused":
            return f"No comparison: {self.reason}."
        main = self.decisive
        words = {
            "better": "better than",
            "worse": "worse than",
            "same": f"the same within {main.margin:g} as" if main.margin is not None else "the same as",
            "undecided": "not told apart from",
        }[self.verdict]
        text = f"The second run is {words} the first"
        if main.name != "score":
            text += f" in the {main.name}"
        if main.difference is not None and main.low is not None and main.high is not None:
            text += f": score difference {main.difference:+.3f} [{main.low:+.3f}, {main.high:+.3f}]"
        text += f" over {main.n:,} pairs from {main.clusters:,} documents ({self.level:.0%} interval"
        text += f", {len(self.questions)} questions, corrected)"
        if main.detectable is None and main.low is not None:
            text += "; no difference, however large, would have been seen four times in five"
        elif main.detectable is not None:
            text += f"; a difference of {main.detectable:.3f} would have been seen four times in five"
        if self.same_model is False:
            text += "; the answers' distribution says it is not the same model"
        return text + "."


@dataclass(frozen=True, slots=True)
class Compare:
    """Paired by (probe, decoding), documents as the unit; p-values corrected over all questions asked.

    A question is `same` when the interval of twice the error lies within the margin (two one-sided tests,
    Schuirmann 1987), else `better` or `worse` when its corrected p is below the error, else `undecided`.
    """

    margin: float = 0.05  # of the score: what nobody would mind
    level: float = 0.95
    power: float = 0.8  # for the smallest difference that would have been seen
    correction: Literal["holm", "bh"] = "holm"
    by: str | None = "length_tokens"  # one more score question for each value of this column
    times: tuple[str, ...] = ("ttft_s", "latency_s")
    rounds: int = 500  # of the permutation tests
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, first: pd.DataFrame, second: pd.DataFrame) -> CompareFit:
        """Two frames, the older one first."""
        try:
            a, b = take(first), take(second)
        except FitRefused as error:
            return self._refused(str(error), refused_counts(error))
        left, right = _by_probe(a, 1), _by_probe(b, 2)
        if left is None or right is None:
            return self._refused("the frames have no column 'probe_id' to pair by", a.counts)
        keys, i, j = np.intersect1d(left.key, right.key, return_indices=True)
        if keys.size == 0:
            return self._unpaired(a, b)
        if keys.size < 5:
            return self._refused(
                f"{keys.size} probes were answered in both runs: at least 5 are needed", a.counts
            )
        delta, cluster = right.score[j] - left.score[i], left.cluster[i]
        questions = [self._score("score", paired_difference(delta, cluster, level=self.level, seed=self.seed))]
        questions += self._parts(a, left, i, delta, cluster)
        same, tests = self._same(a, b, left, right)
        questions += tests + self._times(first, second)
        return self._finish(
            questions,
            same,
            keys.size,
            left.key.size - keys.size,
            right.key.size - keys.size,
            a.counts,
            b.counts,
        )

    def _parts(self, a: Sample, left: _Probes, i: Ints, delta: Floats, cluster: Ints) -> list[Question]:
        if self.by is None or not a.has(self.by):
            return []
        import pandas as pd

        codes, names = pd.factorize(a.column(self.by).to_numpy()[left.row[i]], sort=True)
        if len(names) < 2 or len(names) > 24:
            return []
        out = []
        for code, name in enumerate(names):
            rows = codes == code
            if rows.sum() >= 5:
                found = paired_difference(delta[rows], cluster[rows], level=self.level, seed=self.seed)
                out.append(self._score(f"score at {self.by} {name}", found))
        return out

    def _score(self, name: str, d: PairedDifference) -> Question:
        needed = critical(self.level) + critical(2 * self.power - 1)
        within = self.margin > 0 and d.narrow_low > -self.margin and d.narrow_high < self.margin
        return Question(
            name, "score", "same" if within else "undecided", d.value, d.low, d.high, d.p, d.p, self.margin,
            needed * d.error if needed * d.error <= 1 else None, d.n, d.clusters, d.test,
        )  # fmt: skip

    def _same(self, a: Sample, b: Sample, left: _Probes, right: _Probes) -> tuple[bool | None, list[Question]]:
        import pandas as pd

        second = np.concatenate([np.zeros(a.score.size, dtype=bool), np.ones(b.score.size, dtype=bool)])
        stratum, _ = pd.factorize(np.concatenate([left.of_row, right.of_row]))
        out: list[Question] = []
        size = int(min(left.key.size, right.key.size))
        if a.has("text") and b.has("text"):
            texts = [str(t) for s in (a, b) for t in s.column("text").fillna("")]
            if len(texts) <= 20_000 and any(texts):
                found = permutation_mmd(
                    answer_features(texts), second, stratum, rounds=self.rounds, seed=self.seed
                )
                out.append(_distance("answers", *found, size, "permutation MMD within probes"))
        if a.has("first_top") and b.has("first_top"):
            tops = [t if isinstance(t, str) else None for s in (a, b) for t in s.column("first_top")]
            if len(tops) <= 20_000:
                features, given = first_token_features(tops)
                if given.sum() >= 10:
                    found = permutation_mmd(
                        features[given], second[given], stratum[given], rounds=self.rounds, seed=self.seed
                    )
                    out.append(_distance("first token", *found, size, "permutation MMD within probes"))
        return (None if not out else True), out

    def _times(self, first: pd.DataFrame, second: pd.DataFrame) -> list[Question]:
        out = []
        for name in self.times:
            try:
                a, b = take(first, value=name), take(second, value=name)
            except FitRefused:
                continue
            if min(a.score.size, b.score.size) < 5:
                continue
            gap, p = ecdf_distance(a.score, b.score)
            shift = float(np.median(b.score) - np.median(a.score))
            out.append(
                Question(
                    name, "time", "undecided", shift, None, None, p, p, None, None,
                    a.score.size + b.score.size, 0, f"Kolmogorov-Smirnov, gap {gap:.3f}",
                )
            )  # fmt: skip
        return out

    def _unpaired(self, a: Sample, b: Sample) -> CompareFit:
        if min(a.counts.clusters, b.counts.clusters) < 5:
            return self._refused("no probe in common, and under 5 documents on a side", a.counts)
        found = unpaired_difference(a.score, b.score, a.cluster, b.cluster, level=self.level)
        fit = self._finish(
            [self._score("score", found)], None, 0, a.counts.used, b.counts.used, a.counts, b.counts
        )
        return replace(fit, reason="no probe in common: the runs were compared as separate samples")

    def _finish(
        self, questions: list[Question], same: bool | None, pairs: int, only_first: int, only_second: int,
        first: Counts, second: Counts,
    ) -> CompareFit:  # fmt: skip
        error = 1 - self.level
        corrected = adjusted([q.p for q in questions], self.correction)
        done = []
        for q, p in zip(questions, corrected, strict=True):
            verdict = q.verdict
            if verdict == "undecided" and p < error and q.difference:
                if q.kind == "distribution":
                    verdict, same = "different", False
                else:
                    verdict = "worse" if (q.difference < 0) == (q.kind == "score") else "better"
            done.append(replace(q, verdict=verdict, p_adjusted=p))
        worse = any(q.verdict == "worse" for q in done if q.kind == "score")
        overall: Verdict = "worse" if worse else done[0].verdict
        return CompareFit(
            "ok", "", overall, tuple(done), same, pairs, only_first, only_second, first, second, self.level
        )

    def _refused(self, reason: str, counts: Counts) -> CompareFit:
        return CompareFit("refused", reason, "undecided", (), None, 0, 0, 0, counts, Counts(), self.level)


@dataclass(frozen=True, slots=True)
class _Probes:
    key: npt.NDArray[np.object_]  # probe and decoding
    score: Floats  # mean over the repeats
    cluster: Ints  # hash of the document, the same in both runs
    row: Ints  # a row of each
    of_row: npt.NDArray[np.object_]  # the key of every row


def _by_probe(sample: Sample, side: int) -> _Probes | None:
    import pandas as pd

    if not sample.has("probe_id"):
        return None
    name = sample.column("probe_id").astype(str)
    if sample.has("decoding_id"):
        name = name + "/" + sample.column("decoding_id").fillna("").astype(str)
    # a row that names no probe is alone: in neither run has it a partner
    unnamed = sample.column("probe_id").isna().to_numpy(dtype=bool)
    of_row = name.to_numpy(dtype=object)
    of_row[unnamed] = [f"\0{side}/{i}" for i in np.flatnonzero(unnamed)]
    code, keys = pd.factorize(of_row)
    size = np.bincount(code)
    _, row = np.unique(code, return_index=True)
    return _Probes(
        np.asarray(keys, dtype=object), np.bincount(code, weights=sample.score) / size,
        sample.cluster[row], row.astype(np.int64), of_row,
    )  # fmt: skip


def _distance(name: str, distance: float, p: float, n: int, test: str) -> Question:
    return Question(name, "distribution", "undecided", distance, None, None, p, p, None, None, n, 0, test)


def adjusted(p: list[float], method: Literal["holm", "bh"] = "holm") -> list[float]:
    """p-values corrected for their number: Holm 1979 (any error), Benjamini and Hochberg 1995 (their share)."""
    values = np.asarray(p, dtype=float)
    m = values.size
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    if method == "holm":
        out = np.maximum.accumulate(ranked * (m - np.arange(m)))
    else:
        out = np.minimum.accumulate((ranked * m / (np.arange(m) + 1))[::-1])[::-1]
    back = np.empty(m)
    back[order] = np.minimum(out, 1.0)
    return [float(v) for v in back]
