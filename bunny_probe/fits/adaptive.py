"""Which length (or depth) to ask next: the one that tells most about the window for its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.curves import CURVES, Axis
from bunny_probe.fits.result import Crossing, Result, Status
from bunny_probe.fits.settings import check_settings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NextLength", "Tried", "WindowBelief", "WindowSearch"]

Floats = npt.NDArray[np.float64]

# Of the price in prompt tokens. At 1 the search lives on short prompts and on what the curves' shapes say
# about long ones, and its window is then as wrong as the shapes are.
_THRIFT = 0.7

_NARROWEST = 0.05  # octaves; below this the net's spacing of curves is what would be found


@dataclass(frozen=True, slots=True)
class Tried:
    """What was asked at one length so far. Everything the search knows; store it to go on later."""

    length: int  # prompt tokens, or tokens from the fact to the prompt's end
    hits: float  # sum of scores
    trials: int


@dataclass(frozen=True, slots=True)
class WindowBelief:
    """The posterior of the window: equal weight on each octave fraction and on "beyond" before any data."""

    window: Crossing
    width: float  # octaves between the interval's ends; the probed range's end stands for "beyond"
    beyond: float  # probability that the window lies beyond the probed range


@dataclass(frozen=True, slots=True)
class NextLength(Result):
    status: Status  # ok: ask `length`; censored: stop, see `reason`; refused: bad parameters
    reason: str
    length: int | None  # to ask next: prompt tokens, or tokens from the fact to the end; None: stop
    repeats: int
    information: float  # expected nats about the window from one answer, as of normal variables
    belief: WindowBelief | None
    tokens_spent: int
    from_end: bool = False

    def table(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([{"length": self.length, "reason": self.reason, "information": self.information}])

    def sentence(self) -> str:
        if self.belief is None:
            return f"No search: {self.reason}."
        what = "The last tokens that count are" if self.from_end else "The window is"
        return f"{what} {self.belief.window.text()}; {self.reason}."


@dataclass(frozen=True, slots=True)
class WindowSearch:
    """Pure: what was tried goes in, the next length and the reason come out.

    A net of decay curves (all five shapes) is weighed by the likelihood of what was seen. The next length is
    the one whose answer takes most of the variance of the window's logarithm for its price (Bayesian A-optimal
    design, Chaloner and Verdinelli 1995). Mutual information with the window would also pay for where it lies
    within an interval already narrow enough. Before data each octave fraction of the window weighs the same.

    With `prompt` every prompt has that many tokens and the fact's depth is what is chosen: lengths are then
    distances from the prompt's end, the window is the end-anchored one, and each distance costs the same.
    """

    shortest: int = 512
    longest: int = 131_072
    fraction: float = 0.85
    width: float = 1.0  # octaves: stop when the interval is this narrow
    budget: int | None = None  # prompt tokens: stop before more than this is spent
    candidates: int = 33  # lengths to choose from, even in log; more where `width` needs them
    repeats: int = 4  # documents asked a step
    level: float = 0.95
    prompt: int | None = None  # tokens of every prompt, to search by depth; None: search by length

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, tried: Sequence[Tried] = ()) -> NextLength:
        if self.prompt is not None and self.longest > self.prompt:
            reason = f"no fact stands {self.longest:,} tokens before the end of {self.prompt:,}"
            return NextLength("refused", reason, None, 0, 0.0, None, 0, True)
        return replace(self._next(tried), from_end=self.prompt is not None)

    def _next(self, tried: Sequence[Tried]) -> NextLength:
        if not (0 < self.shortest < self.longest and 0 < self.fraction < 1 and self.candidates >= 3):
            reason = "shortest < longest, a fraction in (0, 1) and at least 3 candidates are needed"
            return NextLength("refused", reason, None, 0, 0.0, None, 0)
        if self.width < _NARROWEST:
            reason = f"a width of at least {_NARROWEST:g} octaves is needed"
            return NextLength("refused", reason, None, 0, 0.0, None, 0)
        # the interval ends at candidates: two gaps between them must fit into it
        needed = 2 + int(2 * np.log2(self.longest / self.shortest) / self.width)
        net = _net(self.shortest, self.longest, self.fraction, max(self.candidates, needed))
        weight = net.posterior(tried)
        belief = self.belief(net, weight)
        spent = sum((self.prompt or t.length) * t.trials for t in tried)
        if tried and belief.width <= self.width:
            reason = f"stop: the interval is {belief.width:.2f} octaves wide, {self.width:g} were asked for"
            return NextLength("censored", reason, None, 0, 0.0, belief, spent)
        gain = net.information(weight)
        price = net.lengths if self.prompt is None else np.full(net.lengths.size, float(self.prompt))
        affordable = np.full(gain.size, True)
        if self.budget is not None:
            affordable = spent + price * self.repeats <= self.budget
        if not affordable.any():
            reason = f"stop: {spent:,} of {self.budget:,} prompt tokens are spent"
            return NextLength("censored", reason, None, 0, 0.0, belief, spent)
        rate = np.where(affordable, gain / price**_THRIFT, -np.inf)
        pick = int(rate.argmax())
        length = int(net.lengths[pick])
        where = f"{length:,} tokens" if self.prompt is None else f"{length:,} tokens from the end"
        reason = (
            f"{where} tell most for their price, {gain[pick] * 1000:.1f} millinats an answer; "
            f"the window is within {belief.width:.2f} octaves so far"
        )
        return NextLength("ok", reason, length, self.repeats, float(gain[pick]), belief, spent)

    def belief(self, net: _Net, weight: Floats) -> WindowBelief:
        mass = np.bincount(net.bin, weights=weight, minlength=net.edges.size)
        total = np.cumsum(mass)
        tail = (1 - self.level) / 2

        def at(q: float) -> float:
            """ln of the window's q-quantile; inf: beyond."""
            i = int(np.searchsorted(total, q))
            if i >= net.edges.size - 1:
                return np.inf
            before = total[i - 1] if i else 0.0
            share = (q - before) / max(mass[i], 1e-300)
            return float(net.edges[i] + share * (net.edges[i + 1] - net.edges[i]))

        end = float(np.log(self.longest))
        # a cliff between two candidates may stand anywhere between them, whatever the net's spacing says
        low, value, high = net.below(at(tail)), at(0.5), net.above(at(1 - tail))

        def tokens(v: float) -> float | None:
            return float(np.exp(v)) if np.isfinite(v) else None

        window = Crossing(tokens(value), tokens(low), tokens(high), self.shortest, self.longest, self.level)
        width = float((min(high, end) - min(low, end)) / np.log(2))
        return WindowBelief(window, width, float(mass[-1]))


@dataclass(frozen=True, slots=True)
class _Net:
    lengths: Floats  # (c,) candidate lengths
    p: Floats  # (j, c) score of each curve there
    bin: npt.NDArray[np.int64]  # (j,) bin of each curve's window; the last one is "beyond"
    edges: Floats  # ln of the bins' borders; the last bin has no right border
    prior: Floats  # (j,)

    columns: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)  # filled as lengths are asked for

    def posterior(self, tried: Sequence[Tried]) -> Floats:
        if not tried:
            return self.prior
        log_w = np.log(np.maximum(self.prior, 1e-300))
        for t in tried:
            log_p, log_q = self._column(t.length)
            log_w += t.hits * log_p + (t.trials - t.hits) * log_q
        w = np.exp(log_w - log_w.max())
        return np.asarray(w / w.sum())

    def _column(self, length: int) -> tuple[Floats, Floats]:
        """(ln p, ln(1 - p)) of each curve there; lengths that are no candidates are interpolated."""
        if length not in self.columns:
            axis_z = np.log(self.lengths)
            place = float(np.clip(np.log(length), axis_z[0], axis_z[-1]))
            i = int(np.clip(np.searchsorted(axis_z, place) - 1, 0, axis_z.size - 2))
            share = (place - axis_z[i]) / (axis_z[i + 1] - axis_z[i])
            p = np.clip((1 - share) * self.p[:, i] + share * self.p[:, i + 1], 1e-4, 1 - 1e-4)
            self.columns[length] = np.log(p), np.log1p(-p)
        return self.columns[length]

    def below(self, place: float) -> float:
        """ln of the last candidate up to `place`, in ln tokens; inf stays."""
        at = np.log(self.lengths)
        return float(at[max(int(np.searchsorted(at, place, side="right")) - 1, 0)]) if place < np.inf else place

    def above(self, place: float) -> float:
        """ln of the first candidate from `place` on, in ln tokens; inf stays."""
        at = np.log(self.lengths)
        return float(at[min(int(np.searchsorted(at, place)), at.size - 1)]) if place < np.inf else place

    def information(self, weight: Floats) -> Floats:
        """Of one answer at each candidate about ln(window), in nats: -½ ln(1 - ρ²), as of normal variables."""
        beyond = self.edges[-1] + 0.5 * np.log(2)
        place = np.append((self.edges[:-1] + self.edges[1:]) / 2, beyond)[self.bin]
        apart = weight * (place - weight @ place)
        mean = weight @ self.p
        share = (apart @ self.p) ** 2 / (mean * (1 - mean) * max(float(apart @ place), 1e-12))
        return np.asarray(-0.5 * np.log1p(-np.minimum(share, 1 - 1e-9)))


@lru_cache(maxsize=8)
def _net(shortest: int, longest: int, fraction: float, candidates: int) -> _Net:
    axis = Axis(float(shortest), float(longest))
    lengths = np.unique(np.round(np.geomspace(shortest, longest, candidates)))
    z, t = axis.z(lengths), axis.t(lengths)
    edges = np.linspace(np.log(shortest), np.log(longest), 12 * max(int(axis.span / np.log(2)), 1) + 1)
    values, bins, groups = [], [], []
    for number, curve in enumerate(CURVES.values()):
        theta = _dense(curve.name, axis)
        values.append(np.clip(curve.evaluate(theta, z, t)[0], 1e-4, 1 - 1e-4))
        crossing = np.log(np.minimum(curve.crossing(theta, fraction, axis), 1e300))
        where = np.searchsorted(edges, crossing, side="right") - 1
        bins.append(np.where(crossing > edges[-1], edges.size - 1, np.clip(where, 0, edges.size - 2)))
        groups.append(np.full(len(theta), number))
    p, where, group = np.concatenate(values), np.concatenate(bins).astype(np.int64), np.concatenate(groups)
    order = np.argsort(where, kind="stable")
    p, where, group = p[order], where[order], group[order]
    # each bin weighs the same, "beyond" as much as two octaves; within a bin each shape weighs the same
    pair = where * len(CURVES) + group
    size = np.bincount(pair, minlength=edges.size * len(CURVES))
    shapes = (size.reshape(-1, len(CURVES)) > 0).sum(axis=1)
    share = np.ones(edges.size)
    share[-1] = 24.0
    prior = share[where] / (size[pair] * shapes[where])
    return _Net(lengths, p, where, edges, np.asarray(prior / prior.sum()))


def _dense(name: str, axis: Axis) -> Floats:
    """A net of curves fine in where they fall, coarser in how."""

    def logit(v: npt.ArrayLike) -> Floats:
        v = np.asarray(v, dtype=float)
        return np.asarray(np.log(v / (1 - v)))

    def cross(*parts: npt.ArrayLike) -> Floats:
        grid = np.meshgrid(*[np.asarray(v, dtype=float) for v in parts], indexing="ij")
        return np.stack([g.ravel() for g in grid], axis=-1)

    # fine: an error of the base shifts the window of a shallow curve far
    levels = logit([0.35, 0.5, 0.6, 0.66, 0.71, *np.arange(0.75, 0.99, 0.0145), 0.995])
    places = np.linspace(0.0, 1.12, 90) * axis.span
    if name == "constant":
        return cross(levels)
    if name == "power":
        return cross(levels, np.log(np.geomspace(0.01, 3.0, 40)))
    if name == "exponential":
        return cross(levels, logit([0.002, 0.15, 0.4, 0.65]), np.log(np.geomspace(0.02, 200, 60)))
    if name == "logistic":
        shallow = cross(levels, np.log([0.8, 1.5, 3.0]), places[::2], logit([0.002, 0.2]))
        steep = cross(levels[::3], np.log([6.0, 25.0, 300.0]), places, logit([0.002, 0.12, 0.3]))
        return np.concatenate([shallow, steep])
    return cross(levels, np.linspace(0.0, 0.98, 40) * axis.span, np.log([0.08, 0.2, 0.5, 1.2]))
