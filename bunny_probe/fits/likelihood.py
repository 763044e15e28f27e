"""Maximum likelihood of a curve on binomial counts, and the region of parameters that the data allow.

Projecting the region {θ : 2(ℓ(θ̂) - ℓ(θ)) ≤ threshold} on any quantity g(θ) gives that quantity's profile
likelihood interval, whatever g is: a value of the curve, the window, the knee. The region's border is
found along rays from θ̂, among them the rays on which each wanted quantity changes fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.curves import CURVES, Axis, Curve

__all__ = ["Maximum", "maximise", "region", "saturated"]

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


def _log_likelihood(p: Floats, k: Floats, n: Floats) -> Floats:
    p = np.clip(p, _TINY, 1 - _TINY)
    return np.asarray((k * np.log(p) + (n - k) * np.log1p(-p)).sum(axis=-1))


@lru_cache(maxsize=64)
def _net(name: str, axis: Axis, positions: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    curve = CURVES[name]
    theta = curve.starts(axis)
    x = np.array(positions)
    p = np.clip(curve.evaluate(theta, axis.z(x), axis.t(x))[0], _TINY, 1 - _TINY)
    return theta, np.log(p), np.log1p(-p)


def maximise(curve: Curve, axis: Axis, x: Floats, k: Floats, n: Floats, *, rounds: int = 60) -> Maximum:
    """The curve's maximum likelihood: the best of a coarse net, then damped Fisher scoring.

    `x`: (m,) positions; `k`, `n`: (..., m) hits and trials, fractional counts welcome.
    """
    shape = np.broadcast_shapes(k.shape, n.shape)
    k2 = np.broadcast_to(k, shape).reshape(-1, shape[-1])
    n2 = np.broadcast_to(n, shape).reshape(-1, shape[-1])
    starts, log_p, log_q = _net(curve.name, axis, tuple(x.tolist()))
    net = log_p @ k2.T + log_q @ (n2 - k2).T
    theta = starts[net.argmax(axis=0)]
    z, t = axis.z(x), axis.t(x)
    low, high = curve.box(axis)
    p, jac = curve.evaluate(theta, z, t)
    best = _log_likelihood(p, k2, n2)
    damping = np.full(best.shape, 1e-3)
    eye = np.eye(curve.size)
    for _ in range(rounds):
        p = np.clip(p, _TINY, 1 - _TINY)
        variance = p * (1 - p)
        turned = jac.swapaxes(-1, -2)
        gradient = (turned @ ((k2 - n2 * p) / variance)[..., None])[..., 0]
        information = (turned * (n2 / variance)[:, None, :]) @ jac
        scale = np.diagonal(information, axis1=-2, axis2=-1)
        ridge = damping[:, None] * np.maximum(scale, 1e-6 * scale.max(axis=-1, keepdims=True) + 1e-9)
        # a parameter at its border that wants further out is held there
        held = ((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0))
        gradient = np.where(held, 0.0, gradient)
        step = np.linalg.solve(information + ridge[:, None, :] * eye, gradient[..., None])[..., 0]
        proposal = np.clip(theta + np.clip(np.where(held, 0.0, step), -3, 3), low, high)
        p_new, jac_new = curve.evaluate(proposal, z, t)
        value = _log_likelihood(p_new, k2, n2)
        better = value >= best
        gain = np.where(better, value - best, 0.0)
        theta = np.where(better[:, None], proposal, theta)
        p = np.where(better[:, None], p_new, p)
        jac = np.where(better[:, None, None], jac_new, jac)
        best = np.where(better, value, best)
        damping = np.clip(np.where(better, damping * 0.2, damping * 8.0), 1e-9, 1e6)
        if np.all((better & (gain < 1e-7)) | (damping >= 1e5)):
            break
    return Maximum(curve, theta.reshape(*shape[:-1], curve.size), best.reshape(shape[:-1]))


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


def region(
    curve: Curve,
    axis: Axis,
    x: Floats,
    k: Floats,
    n: Floats,
    theta: Floats,
    threshold: float,
    wanted: Callable[[Floats], Floats],
    *,
    rays: int = 40,
) -> Floats:
    """Points on the border of {θ : 2(ℓ(θ̂) - ℓ(θ)) ≤ threshold}, θ̂ first; shape (points, P).

    `wanted`: θ (r, P) → quantities (r, q), finite and smooth as far as can be; rays go along the
    directions in which each changes fastest (exact for an elliptical region), and over the whole sphere.
    """
    if threshold <= 0:
        return theta[None, :]
    z, t = axis.z(x), axis.t(x)
    low, high = curve.box(axis)
    p, jac = curve.evaluate(theta, z, t)
    p = np.clip(p, _TINY, 1 - _TINY)
    information = (jac.T * (n / (p * (1 - p)))) @ jac
    # flat directions end at the box, not at infinity
    root = np.linalg.inv(np.linalg.cholesky(information + np.diag(4.0 / (high - low) ** 2))).T
    best = float(_log_likelihood(p, k, n))

    size = curve.size
    h = 1e-4 * (high - low)
    probes = np.clip(np.concatenate([theta + np.diag(h), theta - np.diag(h)]), low, high)
    values = wanted(probes)
    slope = (values[:size] - values[size:]) @ np.eye(values.shape[1]) / (2 * h[:, None])
    along = root.T @ slope  # (P, q)
    norm = np.linalg.norm(along, axis=0)
    along = (along[:, norm > 1e-12] / norm[norm > 1e-12]).T
    unit = np.concatenate([along, -along, _directions(size, rays)])
    step = unit @ root.T  # (r, P)

    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(step > 0, (high - theta) / step, np.where(step < 0, (low - theta) / step, np.inf))
    limit = np.maximum(reach.min(axis=1), 0.0)

    def excess(radius: Floats) -> Floats:
        p = curve.evaluate(theta + radius[:, None] * step, z, t)[0]
        return np.asarray(2 * (best - _log_likelihood(p, k, n)) - threshold)

    inner = np.zeros(len(step))
    outer = np.minimum(np.sqrt(threshold), limit)
    for _ in range(12):  # grow until outside, or at the box
        inside = (excess(outer) < 0) & (outer < limit)
        if not inside.any():
            break
        inner = np.where(inside, outer, inner)
        outer = np.where(inside, np.minimum(outer * 1.7, limit), outer)
    open_ray = excess(outer) < 0
    inner = np.where(open_ray, outer, inner)
    for _ in range(9):
        middle = 0.5 * (inner + outer)
        inside = excess(middle) < 0
        inner = np.where(inside, middle, inner)
        outer = np.where(inside, outer, middle)
    return np.concatenate([theta[None, :], theta + (0.5 * (inner + outer))[:, None] * step])
