"""Least squares of a curve on scores, with losses that mistrust outliers: one fit, or many at once."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.curves import Axis, Curve

__all__ = ["Loss", "least_squares_curve", "nearest_starts", "refit"]

Floats = npt.NDArray[np.float64]
Loss = Literal["linear", "soft_l1", "huber"]


def least_squares_curve(
    curve: Curve,
    axis: Axis,
    x: Floats,
    y: Floats,
    *,
    loss: Loss = "soft_l1",
    scale: float = 0.1,
    starts: int = 4,
    start: Floats | None = None,
) -> tuple[Floats, float]:
    """(θ, cost) of the curve that minimises Σ ρ((y - p)²/scale²)·scale²/2 (scipy's trust-region solver,
    analytic derivative), from the best `starts` of the curve's net, or from `start` alone.
    """  # fmt: skip
    from scipy.optimize import least_squares

    z, t = axis.z(x), axis.t(x)
    low, high = curve.box(axis)
    candidates = nearest_starts(curve, axis, x, y, starts) if start is None else start[None, :]
    best: tuple[Floats, float] | None = None
    inside = 1e-9 * (high - low)

    def residual(theta: Floats) -> Floats:
        return np.asarray(curve.evaluate(theta, z, t)[0] - y)

    def slope(theta: Floats) -> Floats:
        return np.asarray(curve.evaluate(theta, z, t)[1])

    for theta in candidates:
        found: Any = least_squares(
            residual, np.clip(theta, low + inside, high - inside), jac=slope, bounds=(low, high), loss=loss,
            f_scale=scale, x_scale="jac", xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=400,
        )  # fmt: skip
        if best is None or float(found.cost) < best[1]:
            best = np.asarray(found.x), float(found.cost)
    assert best is not None
    return best


def nearest_starts(curve: Curve, axis: Axis, x: Floats, y: Floats, count: int) -> Floats:
    """The points of the curve's net with the smallest squares, (count, P)."""
    at, code, n = np.unique(x, return_inverse=True, return_counts=True)
    mean = np.bincount(code, weights=y) / n
    net = curve.starts(axis)
    error = ((curve.evaluate(net, axis.z(at), axis.t(at))[0] - mean) ** 2 * n).sum(axis=-1)
    return np.asarray(net[np.argsort(error)[:count]])


def refit(
    curve: Curve, axis: Axis, x: Floats, y: Floats, weight: Floats, theta: Floats, loss: Loss, scale: float
) -> tuple[Floats, Floats]:
    """(θ, cost) for each row of `weight` (r, n), from `theta` (P,) or a start each (r, P).

    Gauss and Newton's steps with Levenberg's damping on the reweighted squares, for all resamples at once: the
    minimum that `least_squares_curve` finds one by one.
    """
    order = np.argsort(x, kind="stable")
    at, start = np.unique(x[order], return_index=True)
    y, weight = y[order], weight[:, order]
    code = np.repeat(np.arange(at.size), np.diff([*start, x.size]))
    z, t = axis.z(at), axis.t(at)
    low, high = curve.box(axis)
    eye = np.eye(curve.size)

    def parts(theta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Cost, derivative, and by position the sums of weights and of weighted residuals."""
        p, jac = curve.evaluate(theta, z, t)
        residual = y - p[:, code]
        size = (residual / scale) ** 2
        if loss == "soft_l1":
            cost, factor = 2 * (np.sqrt(1 + size) - 1), 1 / np.sqrt(1 + size)
        elif loss == "huber":
            root = np.sqrt(np.maximum(size, 1.0))
            cost, factor = np.where(size > 1, 2 * root - 1, size), 1 / root
        else:
            cost, factor = size, np.ones(size.shape)
        factor = factor * weight
        sums = np.add.reduceat(factor, start, axis=1), np.add.reduceat(factor * residual, start, axis=1)
        return (cost * weight).sum(axis=1), jac, *sums

    theta = np.broadcast_to(theta, (len(weight), curve.size))
    cost, jac, total, pull = parts(theta)
    damping = np.full(len(weight), 1e-3)
    for _ in range(60):
        turned = jac.swapaxes(-1, -2)
        gradient = (turned @ pull[..., None])[..., 0]
        held = ((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0))
        gradient = np.where(held, 0.0, gradient)
        normal = (turned * total[:, None, :]) @ jac
        scaling = np.diagonal(normal, axis1=-2, axis2=-1)
        ridge = damping[:, None] * np.maximum(scaling, 1e-9 * scaling.max(axis=-1, keepdims=True) + 1e-12)
        step = np.linalg.solve(normal + ridge[:, None, :] * eye, gradient[..., None])[..., 0]
        proposal = np.clip(theta + np.clip(np.where(held, 0.0, step), -2, 2), low, high)
        new = parts(proposal)
        better = new[0] <= cost
        theta = np.where(better[:, None], proposal, theta)
        gained = np.where(better, cost - new[0], 0.0)
        cost = np.where(better, new[0], cost)
        jac = np.where(better[:, None, None], new[1], jac)
        total, pull = (np.where(better[:, None], a, b) for a, b in ((new[2], total), (new[3], pull)))
        damping = np.clip(np.where(better, damping * 0.3, damping * 8.0), 1e-9, 1e8)
        if np.all((better & (gained <= 1e-7 * cost)) | (damping >= 1e7)):
            break
    return theta, 0.5 * scale**2 * cost
