from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from bunny_probe.fits.curves import CURVES, Axis
from bunny_probe.fits.ensemble import fit_curves
from bunny_probe.fits.likelihood import extremes, maximise, saturated
from bunny_probe.fits.proportions import critical, wilson

AXIS = Axis(1024.0, 131072.0)
X = np.geomspace(AXIS.low, AXIS.high, 8)


@pytest.mark.parametrize("name", CURVES)
@given(shares=st.lists(st.floats(0.05, 0.95), min_size=4, max_size=4))
@settings(max_examples=30, deadline=None)
def test_derivatives_are_those_of_the_curve(name, shares):
    """The analytic derivative equals the central difference everywhere in the box."""
    curve = CURVES[name]
    low, high = curve.box(AXIS)
    theta = low + (high - low) * np.array(shares[: curve.size])
    value, jac = curve.evaluate(theta, AXIS.z(X), AXIS.t(X))
    assert np.all((value >= 0) & (value <= 1))
    knee = np.abs(AXIS.z(X) - theta[1]) < 1e-4 if name == "piecewise" else np.zeros(X.size, dtype=bool)
    for i in range(curve.size):
        h = np.zeros(curve.size)
        h[i] = 1e-6
        up, down = (curve.evaluate(theta + s * h, AXIS.z(X), AXIS.t(X))[0] for s in (1, -1))
        edge = np.abs(value - value[0] * 1e-3) < 1e-4 if name == "piecewise" else np.zeros(X.size, dtype=bool)
        np.testing.assert_allclose(((up - down) / 2e-6)[~knee & ~edge], jac[~knee & ~edge, i], atol=2e-5)


@pytest.mark.parametrize("name", [n for n in CURVES if n != "constant"])
@given(shares=st.lists(st.floats(0.3, 0.7), min_size=4, max_size=4), fraction=st.floats(0.3, 0.95))
@settings(max_examples=30, deadline=None)
def test_a_crossing_is_where_the_fraction_is_left(name, shares, fraction):
    """At the crossing the curve is at the fraction of its value at the shortest length."""
    curve = CURVES[name]
    low, high = curve.box(AXIS)
    theta = low + (high - low) * np.array(shares[: curve.size])
    x = float(curve.crossing(theta, fraction, AXIS))
    if not np.isfinite(x) or not AXIS.low <= x <= AXIS.high:
        return
    at, base = (float(curve.evaluate(theta, AXIS.z([v]), AXIS.t([v]))[0][0]) for v in (x, AXIS.low))
    assert at == pytest.approx(fraction * base, rel=1e-4)


@pytest.mark.parametrize("name", CURVES)
def test_the_maximum_is_global(name):
    """No start of a general optimiser finds a likelihood above ours by more than a hair."""
    rng = np.random.default_rng(3)
    curve = CURVES[name]
    low, high = curve.box(AXIS)
    n = np.full(X.size, 20.0)
    for truth in (0.9 / (1 + (X / 30000) ** 2), np.full(X.size, 0.95), np.where(X < 40000, 0.9, 0.1)):
        k = rng.binomial(20, truth).astype(float)
        found = float(maximise(curve, AXIS, X, k, n).log_likelihood)

        def loss(theta, k=k):
            p = np.clip(curve.evaluate(theta, AXIS.z(X), AXIS.t(X))[0], 1e-9, 1 - 1e-9)
            return -float((k * np.log(p) + (n - k) * np.log1p(-p)).sum())

        starts = curve.starts(AXIS)
        starts = starts[rng.choice(len(starts), min(4, len(starts)), replace=False)]
        other = -min(
            minimize(loss, s, bounds=list(zip(low, high, strict=True)), method="L-BFGS-B").fun for s in starts
        )
        assert found >= other - 0.15
        assert found <= float(saturated(k, n)) + 1e-9


def test_a_batch_is_the_same_as_one_by_one():
    """Fitting many data sets at once changes none of them."""
    rng = np.random.default_rng(1)
    k = rng.binomial(20, np.broadcast_to(0.9 / (1 + X / 40000), (5, X.size))).astype(float)
    n = np.full_like(k, 20.0)
    curve = CURVES["logistic"]
    together = maximise(curve, AXIS, X, k, n)
    for i in range(5):
        alone = maximise(curve, AXIS, X, k[i], n[i])
        assert float(alone.log_likelihood) == pytest.approx(float(together.log_likelihood[i]), abs=1e-3)


def test_the_projection_of_a_constant_is_its_likelihood_ratio_interval():
    """For one share the region's ends solve 2(l - l_max) = threshold exactly."""
    from scipy.optimize import brentq

    k, n = np.array([17.0, 18.0]), np.array([20.0, 20.0])
    x, axis = np.array([1024.0, 2048.0]), Axis(1024.0, 2048.0)
    curve = CURVES["constant"]
    best = maximise(curve, axis, x, k, n)
    wall = critical(0.95) ** 2
    low, high = extremes(
        curve, axis, x, k, n, best.theta, wall, lambda th: curve.evaluate(th, np.zeros(1), np.zeros(1))[0]
    )

    def excess(p):
        ll = 35 * np.log(p) + 5 * np.log1p(-p)
        return 2 * (35 * np.log(0.875) + 5 * np.log(0.125) - ll) - wall

    assert float(low[0]) == pytest.approx(brentq(excess, 0.5, 0.875), abs=1e-3)
    assert float(high[0]) == pytest.approx(brentq(excess, 0.875, 0.999), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("logistic", [19, 18, 19, 17, 14, 9, 4, 2]),
        ("logistic", [18, 19, 18, 20, 18, 17, 2, 0]),
        ("exponential", [19, 18, 19, 17, 14, 9, 4, 2]),
        ("piecewise", [20, 20, 19, 17, 14, 9, 4, 2]),
        ("power", [19, 18, 15, 14, 12, 11, 10, 9]),
        ("exponential", [20, 20, 20, 20, 20, 20, 19, 20]),
    ],
)
def test_profile_intervals_reach_what_a_random_search_reaches(name, k):
    """Window, half-length and values: no θ of the region is outside, and the ends are near."""
    k, n = np.array(k, dtype=float), np.full(8, 20.0)
    ensemble = fit_curves(X, k, n, level=0.95, size=160, models=(name,))
    curve, best, axis = CURVES[name], ensemble.chosen, ensemble.axis
    box_low, box_high = curve.box(axis)
    rng = np.random.default_rng(0)
    wall = float(ensemble.thresholds.max())

    def inside(theta):
        p = np.clip(curve.evaluate(theta, axis.z(X), axis.t(X))[0], 1e-9, 1 - 1e-9)
        ll = (k * np.log(p) + (n - k) * np.log1p(-p)).sum(axis=1)
        return theta[2 * (float(best.log_likelihood) - ll) <= wall]

    wide = rng.uniform(box_low, box_high, size=(25_000, curve.size))
    spread = np.minimum((box_high - box_low) / 4, 1.5)
    near = rng.normal(best.theta, spread * rng.choice([0.1, 0.3, 1.0], (25_000, 1)), size=(25_000, curve.size))
    found = inside(np.clip(np.concatenate([wide, near, best.theta[None, :]]), box_low, box_high))
    for scale in (0.3, 0.1):  # walk on from what was found
        steps = rng.normal(0, scale * spread, size=(25_000, curve.size))
        found = np.concatenate(
            [found, inside(np.clip(found[rng.integers(0, len(found), 25_000)] + steps, box_low, box_high))]
        )
    for fraction in (0.85, 0.5):
        low, high = (float(v) for v in ensemble.crossings(fraction))
        seen = np.log(curve.crossing(found, fraction, axis))
        seen = np.where(seen > np.log(axis.high), np.inf, seen)
        assert low <= seen.min() + 0.01
        assert high >= seen.max() - 0.01
        assert high == np.inf or high <= seen.max() + 0.35
        assert low == np.inf or low >= min(seen.min() - 0.35, np.log(axis.low))
    low, high = ensemble.values(X)
    seen = curve.evaluate(found, axis.z(X), axis.t(X))[0]
    assert np.all(low <= seen.min(axis=0) + 6e-3)
    assert np.all(high >= seen.max(axis=0) - 6e-3)
    assert np.all(high <= seen.max(axis=0) + 0.12)
    assert np.all(low >= seen.min(axis=0) - 0.12)


def test_the_knee_of_a_steep_fall_is_not_lost_where_the_curve_is_flat_again():
    """Past the end of its fall the curve is flat and shows no way back: what is as likely stays in."""
    k, n = np.array([96.0, 95, 96, 93, 61, 29, 7, 0]), np.full(8, 100.0)
    ensemble = fit_curves(X, k, n, level=0.95, size=800)
    low, high = (float(v) for v in ensemble.knee())
    z = AXIS.z(X)
    base, slope = np.meshgrid(np.linspace(0.9, 0.99, 60), np.geomspace(0.3, 0.6, 120), indexing="ij")

    def best_at(knee):
        share = np.maximum(1 - slope[..., None] * np.maximum(z - np.log(knee / AXIS.low), 0), 1e-3)
        p = base[..., None] * share
        return float((k * np.log(p) + (n - k) * np.log1p(-p)).sum(axis=-1).max())

    top = float(ensemble.only("piecewise").chosen.log_likelihood)
    allowed = [knee for knee in np.geomspace(5000, 11_000, 40) if 2 * (top - best_at(knee)) < 3.84]
    assert low <= np.log(min(allowed))
    assert high >= np.log(max(allowed))
    assert np.log(8192) <= high


def _band(shares, documents):
    k = np.round(documents * np.array(shares))
    return fit_curves(X, k, np.full(8, float(documents)), level=0.95, size=8 * documents)


def test_a_dip_that_recovers_is_in_the_band():
    """No curve rises, so where the cells do the band takes in what they say, and says that it does."""
    dip = _band([0.9, 0.9, 0.85, 0.6, 0.6, 0.85, 0.9, 0.9], 40)
    low, high = dip.values(X)
    assert dip.lead > 2
    assert high[-1] > 0.9
    assert low[3] < 0.6
    assert np.all(high - low < 0.5)  # and it still says something


def test_the_cells_add_nothing_where_a_curve_describes_them():
    """On a fall that the curves know the band is theirs: the cells' share of it shrinks to nothing."""
    fall = _band([0.95, 0.94, 0.9, 0.82, 0.68, 0.5, 0.3, 0.17], 40)
    low, high = fall.values(X)
    assert fall.lead < -4
    alone = fall.only("logistic").values(X)
    assert np.all(low <= alone[0] + 0.02)
    cells = wilson(fall.k, fall.n)
    assert np.all((high - low)[2:-2] < (cells[1] - cells[0])[2:-2])
