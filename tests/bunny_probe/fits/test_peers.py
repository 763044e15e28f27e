"""Our numbers against statsmodels', scipy's and published ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from bunny_probe import fits
from bunny_probe.fits.compare import adjusted
from bunny_probe.fits.entropy_bounds import token_entropy_bounds
from bunny_probe.fits.means import cluster_mean, cluster_slope
from bunny_probe.fits.paired import paired_difference, paired_ratio
from bunny_probe.fits.proportions import mover_difference, quantile_ranks, wilson

# NIST StRD, linear regression, data set "Norris" (y, x) with its certified slope,
# https://www.itl.nist.gov/div898/strd/lls/data/Norris.shtml
NORRIS = """0.1 0.2 338.8 337.4 118.1 118.2 888.0 884.6 9.2 10.1 228.1 226.5 668.5 666.3 998.5 996.3 449.1 448.6
778.9 777.0 559.2 558.2 0.3 0.4 0.1 0.6 778.1 775.5 668.8 666.9 339.3 338.0 448.9 447.5 10.8 11.6 557.7 556.0
228.3 228.1 998.0 995.8 888.8 887.6 119.6 120.2 0.3 0.3 0.6 0.3 557.6 556.8 339.3 339.1 888.0 887.2 998.5 999.0
778.9 779.0 10.2 11.1 117.6 118.3 228.9 229.2 668.4 669.1 449.2 448.9 0.2 0.5"""
NORRIS_SLOPE = 1.00211681802045


def test_the_slope_is_the_certified_one():
    """Least squares reproduces NIST's certified slope to eleven digits."""
    y, x = np.array(NORRIS.split(), dtype=float).reshape(-1, 2).T
    found = cluster_slope(x, y, np.arange(x.size), 0.95)
    assert found is not None
    assert found[0] == pytest.approx(NORRIS_SLOPE, rel=1e-11)


@pytest.mark.parametrize(
    ("name", "base", "digits"), [("NumAcc3", 1_000_000.2, 9), ("NumAcc4", 10_000_000.2, 8)]
)
def test_means_and_their_errors_are_the_certified_ones(name, base, digits):
    """NIST StRD, univariate, NumAcc3 and 4: base, then ±0.1 in turn; certified mean, deviation 0.1."""
    value = np.concatenate([[base], np.tile([base - 0.1, base + 0.1], 500)])
    mean, low, high, documents = cluster_mean(value, np.arange(value.size), 0.95)
    assert documents == 1001
    assert mean == pytest.approx(base, rel=1e-14)
    half = stats.t.ppf(0.975, 1000) * 0.1 / np.sqrt(1001)
    assert (high - low) / 2 == pytest.approx(half, rel=10.0 ** (1 - digits))


def test_the_interval_of_a_mean_leans_where_the_tail_is():
    """Without skewness it is Student's; with a long right tail it reaches further up and covers."""
    even = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    mean, low, high, _ = cluster_mean(even, np.arange(5), 0.95)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 4, mean, stats.sem(even)), rel=1e-9)
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        _, low, high, _ = cluster_mean(rng.gamma(0.5, 2.0, 12), np.arange(12), 0.95)
        held += low <= 1.0 <= high
    assert 0.91 <= held / 1000 <= 0.97  # Student's covers 0.87 of these


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 7), (7, 7), (83, 100), (1, 1000)])
def test_wilson_is_statsmodels(k, n):
    """Wilson's interval equals statsmodels'."""
    low, high = wilson(k, n)
    expected = proportion_confint(k, n, method="wilson")
    assert float(low) == pytest.approx(expected[0], abs=1e-12)
    assert float(high) == pytest.approx(expected[1], abs=1e-12)


def test_the_difference_of_shares_is_newcombes():
    """Without correlation MOVER is Newcombe's interval as statsmodels computes it."""
    one, two = (float(v) for v in wilson(56, 70)), (float(v) for v in wilson(48, 80))
    low, high = mover_difference((56 / 70, *one), (48 / 80, *two))
    expected = confint_proportions_2indep(56, 70, 48, 80, method="newcomb", compare="diff")
    assert (low, high) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("method", ["holm", "bh"])
def test_corrections_are_statsmodels(method):
    """Holm's and Benjamini and Hochberg's corrections equal statsmodels'."""
    p = [0.001, 0.04, 0.03, 0.2, 0.9, 0.011, 0.04]
    expected = multipletests(p, method={"holm": "holm", "bh": "fdr_bh"}[method])[1]
    assert adjusted(p, method) == pytest.approx(expected, abs=1e-12)


def test_single_hits_are_tested_by_exact_mcnemar():
    """The sign-flip p of paired single hits is the exact McNemar p."""
    delta = np.array([1.0] * 4 + [-1.0] * 13 + [0.0] * 40)
    found = paired_difference(delta, np.arange(delta.size))
    expected = mcnemar([[20, 4], [13, 20]], exact=True).pvalue
    assert found.p == pytest.approx(expected, rel=1e-9)
    assert found.value == pytest.approx(-9 / 57)


def test_single_pairs_have_bonett_and_prices_interval():
    """For hits the paired interval is the adjusted Wald interval of Bonett and Price (2012), with t for z."""
    n12, n21, n = 4, 13, 57
    delta = np.array([1.0] * n12 + [-1.0] * n21 + [0.0] * (n - n12 - n21))
    found = paired_difference(delta, np.arange(n))
    a, b = (n12 + 1) / (n + 2), (n21 + 1) / (n + 2)
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((a + b - (a - b) ** 2) / (n + 2))
    assert found.low == pytest.approx(a - b - half, abs=2e-3)
    assert found.high == pytest.approx(a - b + half, abs=2e-3)


def test_a_ratio_of_paired_means_has_fiellers_interval():
    """At both ends the paired t statistic of second - r·first is the critical one."""
    rng = np.random.default_rng(0)
    first = rng.uniform(0.5, 1.0, 4000)
    second = 0.8 * first + rng.normal(0, 0.1, 4000)
    low, high = paired_ratio(first, second, np.arange(4000))
    for r in (low, high):
        d = second - r * first
        assert abs(d.mean()) / (d.std(ddof=1) / np.sqrt(d.size)) == pytest.approx(
            stats.t.ppf(0.975, 3999), rel=0.01
        )
    assert paired_ratio(np.zeros(20), np.ones(20), np.arange(20)) == (0.0, None)


def test_entropy_of_a_whole_distribution_is_scipys():
    """With every token returned both bounds are the entropy itself."""
    p = np.array([0.5, 0.25, 0.15, 0.1])
    low, high = token_entropy_bounds([np.log(p)], vocab_size=4)
    assert float(low[0]) == pytest.approx(stats.entropy(p), abs=1e-9)
    assert float(high[0]) == pytest.approx(stats.entropy(p), abs=1e-9)


def test_quantile_ranks_hold_their_level():
    """A quantile's ranks carry at least the level by the binomial law, and one rank less does not."""
    for n in (20, 51, 200):
        for q in (0.25, 0.5, 0.9):
            low, high = quantile_ranks(n, q)
            if low is not None:
                assert stats.binom.cdf(low, n, q) <= 0.025
                assert stats.binom.cdf(low + 1, n, q) > 0.025
            if high is not None:
                assert 1 - stats.binom.cdf(high, n, q) <= 0.025


def test_the_surface_is_statsmodels_logistic_regression(campaign):
    """Coefficients and cluster-robust bands equal statsmodels' GLM on raw trials, but for the weak prior."""
    frame = campaign(
        lambda x, d: 0.85 - 0.35 * np.exp(-(((d - 0.5) / 0.25) ** 2)) - 0.05 * np.log2(x / 1024),
        depths=(0.0, 0.25, 0.5, 0.75, 1.0), documents=80,
    )  # fmt: skip
    found = fits.RecallSurface()(frame).table()
    from bunny_probe.fits.surface import _Basis

    lengths = np.unique(frame["length_tokens"].to_numpy(dtype=float))
    basis = _Basis(5, lengths)
    design = basis(frame["depth"].to_numpy(), frame["length_tokens"].to_numpy(dtype=float))
    codes = pd.factorize(frame["cluster"])[0]
    model = sm.GLM(frame["score"].to_numpy(dtype=float), design, family=sm.families.Binomial())
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": codes})
    expected = model.family.link.inverse(
        basis(found["depth"].to_numpy(), found["length"].to_numpy()) @ fitted.params
    )
    np.testing.assert_allclose(found["value"], expected, atol=0.02)
    drawn = basis(found["depth"].to_numpy(), found["length"].to_numpy())
    error = np.sqrt(np.einsum("ij,jk,ik->i", drawn, fitted.cov_params(), drawn))
    ours = (np.log(found["high"] / (1 - found["high"])) - np.log(found["low"] / (1 - found["low"]))) / 2 / 1.96
    np.testing.assert_allclose(ours, error, rtol=0.25)
