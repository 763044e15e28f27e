"""The profile likelihood of a curve's value: how high and how low it can be at a position.

The highest value that the data allow lies on the path of maxima of ℓ(θ) + c·ln p(θ), c ≥ 0, and the lowest on
that of ℓ(θ) + c·ln(1 - p(θ)): Lagrange's condition for an extreme of p on the border of a likelihood region.
Such a maximum is a fit with c trials added at that position, all hits or all misses. The first of them also
start from a net, because the path may lead over to another hill.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.curves import Axis
from bunny_probe.fits.likelihood import Maximum, climb, log_likelihood, net_of

__all__ = ["value_region"]

Floats = npt.NDArray[np.float64]

_TINY = 1e-9


def value_region(
    maximum: Maximum, axis: Axis, x: Floats, k: Floats, n: Floats, wall: Floats, at: Floats
) -> tuple[Floats, Floats]:
    """(lowest, highest) of the curve at each position of `at` (q,) with 2(ℓ(θ̂) - ℓ(θ)) ≤ wall: (b, q) each.

    `x`: (m,); `k`, `n`: (b, m); `wall`: (b,). What the search cannot bracket ends where it got to, inside.
    """
    curve, q = maximum.curve, at.size
    z, t = axis.z(at), axis.t(at)
    p, jac = curve.evaluate(maximum.theta, axis.z(x), axis.t(x))
    p = np.clip(p, _TINY, 1 - _TINY)
    low, high = curve.box(axis)
    information = (jac.swapaxes(-1, -2) * (n / (p * (1 - p)))[..., None, :]) @ jac + np.diag(
        4 / (high - low) ** 2
    )
    here, slope = curve.evaluate(maximum.theta, z, t)
    here = np.clip(here, 1e-6, 1 - 1e-6)
    slope = slope / (here * (1 - here))[..., None]  # of the logit
    spread = np.sqrt(
        np.einsum("...qi,...qi->...q", slope, np.linalg.solve(information[:, None], slope[..., None])[..., 0])
    )
    target = np.sqrt(np.maximum(wall, 0.0))[:, None, None]
    lever = np.stack([here, 1 - here], axis=-1)  # misses pull with p, hits with 1 - p
    c = np.clip(target / np.maximum(spread[..., None] * lever, 1e-6), 1e-3, 1e7)

    shape = (*here.shape, 2)
    zz, tt = (
        np.concatenate([np.broadcast_to(v, (q, 1, x.size)), u[:, None, None]], axis=-1)
        for v, u in ((axis.z(x), z), (axis.t(x), t))
    )
    best = maximum.log_likelihood[:, None, None]
    kk, nn = (
        np.concatenate([np.broadcast_to(v[:, None, None, :], (*shape, x.size)), np.zeros((*shape, 1))], axis=-1)
        for v in (k, n)
    )
    net, _, log_p, log_q = net_of(curve.name, axis, (*x.tolist(), *at.tolist()))
    plain = k @ log_p[:, : x.size].T + (n - k) @ log_q[:, : x.size].T  # (b, net)
    pull = np.stack([log_q[:, x.size :].T, log_p[:, x.size :].T], axis=1)  # (q, 2, net)
    sign = np.array([0.0, 1.0])

    def depth_of(value: Floats) -> Floats:
        left = log_likelihood(value[..., :-1], kk[..., :-1], nn[..., :-1])
        return np.asarray(np.sqrt(np.maximum(2 * (best - left), 0.0)))

    theta = outside = np.broadcast_to(maximum.theta[:, None, None, :], (*shape, curve.size))
    inner = _Ends(np.zeros(shape), np.zeros(shape))
    outer = _Ends(np.full(shape, np.inf), np.full(shape, np.inf))
    for turn in range(6):
        kk[..., -1], nn[..., -1] = c * sign, c
        moved, reach = climb(curve, axis, zz, tt, theta, kk, nn, rounds=8)
        if turn < 2 and curve.size > 1:
            pick = (plain[:, None, None, :] + c[..., None] * pull).argmax(axis=-1)
            other, other_reach = climb(curve, axis, zz, tt, net[pick], kk, nn, rounds=12)
            moved = np.where((other_reach > reach + 1e-3)[..., None], other, moved)
        depth = depth_of(curve.evaluate(moved, zz, tt)[0])
        now = _Ends(c, depth)
        within = depth <= target
        theta, outside = (np.where(w[..., None], moved, v) for w, v in ((within, theta), (~within, outside)))
        inner, outer = inner.replaced(now, within), outer.replaced(now, ~within)
        bracketed = np.isfinite(outer.c)
        if np.all(
            (target - inner.depth < 0.01 * target) | (bracketed & (outer.depth - inner.depth < 0.05 * target))
        ):
            break
        grown = c * np.clip(1.05 * target / np.maximum(depth, 1e-9), 1.3, 20.0)
        share = np.clip((target - inner.depth) / np.maximum(outer.depth - inner.depth, 1e-9), 0.1, 0.9)
        between = inner.c + share * (np.where(bracketed, outer.c, 0.0) - inner.c)
        c = np.clip(np.where(bracketed, between, grown), 1e-6, 1e9)
    # the last step straight from inside to outside: where the path jumps, it still ends in the region
    gone, far = np.zeros(shape), np.ones(shape)
    outside = np.where(np.isfinite(outer.c)[..., None], outside, theta)
    for turn in range(6):
        share = 0.5 * (gone + far)
        if turn == 0:
            share = np.clip((target - inner.depth) / np.maximum(outer.depth - inner.depth, 1e-9), 0.0, 1.0)
        within = depth_of(curve.evaluate(theta + share[..., None] * (outside - theta), zz, tt)[0]) <= target
        gone, far = np.where(within, share, gone), np.where(within, far, share)
    out = curve.evaluate(theta + gone[..., None] * (outside - theta), zz, tt)[0][..., -1]
    return np.asarray(out[..., 0]), np.asarray(out[..., 1])


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where a path stands: the trials added, and the root of the deviance there."""

    c: Floats
    depth: Floats

    def replaced(self, new: _Ends, where: npt.NDArray[np.bool_]) -> _Ends:
        return _Ends(np.where(where, new.c, self.c), np.where(where, new.depth, self.depth))
