"""The five shapes of decay: value, derivative and crossing of each, in parameters without borders.

Inside, a curve sees positions x as `z = ln(x / lowest)` and `t = (x - lowest) / (highest - lowest)`, and its
parameters θ are logits and logarithms within a box, so that Newton steps cannot leave the curve's domain.
All arrays broadcast over leading dimensions: θ is (..., P), values are (..., n), derivatives (..., n, P).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CURVES", "Axis", "Curve"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axis:
    """The probed range of positions, in tokens."""

    low: float
    high: float

    def z(self, x: npt.ArrayLike) -> Floats:
        return np.asarray(np.log(np.maximum(np.asarray(x, dtype=float), 1e-12) / self.low))

    def t(self, x: npt.ArrayLike) -> Floats:
        return np.asarray((np.asarray(x, dtype=float) - self.low) / self.width)

    @property
    def width(self) -> float:
        return max(self.high - self.low, 1e-12)

    @property
    def span(self) -> float:
        return float(np.log(self.high / self.low))


Both = tuple[Floats, Floats]  # value, derivative


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    words: str  # for people
    size: int  # number of parameters
    evaluate: Callable[[Floats, Floats, Floats], Both]  # (θ, z, t) → value, derivative
    box: Callable[[Axis], tuple[Floats, Floats]]  # lowest and highest θ
    starts: Callable[[Axis], Floats]  # a coarse net of θ, one a row
    place: int  # the parameter along which local maxima line up: the search keeps several of its values
    crossing: Callable[[Floats, float, Axis], Floats]  # (θ, fraction of the value at lowest x, axis) → x or inf
    natural: Callable[[Floats, Axis], dict[str, float]]  # θ → parameters with units


def _expit(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.minimum(np.maximum(x, -40.0), 40.0))))


def _logit(p: npt.ArrayLike) -> Floats:
    p = np.asarray(p, dtype=float)
    return np.asarray(np.log(p / (1 - p)), dtype=float)


def _col(theta: Floats, i: int) -> Floats:
    return np.asarray(theta[..., i : i + 1])


def _net(*axes: npt.ArrayLike) -> Floats:
    grid = np.meshgrid(*[np.asarray(a, dtype=float) for a in axes], indexing="ij")
    return np.stack([g.ravel() for g in grid], axis=-1)


_LEVELS = _logit([0.02, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97, 0.995])
_FEW_LEVELS = _logit([0.05, 0.15, 0.3, 0.5, 0.7, 0.83, 0.92, 0.98])
_FLOORS = _logit([0.002, 0.1, 0.3, 0.6, 0.85])


# ── constant ────────────────────────────────────────────────────────────────────────────────────────


def _constant(theta: Floats, z: Floats, t: Floats) -> Both:
    a = _expit(_col(theta, 0)) * np.ones_like(z)
    return a, (a * (1 - a))[..., None]


# ── power: a·(x/lowest)^-b ──────────────────────────────────────────────────────────────────────────


def _power(theta: Floats, z: Floats, t: Floats) -> Both:
    a, b = _expit(_col(theta, 0)), np.exp(_col(theta, 1))
    fall = np.exp(-b * z)
    p = a * fall
    return p, np.stack([p * (1 - a), -p * b * z], axis=-1)


# ── exponential with floor: c + (a - c)·e^(-λt) ─────────────────────────────────────────────────────


def _exponential(theta: Floats, z: Floats, t: Floats) -> Both:
    a, s, rate = _expit(_col(theta, 0)), _expit(_col(theta, 1)), np.exp(_col(theta, 2))
    fall = np.exp(-rate * t)
    share = s + (1 - s) * fall
    p = a * share
    return p, np.stack([p * (1 - a), a * s * (1 - s) * (1 - fall), -a * (1 - s) * fall * rate * t], axis=-1)


# ── logistic in log-length: c + (a - c)/(1 + e^(s(z - m))) ──────────────────────────────────────────


def _logistic(theta: Floats, z: Floats, t: Floats) -> Both:
    a, steep, middle, s = _expit(_col(theta, 0)), np.exp(_col(theta, 1)), _col(theta, 2), _expit(_col(theta, 3))
    g = _expit(-steep * (z - middle))
    share = s + (1 - s) * g
    p = a * share
    dg = a * (1 - s) * g * (1 - g)
    return p, np.stack(
        [p * (1 - a), -dg * steep * (z - middle), dg * steep, a * s * (1 - s) * (1 - g)], axis=-1
    )


# ── piecewise linear in log-length: a up to the knee, then a straight fall ──────────────────────────


def _piecewise(theta: Floats, z: Floats, t: Floats) -> Both:
    a, knee, b = _expit(_col(theta, 0)), _col(theta, 1), np.exp(_col(theta, 2))
    past = z > knee
    share = 1 - b * np.where(past, z - knee, 0.0)
    live = share > 1e-3
    share = np.where(live, share, 1e-3)
    p = a * share
    moving = past & live
    return p, np.stack(
        [p * (1 - a), np.where(moving, a * b, 0.0), np.where(moving, -a * b * (z - knee), 0.0)], axis=-1
    )


# ── boxes, nets, crossings, natural parameters ──────────────────────────────────────────────────────

_TOP = 9.0  # logit of the largest level
_LOG_RATE = (np.log(1e-4), np.log(400.0))


def _box(*sides: tuple[float, float]) -> tuple[Floats, Floats]:
    low, high = zip(*sides, strict=True)
    return np.array(low, dtype=float), np.array(high, dtype=float)


def _beyond(x: Floats, axis: Axis) -> Floats:
    return np.where(np.isfinite(x), x, np.inf)


def _power_crossing(theta: Floats, fraction: float, axis: Axis) -> Floats:
    z = -np.log(fraction) / np.exp(theta[..., 1])
    return np.asarray(axis.low * np.exp(np.minimum(z, 700.0)))


def _exponential_crossing(theta: Floats, fraction: float, axis: Axis) -> Floats:
    s, rate = _expit(theta[..., 1]), np.exp(theta[..., 2])
    left = (fraction - s) / (1 - s)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(left > 0, -np.log(np.maximum(left, 1e-300)) / rate, np.inf)
    return np.asarray(axis.low + t * axis.width)


def _logistic_crossing(theta: Floats, fraction: float, axis: Axis) -> Floats:
    steep, middle, s = np.exp(theta[..., 1]), theta[..., 2], _expit(theta[..., 3])
    start = s + (1 - s) * _expit(steep * middle)
    left = (fraction * start - s) / (1 - s)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = np.where(left > 0, middle + np.log(1 / np.maximum(left, 1e-300) - 1) / steep, np.inf)
        return np.asarray(axis.low * np.exp(np.minimum(z, 700.0)))


def _piecewise_crossing(theta: Floats, fraction: float, axis: Axis) -> Floats:
    z = theta[..., 1] + (1 - fraction) / np.exp(theta[..., 2])
    return np.asarray(axis.low * np.exp(np.minimum(z, 700.0)))


CURVES: dict[str, Curve] = {
    "constant": Curve(
        name="constant",
        words="no decay",
        size=1,
        evaluate=_constant,
        box=lambda axis: _box((-_TOP, _TOP)),
        starts=lambda axis: _net(_LEVELS),
        place=0,
        crossing=lambda theta, fraction, axis: np.full(theta.shape[:-1], np.inf),
        natural=lambda theta, axis: {"level": float(_expit(theta[0]))},
    ),
    "exponential": Curve(
        name="exponential",
        words="an exponential fall to a floor",
        size=3,
        evaluate=_exponential,
        box=lambda axis: _box((-_TOP, _TOP), (-_TOP, _TOP), _LOG_RATE),
        starts=lambda axis: _net(_FEW_LEVELS, _FLOORS, np.log([0.1, 0.3, 0.7, 1.5, 3, 6, 12, 30, 80])),
        place=2,
        crossing=_exponential_crossing,
        natural=lambda theta, axis: {
            "base": float(_expit(theta[0])),
            "floor": float(_expit(theta[0]) * _expit(theta[1])),
            "rate_per_token": float(np.exp(theta[2]) / axis.width),
        },
    ),
    "logistic": Curve(
        name="logistic",
        words="a logistic fall in log-length",
        size=4,
        evaluate=_logistic,
        box=lambda axis: _box(
            (-_TOP, _TOP), (np.log(0.3), np.log(600.0)), (-0.5, axis.span + 1.0), (-_TOP, _TOP)
        ),
        starts=lambda axis: _net(
            _FEW_LEVELS,
            np.log([1.0, 2.5, 7.0, 30.0, 150.0]),
            np.linspace(0.03, 1.05, 14) * axis.span,
            _FLOORS[:4],
        ),
        place=2,
        crossing=_logistic_crossing,
        natural=lambda theta, axis: {
            "top": float(_expit(theta[0])),
            "floor": float(_expit(theta[0]) * _expit(theta[3])),
            "midpoint_tokens": float(axis.low * np.exp(theta[2])),
            "steepness_per_doubling": float(np.exp(theta[1]) * np.log(2)),
        },
    ),
    "power": Curve(
        name="power",
        words="a power law",
        size=2,
        evaluate=_power,
        box=lambda axis: _box((-_TOP, _TOP), _LOG_RATE),
        starts=lambda axis: _net(_LEVELS, np.log([0.01, 0.03, 0.06, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 6.0])),
        place=1,
        crossing=_power_crossing,
        natural=lambda theta, axis: {"base": float(_expit(theta[0])), "exponent": float(np.exp(theta[1]))},
    ),
    "piecewise": Curve(
        name="piecewise",
        words="a level with a knee",
        size=3,
        evaluate=_piecewise,
        box=lambda axis: _box((-_TOP, _TOP), (0.0, axis.span), (np.log(1e-3), np.log(60.0))),
        starts=lambda axis: _net(
            _FEW_LEVELS, np.linspace(0.0, 0.95, 12) * axis.span, np.log([0.05, 0.12, 0.25, 0.5, 1.0, 2.5, 8.0])
        ),
        place=1,
        crossing=_piecewise_crossing,
        natural=lambda theta, axis: {
            "base": float(_expit(theta[0])),
            "knee_tokens": float(axis.low * np.exp(theta[1])),
            "loss_per_doubling": float(_expit(theta[0]) * np.exp(theta[2]) * np.log(2)),
        },
    ),
}
