"""Robust least squares, its solver held to NIST's certified values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bunny_probe import fits
from bunny_probe.fits.curves import CURVES, Axis, Curve
from bunny_probe.fits.least_squares import least_squares_curve, refit

# NIST StRD, nonlinear regression, https://www.itl.nist.gov/div898/strd/nls/data/misra1a.shtml (lower
# difficulty), ratkowsky2.shtml and boxbod.shtml (higher difficulty): data, certified parameters, residuals.
MISRA1A = {
    "x": [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0],
    "y": [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78],
    "b": [2.3894212918e02, 5.5015643181e-04],
    "rss": 1.2455138894e-01,
}
RAT42 = {
    "x": [9.0, 14.0, 21.0, 28.0, 42.0, 57.0, 63.0, 70.0, 79.0],
    "y": [8.930, 10.800, 18.590, 22.330, 39.350, 56.110, 61.730, 64.620, 67.080],
    "b": [7.2462237576e01, 2.6180768402e00, 6.7359200066e-02],
    "rss": 8.0565229338e00,
}

BOXBOD = {
    "x": [1.0, 2.0, 3.0, 5.0, 7.0, 10.0],
    "y": [109.0, 149.0, 149.0, 191.0, 213.0, 224.0],
    "b": [2.1380940889e02, 5.4723748542e-01],
    "rss": 1.1680088766e03,
}


def _misra(theta, z, t):
    x = t  # the axis below makes t the raw x
    a, b = theta[..., 0:1], theta[..., 1:2]
    fall = np.exp(-b * x)
    return a * (1 - fall), np.stack([1 - fall, a * x * fall], axis=-1)


def _rat(theta, z, t):
    x = t
    a, b, c = (theta[..., i : i + 1] for i in range(3))
    e = np.exp(b - c * x)
    return a / (1 + e), np.stack([1 / (1 + e), -a * e / (1 + e) ** 2, a * x * e / (1 + e) ** 2], axis=-1)


@pytest.mark.parametrize(
    ("data", "evaluate", "starts"),
    [
        (MISRA1A, _misra, [[500.0, 1e-4], [250.0, 5e-4]]),
        (RAT42, _rat, [[100.0, 1.0, 0.1], [75.0, 2.5, 0.07]]),
        (BOXBOD, _misra, [[1.0, 1.0], [100.0, 0.75]]),
    ],
    ids=["Misra1a", "Rat42", "BoxBOD"],
)
def test_the_solver_reaches_the_certified_values(data, evaluate, starts):
    """Least squares reaches NIST's certified parameters to six digits and its residuals to eight."""
    size = len(data["b"])
    curve = Curve(
        name="nist", words="", size=size, evaluate=evaluate, place=0,
        box=lambda axis: (np.zeros(size), np.full(size, 1e4)),
        starts=lambda axis: np.array(starts),
        crossing=lambda theta, f, axis: np.full(theta.shape[:-1], np.inf),
        natural=lambda theta, axis: {},
    )  # fmt: skip
    axis = Axis(1e-9, 1.0 + 1e-9)  # t = x up to 1e-9
    x, y = np.array(data["x"]), np.array(data["y"])
    for start in starts:
        theta, cost = least_squares_curve(curve, axis, x, y, loss="linear", start=np.array(start))
        assert theta == pytest.approx(data["b"], rel=1e-6)
        assert 2 * cost == pytest.approx(data["rss"], rel=1e-8)


def _graded(broken: float) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = np.repeat(1024 * 2 ** np.arange(6), 40)
    score = np.clip(0.9 - 0.06 * np.log2(x / 1024) + rng.normal(0, 0.03, x.size), 0, 1)
    score = np.where(rng.random(x.size) < broken, 0.0, score)
    return pd.DataFrame({"length_tokens": x, "score": score, "cluster": np.arange(x.size), "answered": True})


def test_broken_answers_do_not_move_the_typical_score():
    """A tenth of zeros leaves the robust curve where it was, and the result says that the mean is elsewhere."""
    clean, dirty = (fits.RobustDecay(resamples=60)(_graded(b)) for b in (0.0, 0.12))
    assert dirty.curve[0].value == pytest.approx(clean.curve[0].value, abs=0.03)
    assert dirty.mean_differs
    assert not clean.mean_differs
    assert "mean lies elsewhere" in dirty.sentence()


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber"])
@pytest.mark.parametrize("name", ["constant", "power", "exponential", "logistic"])
def test_resamples_fitted_at_once_are_those_fitted_one_by_one(name, loss):
    """The batch of resamples costs no more than scipy's solver reaches from the same start, one by one."""
    frame = _graded(0.08)
    x, y = frame["length_tokens"].to_numpy(dtype=float), frame["score"].to_numpy()
    axis, curve = Axis(x.min(), x.max()), CURVES[name]
    theta, _ = least_squares_curve(curve, axis, x, y, loss=loss, scale=0.05)
    weight = np.random.default_rng(1).multinomial(x.size, np.full(x.size, 1 / x.size), 6).astype(float)
    together, _ = refit(curve, axis, x, y, weight, theta, loss, 0.05)
    for w, found in zip(weight, together, strict=True):
        times = w.astype(int)
        many_x, many_y = np.repeat(x, times), np.repeat(y, times)
        _, theirs = least_squares_curve(curve, axis, many_x, many_y, loss=loss, scale=0.05, start=theta)
        _, ours = least_squares_curve(curve, axis, many_x, many_y, loss=loss, scale=0.05, start=found)
        size = ((many_y - curve.evaluate(found, axis.z(many_x), axis.t(many_x))[0]) / 0.05) ** 2
        rho = {
            "linear": size,
            "soft_l1": 2 * (np.sqrt(1 + size) - 1),
            "huber": np.where(size > 1, 2 * np.sqrt(size) - 1, size),
        }[loss]
        cost = 0.5 * 0.05**2 * float(rho.sum())
        assert cost <= min(ours, theirs) * 1.001


def test_the_bootstrap_is_its_seed():
    """The same seed gives the same band; nothing else decides it."""
    frame = _graded(0.05)
    assert fits.RobustDecay(resamples=20, seed=3)(frame) == fits.RobustDecay(resamples=20, seed=3)(frame)
