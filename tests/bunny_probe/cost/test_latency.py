"""Lost orders from the latency distribution, against numbers that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bunny_probe.cost import draw, read, yearly
from bunny_probe.cost.latency import LatencyLoss, Stratum, beta_of, mix_weights
from bunny_probe.cost.simulate import Point, lost_share, total

SHAPES = ("threshold", "ramp", "exponential")


def _loss(shape: str, seconds: list[float], independent: float = np.inf) -> LatencyLoss:
    stratum = Stratum(float("nan"), np.sort(np.array(seconds)), independent)
    return LatencyLoss(shape, (stratum,), (1.0,))  # type: ignore[arg-type]


def test_the_loss_is_that_of_the_tail_not_of_the_mean() -> None:
    """Nine answers at 1 s and one at 30 s: the mean of 3.9 s loses nobody, the distribution one in ten."""
    loss = _loss("threshold", [1.0] * 9 + [30.0])
    assert loss.mean_seconds() == pytest.approx(3.9)
    assert float(loss.of(loss.mean_seconds(), 0, 5, 1)) == 0
    assert float(loss.share(0.0, 5.0, 1.0)) == pytest.approx(0.1)


@example("ramp", [1.1, 1.1714979761937985], 1.1714979761937985, [1.0, 2.0])  # a ramp without width, met exactly
@given(
    st.sampled_from(SHAPES),
    st.lists(st.floats(0.01, 50), min_size=1, max_size=40),
    st.floats(0, 5),
    st.lists(st.floats(0.5, 60), min_size=1, max_size=5),
)
def test_the_fast_mean_is_the_plain_mean(
    shape: str, seconds: list[float], grace: float, patience: list[float]
) -> None:
    """Partial sums and tables give what averaging the loss function over every latency gives."""
    loss = _loss(shape, seconds)
    found = loss.share(grace, np.array(patience), 0.8)
    wanted = [float(np.mean(loss.of(np.array(seconds), grace, p, 0.8))) for p in patience]
    assert found == pytest.approx(wanted, abs=2e-4 if shape == "exponential" else 1e-9)


def test_no_loss_seen_is_not_no_loss() -> None:
    """0 of 60 beyond patience: the plain estimate is 0, the draws reach to about what 0 of 60 allows."""
    loss = _loss("threshold", [1.0] * 60, independent=60)
    assert float(loss.share(0.0, 5.0, 1.0)) == 0
    high = float(loss.share(0.0, 5.0, 1.0, np.array([0.975]))[0])
    assert 0.03 < high < 0.06  # Jeffreys' upper limit for 0 of 60 is 0.041


def test_stated_quantiles_become_a_distribution_that_has_them() -> None:
    """P50 3 s, P90 6 s, P99 14 s come back as quantiles."""
    sheet = read(
        """
        [common.traffic]
        requests = "1,000 requests/day"
        [option.A.latency]
        sample = { quantiles = { p50 = "3 s", p90 = "6 s", p99 = "14 s" } }
        order_share = "2 %"
        order_value = "50 CNY/order"
        patience = "6 s"
        loss = "threshold"
        """
    )
    option = sheet.option("A")
    assert option.loss is not None
    assert option.loss.quantiles((0.5, 0.9, 0.99)) == pytest.approx((3, 6, 14), rel=0.01)
    assert float(total(sheet, option)) == pytest.approx(1_000 * 365 * 0.02 * 0.1 * 50, rel=0.01)


def test_seen_latencies_carry_their_sampling_error() -> None:
    """A few latencies give an interval although every money input is certain; more a narrower one."""
    text = """
        [common.traffic]
        requests = "1,000 requests/day"
        [option.A.latency]
        sample = {{ seen = {seen}, unit = "s" }}
        order_share = "2 %"
        order_value = "50 CNY/order"
        patience = "4 s"
        loss = "threshold"
    """
    widths = []
    for copies in (2, 40):
        sheet = read(text.format(seen=[1.0, 2.0, 3.0, 5.0] * copies))
        found = yearly(sheet, sheet.option("A"), draw(sheet, 2048)).total
        assert found.low < found.stated < found.high
        assert found.stated == pytest.approx(1_000 * 365 * 0.02 * 0.25 * 50)
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] / 3


def test_lengths_are_mixed_in_the_logarithm() -> None:
    """Halfway between 4K and 16K on a log axis is 8K; beyond the ends the end serves."""
    assert mix_weights([4096.0, 16384.0], 8192.0) == pytest.approx((0.5, 0.5))
    assert mix_weights([16384.0, 4096.0], 4096.0) == pytest.approx((0, 1))
    assert mix_weights([4096.0, 16384.0], 1e6) == pytest.approx((0, 1))


def test_a_mixed_share_has_the_mean_and_spread_of_its_strata() -> None:
    """The matched Beta against draws from the strata themselves."""
    strata = ((1024.0, 0.1, 50.0), (8192.0, 0.4, 20.0))
    rng = np.random.default_rng(0)
    drawn = 0.7 * rng.beta(5.5, 45.5, 200_000) + 0.3 * rng.beta(8.5, 12.5, 200_000)
    found = beta_of(strata, (0.7, 0.3))
    assert found.central == pytest.approx(0.7 * 0.1 + 0.3 * 0.4)
    ends = found.quantile([0.05, 0.5, 0.95])
    assert ends == pytest.approx(np.quantile(drawn, [0.05, 0.5, 0.95]), abs=0.003)


def test_an_unmeasured_sample_is_told_and_not_invented() -> None:
    """measured without otherwise: computing refuses with the key, instead of assuming zero."""
    from bunny_probe.errors import WorksheetError

    sheet = read(
        """
        [common.traffic]
        requests = "1,000 requests/day"
        [option.A.latency]
        sample = { measured = "latency" }
        order_share = "2 %"
        order_value = "50 CNY/order"
        patience = "4 s"
        """
    )
    option = sheet.option("A")
    with pytest.raises(WorksheetError, match=r"option\.A\.latency\.sample.*give a run"):
        total(sheet, option)
    with pytest.raises(WorksheetError):
        lost_share(sheet, option, option.terms[0], Point())
