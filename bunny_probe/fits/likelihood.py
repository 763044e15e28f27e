"""Maximum likelihood of a curve on binomial counts, and the region of parameters that the data allow.

Projecting the region {θ : 2(ℓ(θ̂) - ℓ(θ)) ≤ threshold} on any quantity g(θ) gives that quantity's profile
likelihood interval, whatever g is: a value of the curve, the window, the knee. The region's border is
found along rays from θ̂; the rays are turned until each wanted quantity is at its highest or lowest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.curves import CURVES, Axis, Curve

__all__ = ["Maximum", "climb", "extremes", "log_likelihood", "maximise", "net_of", "saturated"]

Floats = npt.NDArray[np.float64]

_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Maximum:
    """A curve at its best, for one data set or for a batch (leading dimensions)."""

    curve: Curve
    theta: Floats
    log_likelihood: Floats


def saturated(k: Floats, n: Floats) -> Floats:
    """Log-likelihood of one free share per position: what no curve can beat."""
    share = np.divide(k, n, out=np.full(np.broadcast(k, n).shape, 0.5), where=n > 0)
    share = np.clip(share, 1e-300, 1.0)
    miss = np.clip(1 - share, 1e-300, 1.0)
    return np.asarray((k * np.log(share) + (n - k) * np.log(miss)).sum(axis=-1))


def log_likelihood(p: Floats, k: Floats, n: Floats) -> Floats:
    p = np.minimum(np.maximum(p, _TINY), 1 - _TINY)
    return np.asarray((k * np.log(p) + (n - k) * np.log1p(-p)).sum(axis=-1))


@lru_cache(maxsize=64)
def net_of(
    name: str, axis: Axis, positions: tuple[float, ...]
) -> tuple[Floats, npt.NDArray[np.int64], Floats, Floats]:
    """(θ, its slices along the curve's place, ln p, ln(1 - p)) of the curve's coarse net at `positions`."""
    curve = CURVES[name]
    theta = curve.starts(axis)
    x = np.array(positions)
    p = np.clip(curve.evaluate(theta, axis.z(x), axis.t(x))[0], _TINY, 1 - _TINY)
    _, code = np.unique(theta[:, curve.place], return_inverse=True)
    members = int(np.bincount(code).max())
    slices = np.argsort(code, kind="stable").reshape(-1, members)  # each value of the place meets all others
    return theta, slices.astype(np.int64), np.log(p), np.log1p(-p)


def maximise(curve: Curve, axis: Axis, x: Floats, k: Floats, n: Floats, *, several: int = 6) -> Maximum:
    """The curve's maximum likelihood: damped Fisher scoring from the best `several` slices of a coarse net.

    `x`: (m,) positions; `k`, `n`: (..., m) hits and trials, fractional counts welcome.
    """
    shape = np.broadcast_shapes(k.shape, n.shape)
    k2 = np.broadcast_to(k, shape).reshape(-1, shape[-1])
    n2 = np.broadcast_to(n, shape).reshape(-1, shape[-1])
    starts, slices, log_p, log_q = net_of(curve.name, axis, tuple(x.tolist()))
    net = (log_p @ k2.T + log_q @ (n2 - k2).T)[slices]  # (slice, member, data set)
    first = np.take_along_axis(slices, net.argmax(axis=1), axis=1)  # the best start of each slice
    leading = np.argsort(-net.max(axis=1), axis=0)[:several]
    chosen = np.take_along_axis(first, leading, axis=0).T  # (data set, several)
    z, t = axis.z(x), axis.t(x)
    theta, best = climb(curve, axis, z, t, starts[chosen], k2[:, None, :], n2[:, None, :], rounds=8)
    order = np.argsort(-best, axis=1)[:, :4]
    theta = np.take_along_axis(theta, order[..., None], axis=1)
    theta, best = climb(curve, axis, z, t, theta, k2[:, None, :], n2[:, None, :], rounds=25)
    winner = best.argmax(axis=1)
    rows = np.arange(winner.size)
    return Maximum(
        curve, theta[rows, winner].reshape(*shape[:-1], curve.size), best[rows, winner].reshape(shape[:-1])
    )


def climb(
    curve: Curve,
    axis: Axis,
    z: Floats,
    t: Floats,
    theta: Floats,
    k: Floats,
    n: Floats,
    *,
    rounds: int,
    tolerance: float = 1e-5,
) -> tuple[Floats, Floats]:
    """Fisher scoring with Levenberg's damping from `theta` (..., P), all at once: (θ, log-likelihood)."""
    low, high = curve.box(axis)
    p, jac = curve.evaluate(theta, z, t)
    best = log_likelihood(p, k, n)
    damping = np.full(best.shape, 1e-3)
    eye = np.eye(curve.size)
    for _ in range(rounds):
        p = np.minimum(np.maximum(p, _TINY), 1 - _TINY)
        weight = 1.0 / (p * (1 - p))
        turned = jac.swapaxes(-1, -2)
        gradient = (turned @ ((k - n * p) * weight)[..., None])[..., 0]
        information = (turned * (n * weight)[..., None, :]) @ jac
        scale = np.diagonal(information, axis1=-2, axis2=-1)
        ridge = damping[..., None] * np.maximum(scale, 1e-6 * scale.max(axis=-1, keepdims=True) + 1e-9)
        # a parameter at its border that wants further out is held there
        held = ((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0))
        gradient = np.where(held, 0.0, gradient)
        step = np.linalg.solve(information + ridge[..., None, :] * eye, gradient[..., None])[..., 0]
        step = np.minimum(np.maximum(np.where(held, 0.0, step), -3.0), 3.0)
        proposal = np.minimum(np.maximum(theta + step, low), high)
        p_new, jac_new = curve.evaluate(proposal, z, t)
        value = log_likelihood(p_new, k, n)
        better = value >= best
        promised = (gradient * (proposal - theta)).sum(axis=-1)  # first-order gain of the step
        theta = np.where(better[..., None], proposal, theta)
        p = np.where(better[..., None], p_new, p)
        jac = np.where(better[..., None, None], jac_new, jac)
        best = np.where(better, value, best)
        damping = np.minimum(np.maximum(np.where(better, damping * 0.2, damping * 8.0), 1e-9), 1e6)
        if np.all((np.abs(promised) < tolerance) | (damping >= 1e5)):
            break
    return theta, best


@lru_cache(maxsize=16)
def _directions(size: int, count: int) -> Floats:
    """`count` unit vectors spread over the sphere: normal quantiles of a Halton-like lattice, and the axes."""
    from scipy.special import ndtri

    if size == 1:
        return np.array([[1.0], [-1.0]])
    primes = np.array([2, 3, 5, 7, 11, 13])[:size]
    steps = np.sqrt(primes.astype(float)) % 1.0
    points = ndtri(np.clip((np.arange(1, count + 1)[:, None] * steps + 0.5) % 1.0, 1e-6, 1 - 1e-6))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return np.concatenate([points, -points, np.eye(size), -np.eye(size)])


@dataclass(frozen=True, slots=True)
class _Region:
    """{θ : 2(ℓ(θ̂) - ℓ(θ)) ≤ wall²} seen from θ̂: where its border lies in any direction."""

    curve: Curve
    z: Floats
    t: Floats
    k: Floats  # (..., 1, m)
    n: Floats
    centre: Floats  # (..., 1, P)
    best: Floats  # (..., 1)
    wall: Floats  # (..., 1)
    root: Floats  # (..., P, P): a unit vector times this is a step of unit deviance

    low: Floats  # (P,) the box
    high: Floats

    def point(self, step: Floats, radius: Floats) -> Floats:
        """θ at `radius`; a ray that meets the box goes on along its side."""
        return np.asarray(np.clip(self.centre + radius[..., None] * step, self.low, self.high))

    def depth(self, step: Floats, radius: Floats) -> Floats:
        """Square root of the deviance at `radius`: a straight line where the region is an ellipse."""
        p = self.curve.evaluate(self.point(step, radius), self.z, self.t)[0]
        return np.asarray(np.sqrt(np.maximum(2 * (self.best - log_likelihood(p, self.k, self.n)), 0.0)))

    def border(self, unit: Floats) -> Floats:
        """θ on the border along each direction, (..., r, P); where all is allowed, the end of the ray."""
        step = unit @ self.root
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0, (self.high - self.centre) / step, (self.low - self.centre) / step)
        limit = np.maximum(np.where(np.abs(step) < 1e-9, 0.0, room).max(axis=-1), 0.0)
        wall = self.wall
        inner, at_inner = np.zeros(limit.shape), np.zeros(limit.shape)
        outer = np.minimum(wall, limit)
        at_outer = self.depth(step, outer)
        for _ in range(14):  # grow until outside, or at the ray's end
            inside = (at_outer < wall) & (outer < limit)
            if not inside.any():
                break
            inner, at_inner = np.where(inside, outer, inner), np.where(inside, at_outer, at_inner)
            grown = outer * np.clip(1.1 * wall / np.maximum(at_outer, 1e-9), 1.5, 5.0)
            outer = np.where(inside, np.minimum(grown, limit), outer)
            at_outer = np.where(inside, self.depth(step, outer), at_outer)
        open_ray = at_outer < wall
        for _ in range(4):
            share = np.clip((wall - at_inner) / np.maximum(at_outer - at_inner, 1e-12), 0.05, 0.95)
            middle = inner + share * (outer - inner)
            at = self.depth(step, middle)
            inside = at < wall
            inner, at_inner = np.where(inside, middle, inner), np.where(inside, at, at_inner)
            outer, at_outer = np.where(inside, outer, middle), np.where(inside, at_outer, at)
        share = np.clip((wall - at_inner) / np.maximum(at_outer - at_inner, 1e-12), 0.0, 1.0)
        radius = np.where(open_ray, outer, inner + share * (outer - inner))
        # where the deviance jumps, as at a cliff, a point between the two is outside: stay with the one inside
        radius = np.where(self.depth(step, radius) <= 1.01 * wall, radius, inner)
        return self.point(step, radius)


def extremes(
    curve: Curve,
    axis: Axis,
    x: Floats,
    k: Floats,
    n: Floats,
    theta: Floats,
    threshold: npt.ArrayLike,
    wanted: Callable[[Floats], Floats],
) -> tuple[Floats, Floats]:
    """Lowest and highest of each quantity over {θ : 2(ℓ(θ̂) - ℓ(θ)) ≤ threshold}; each (..., q).

    `k`, `n`: (..., m); `theta`: (..., P), the maximum; `threshold`: (...), one a data set;
    `wanted`: θ (..., r, P) → quantities (..., r, q), finite. The search starts along the directions in
    which each quantity changes fastest at θ̂ (exact for an elliptical region) and over the whole sphere,
    then turns the best direction of each quantity step by step, as bent regions need.
    """
    low, high = curve.box(axis)
    size = curve.size
    z, t = axis.z(x), axis.t(x)
    p, jac = curve.evaluate(theta, z, t)
    p = np.clip(p, _TINY, 1 - _TINY)
    information = (jac.swapaxes(-1, -2) * (n / (p * (1 - p)))[..., None, :]) @ jac
    # flat directions end at the box, not at infinity
    root = np.linalg.inv(np.linalg.cholesky(information + np.diag(4.0 / (high - low) ** 2)))
    centre = theta[..., None, :]
    wall = np.sqrt(np.maximum(np.asarray(threshold, dtype=float), 0.0))[..., None]
    best = log_likelihood(p, k, n)[..., None]
    here = _Region(curve, z, t, k[..., None, :], n[..., None, :], centre, best, wall, root, low, high)

    h = np.diag(1e-4 * (high - low))
    ahead, behind = np.clip(centre + h, low, high), np.clip(centre - h, low, high)
    slope = (wanted(ahead) - wanted(behind)) / (2 * np.diag(h)[:, None])  # (..., P, q)
    along = (root @ slope).swapaxes(-1, -2)
    norm = np.linalg.norm(along, axis=-1, keepdims=True)
    along = np.where(norm > 1e-12, along / np.maximum(norm, 1e-12), np.eye(size)[0])
    sphere = _directions(size, 24)
    unit = np.concatenate([along, -along, np.broadcast_to(sphere, (*theta.shape[:-1], *sphere.shape))], axis=-2)
    values = wanted(here.border(unit))
    start = wanted(centre)[..., 0, :]
    lowest, highest = np.minimum(start, values.min(axis=-2)), np.maximum(start, values.max(axis=-2))
    if size == 1:
        return lowest, highest

    q = values.shape[-1]
    signed = np.concatenate([values, -values], axis=-1)  # highs, then lows: (..., r, 2q)
    pick = signed.argmax(axis=-2)
    leader = np.take_along_axis(unit, pick[..., None], axis=-2)  # (..., 2q, P)
    record = np.take_along_axis(signed, pick[..., None, :], axis=-2)[..., 0, :]
    turns = _directions(size, 5)[: -size if size > 2 else None]
    for width in (0.7, 0.4, 0.2, 0.1):
        trial = leader[..., :, None, :] + width * turns
        trial /= np.maximum(np.linalg.norm(trial, axis=-1, keepdims=True), 1e-12)
        flat = trial.reshape(*trial.shape[:-3], -1, size)
        found = wanted(here.border(flat))
        found = found.reshape(*found.shape[:-2], 2 * q, len(turns), q)
        own = np.concatenate(
            [found[..., range(q), :, range(q)], -found[..., range(q, 2 * q), :, range(q)]], axis=0
        )
        own = np.moveaxis(own, 0, -2)  # (..., 2q, turns)
        winner = own.argmax(axis=-1)
        gained = np.take_along_axis(own, winner[..., None], axis=-1)[..., 0]
        better = gained > record
        turned = np.take_along_axis(trial, winner[..., None, None], axis=-2)[..., 0, :]
        leader = np.where(better[..., None], turned, leader)
        record = np.where(better, gained, record)
    return np.minimum(lowest, -record[..., q:]), np.maximum(highest, record[..., :q])
