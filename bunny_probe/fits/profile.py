"""The profile likelihood of a crossing: which windows (or half-lengths) the data allow under one curve.

Every curve is base · G(z) with G = 1 at the shortest position and G = `fraction` at the crossing w. With w as a
parameter the likelihood is maximised over all others at each w of a grid: a net first, so that no hill is
missed, then Fisher scoring; the ends of the region are bisected (Venzon and Moolgavkar 1988).
Where a cliff stands between two tested lengths the profile is flat there, and the whole gap is in the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.curves import Axis

__all__ = ["crossing_region"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Shape = Callable[[Floats, Floats, float, Axis, Floats], Floats]  # (w, u, fraction, axis, z) → G

_TINY = 1e-9
_TOP = 9.0  # logit of the largest base


def _expit(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.minimum(np.maximum(x, -40.0), 40.0))))


def _within(x: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """np.clip without its overhead, which is most of the time on arrays as small as these."""
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _power(w: Floats, u: Floats, fraction: float, axis: Axis, z: Floats) -> Floats:
    return np.asarray(np.exp(np.log(fraction) / w[..., None] * z))


def _exponential(w: Floats, u: Floats, fraction: float, axis: Axis, z: Floats) -> Floats:
    s = fraction * _expit(u[..., 0])
    rate = -np.log((fraction - s) / (1 - s)) / _t(w, axis)
    return np.asarray(s[..., None] + (1 - s[..., None]) * np.exp(-rate[..., None] * _t(z, axis)))


def _logistic(w: Floats, u: Floats, fraction: float, axis: Axis, z: Floats) -> Floats:
    s = fraction * _expit(u[..., 1])
    left = (fraction - s) / (1 - s)
    steep = -np.log(left) / w * (1 + np.exp(u[..., 0]))  # at the least steepness it is a power law to a floor
    past = steep * w
    start = (1 - left) / np.maximum(left - np.exp(-past), 1e-300)  # e^(steep·(w - midpoint))
    with np.errstate(over="ignore"):
        fall = (1 + start * np.exp(-past))[..., None] / (
            1 + start[..., None] * np.exp(_within(steep[..., None] * (z - w[..., None]), -700.0, 700.0))
        )
    return np.asarray(s[..., None] + (1 - s[..., None]) * fall)


def _piecewise(w: Floats, u: Floats, fraction: float, axis: Axis, z: Floats) -> Floats:
    knee = (w * _expit(u[..., 0]))[..., None]
    slope = (1 - fraction) / np.maximum(w[..., None] - knee, 1e-9)
    return np.asarray(np.maximum(1 - slope * np.maximum(z - knee, 0.0), 1e-3))


def _knee(w: Floats, u: Floats, fraction: float, axis: Axis, z: Floats) -> Floats:
    """The piecewise linear curve with its knee, instead of a crossing, at w."""
    return np.asarray(np.maximum(1 - np.exp(u[..., :1]) * np.maximum(z - w[..., None], 0.0), 1e-3))


def _t(z: Floats, axis: Axis) -> Floats:
    return np.asarray(axis.low * np.expm1(z) / axis.width)


_SHARES = np.array([-9.0, -3.0, -1.5, -0.5, 0.5, 1.5, 3.0, 7.0])  # of the floor in the fraction, as logits
_STEEP = np.array([-4.0, -1.5, -0.3, 0.6, 1.4, 2.2, 3.0, 3.8, 4.8, 6.5, 9.0])
# Fine in the slope: where a straight fall has reached its end the curve is flat and no step leads back, so that
# there is a hill of its own between any two lengths at which it may end.
_SHAPES: dict[str, tuple[Shape, Floats, tuple[tuple[float, float], ...]]] = {
    "power": (_power, np.zeros((1, 0)), ()),
    "exponential": (_exponential, np.linspace(-9, 9, 19)[:, None], ((-9.0, 12.0),)),
    "logistic": (
        _logistic,
        np.stack([g.ravel() for g in np.meshgrid(_STEEP, _SHARES, indexing="ij")], axis=-1),
        ((-6.0, 11.0), (-9.0, 12.0)),
    ),
    "piecewise": (
        _piecewise,
        np.array([-9.0, -2.5, -1.2, -0.5, *np.arange(0.0, 6.1, 0.25)])[:, None],
        ((-9.0, 9.0),),
    ),
    "knee": (_knee, np.log(np.geomspace(0.001, 40.0, 48))[:, None], ((-6.9, 4.1),)),
}


@dataclass(frozen=True, slots=True)
class _Profile:
    """The likelihood given w, for a batch of data sets over the same positions."""

    name: str
    fraction: float
    axis: Axis
    z: Floats  # (m,)
    k: Floats  # (b, m)
    n: Floats

    def shape(self, w: Floats, u: Floats) -> Floats:
        return _SHAPES[self.name][0](w, u, self.fraction, self.axis, self.z)

    def screen(self, w: Floats, *, block: int = 400_000) -> tuple[Floats, Floats]:
        """(u, log-likelihood) of the best net point at each w (W,) for each data set: (b, W, d) and (b, W)."""
        net = _SHAPES[self.name][1]
        g = np.clip(self.shape(w[:, None], net[None, :, :]), _TINY, 1.0)  # (W, j, m)
        log_g = np.log(g)
        picks = np.empty((self.k.shape[0], w.size), dtype=np.int64)
        values = np.empty(picks.shape)
        size = max(1, block // g.size)
        for i in range(0, self.k.shape[0], size):
            k, n = (v[i : i + size, None, None, :] for v in (self.k, self.n))
            total = k.sum(axis=-1)
            base = np.clip(total / np.maximum((n * g).sum(axis=-1), 1e-12), 0.001, 0.999)
            p = np.minimum(base[..., None] * g, 1 - 1e-6)
            slope = total - ((n - k) * p / (1 - p)).sum(axis=-1)  # of ln base
            curvature = (n * p / (1 - p)).sum(axis=-1)
            base = np.clip(base * np.exp(np.clip(slope / np.maximum(curvature, 1e-9), -1, 1)), 1e-4, 0.9999)
            p = np.minimum(base[..., None] * g, 1 - _TINY)
            value = (k * (np.log(base[..., None]) + log_g) + (n - k) * np.log1p(-p)).sum(axis=-1)
            picks[i : i + size], values[i : i + size] = value.argmax(axis=-1), value.max(axis=-1)
        return np.asarray(net[picks]), values

    def climb(self, row: Ints, w: Floats, u: Floats, *, rounds: int = 12) -> tuple[Floats, Floats]:
        """(u, log-likelihood) at the maximum over base and u, for N pairs of a data set `row` and a `w`.

        `row`, `w`: (N,); `u`: (N, d), where to start. Who has arrived is not asked again.
        """
        bounds = _SHAPES[self.name][2]
        low = np.array([-_TOP, *(b[0] for b in bounds)])
        high = np.array([_TOP, *(b[1] for b in bounds)])
        k, n = self.k[row], self.n[row]
        g = self.shape(w, u)
        base = np.clip(k.sum(axis=-1) / np.maximum((n * g).sum(axis=-1), 1e-12), 0.001, 0.999)
        theta = np.concatenate([np.log(base / (1 - base))[:, None], u], axis=-1)
        best = self._value(theta[:, 0], g, k, n)
        damping = np.full(best.shape, 1e-3)
        eye = np.eye(low.size)
        done_theta, done_best = theta.copy(), best.copy()
        left = np.arange(best.size)
        for _ in range(rounds):
            a = _expit(theta[:, :1])
            p = _within(a * g, _TINY, 1 - _TINY)
            columns = [p * (1 - a)]
            for i in range(len(bounds)):
                nudge = np.zeros(len(bounds))
                nudge[i] = 1e-5
                columns.append(a * (self.shape(w, theta[:, 1:] + nudge) - g) / 1e-5)
            jac = np.stack(columns, axis=-1)
            weight = 1 / (p * (1 - p))
            turned = jac.swapaxes(-1, -2)
            gradient = (turned @ ((k - n * p) * weight)[..., None])[..., 0]
            information = (turned * (n * weight)[:, None, :]) @ jac
            scale = np.diagonal(information, axis1=-2, axis2=-1)
            ridge = damping[:, None] * np.maximum(scale, 1e-6 * scale.max(axis=-1, keepdims=True) + 1e-9)
            held = ((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0))
            gradient = np.where(held, 0.0, gradient)
            step = np.linalg.solve(information + ridge[:, None, :] * eye, gradient[..., None])[..., 0]
            proposal = _within(theta + _within(np.where(held, 0.0, step), -2.0, 2.0), low, high)
            new = self.shape(w, proposal[:, 1:])
            value = self._value(proposal[:, 0], new, k, n)
            better = value > best
            promised = np.abs(gradient * (proposal - theta)).sum(axis=-1)
            theta = np.where(better[:, None], proposal, theta)
            g = np.where(better[:, None], new, g)
            best = np.where(better, value, best)
            damping = _within(np.where(better, damping * 0.2, damping * 8.0), 1e-9, 1e6)
            done_theta[left], done_best[left] = theta, best
            go = (promised >= 1e-3) & (damping < 1e5)
            if not go.any():
                break
            if go.mean() < 0.8:
                left, w, k, n = left[go], w[go], k[go], n[go]
                theta, g, best, damping = theta[go], g[go], best[go], damping[go]
        return done_theta[:, 1:], done_best

    @staticmethod
    def _value(eta: Floats, g: Floats, k: Floats, n: Floats) -> Floats:
        p = _within(_expit(eta)[..., None] * g, _TINY, 1 - _TINY)
        return np.asarray((k * np.log(p) + (n - k) * np.log1p(-p)).sum(axis=-1))


def crossing_region(
    name: str,
    fraction: float,
    axis: Axis,
    x: Floats,
    k: Floats,
    n: Floats,
    at: Floats,
    best: Floats,
    wall: Floats,
) -> tuple[Floats, Floats]:
    """(lowest, highest) ln(crossing / shortest) with 2(best - profile) ≤ wall; inf: beyond the longest.

    `x`: (m,); `k`, `n`: (b, m); `at`: (b,) the crossing of the maximum; `best`: (b,) its log-likelihood;
    `wall`: (b,). Raises KeyError for a curve that never crosses.
    """
    z = np.asarray(axis.z(x))
    profile = _Profile(name, fraction, axis, z, k, n)
    grid = _grid(z, axis.span)
    u, value = profile.screen(grid)
    # far below the wall nothing is gained by climbing, but around the maximum the net may be coarser than that
    climbable = 2 * wall + 30 + 6 * np.maximum(best - value.max(axis=-1), 0.0)
    place = np.arange(grid.size)
    around = np.abs(place - np.searchsorted(grid, at)[:, None]) <= 4
    around |= np.abs(place - value.argmax(axis=-1)[:, None]) <= 4
    near_row, near_w = np.nonzero(around | (2 * (best[:, None] - value) <= climbable[:, None]))
    u[near_row, near_w], value[near_row, near_w] = profile.climb(near_row, grid[near_w], u[near_row, near_w])
    best = np.maximum(best, value.max(axis=-1))
    inside = 2 * (best[:, None] - value) <= wall[:, None]
    rows = np.arange(k.shape[0])
    # the maximum itself is in the region, wherever the grid is
    peak = np.clip(at, grid[0], axis.span + 1.0)
    low = np.minimum(np.where(inside.any(axis=-1), grid[inside.argmax(axis=-1)], np.inf), peak)
    last = grid.size - 1 - inside[:, ::-1].argmax(axis=-1)
    high = np.maximum(np.where(inside.any(axis=-1), grid[last], -np.inf), peak)
    root = np.sqrt(np.maximum(2 * (best[:, None] - value), 0.0))
    out = np.stack([np.searchsorted(grid, low) - 1, np.searchsorted(grid, high, side="right")], axis=1)
    closed = (out >= 0) & (out < grid.size)
    out = np.clip(out, 0, grid.size - 1)
    inner = np.stack([low, high], axis=1)  # (b, 2): the lower and the upper end
    outer = np.where(closed, grid[out], inner)
    near = np.clip(np.searchsorted(grid, inner), 0, grid.size - 1)
    at_inner = np.where(grid[near] == inner, root[rows[:, None], near], 0.0)
    at_outer = np.where(closed, root[rows[:, None], out], at_inner)
    u_inner, u_outer = u[rows[:, None], near], u[rows[:, None], out]
    target = np.sqrt(wall)[:, None]
    for turn in range(8):
        moving = (np.abs(outer - inner) > 1e-3) & (at_outer - at_inner > 0.02 * target)
        moving &= target - at_inner > 0.01 * target
        if not moving.any():
            break
        # along a slope the root of the deviance is nearly straight; at a cliff it jumps, so halve
        share = np.clip((target - at_inner) / np.maximum(at_outer - at_inner, 1e-9), 0.1, 0.9)
        share = np.where((at_outer > 3 * target) | (turn % 3 == 2), 0.5, share)
        middle = inner + share * (outer - inner)
        # only ends that still move, from two starts each: the shape of either side
        row, end = np.nonzero(moving)
        starts = np.concatenate([u_inner[row, end], u_outer[row, end]])
        found_u, found = profile.climb(np.tile(row, 2), np.tile(middle[row, end], 2), starts, rounds=8)
        first, second = np.split(found, 2)
        best_u = np.where((first >= second)[:, None], *np.split(found_u, 2))
        depth, middle_u = at_inner.copy(), u_inner.copy()
        middle = np.where(moving, middle, inner)
        depth[row, end] = np.sqrt(np.maximum(2 * (best[row] - np.maximum(first, second)), 0.0))
        middle_u[row, end] = best_u
        within = depth <= target
        u_inner, u_outer = (
            np.where(w[..., None], middle_u, v) for w, v in ((within, u_inner), (~within, u_outer))
        )
        inner, at_inner = np.where(within, middle, inner), np.where(within, depth, at_inner)
        outer, at_outer = np.where(within, outer, middle), np.where(within, at_outer, depth)
    smooth = at_outer < 1.5 * target
    share = np.clip((target - at_inner) / np.maximum(at_outer - at_inner, 1e-9), 0.0, 1.0)
    low, high = (inner + np.where(smooth, share * (outer - inner), 0.0)).T
    low = np.where(low <= grid[0] + 1e-9, 0.0, low)
    beyond = axis.span + 1e-9
    return np.where(low > beyond, np.inf, low), np.where(high > beyond, np.inf, high)


def _grid(z: Floats, span: float) -> Floats:
    """Three crossings between any two positions, at their sides and in their middle, and some past the end."""
    each = int(np.clip(48 // max(z.size - 1, 1), 2, 4))
    shares = {2: [0.02, 0.98], 3: [0.02, 0.5, 0.98], 4: [0.02, 0.33, 0.67, 0.98]}[each]
    inner = (z[:-1, None] + np.diff(z)[:, None] * np.array(shares)).ravel()
    return np.concatenate([[min(1e-3, inner[0] / 2)], inner, [span], span + np.array([0.05, 0.35, 1.0])])
