"""Intervals, variance shares, break-even and flatness, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from bunny_probe.cost import (
    Worksheet,
    break_even,
    choose,
    cost_against,
    difference,
    draw,
    grid,
    read,
    tornado,
    yearly,
)  # fmt: skip
from bunny_probe.cost.pareto import pareto
from bunny_probe.cost.simulate import quantiles, total

SUM = """
[option.A.hardware]
other = "100 to 200 CNY/year"
[option.A.latency]
lost = { normal = { mean = "1,000 CNY/year", sd = "40 CNY/year" } }
[option.A.maintenance]
stated = "50 CNY/year"
"""

OWN_OR_BUY = """
[common.traffic]
requests = "5,000 requests/day"
input_tokens = "1,000 tokens/request"
output_tokens = "0 tokens/request"
[option.own]
label = "Own"
[option.own.hardware]
other = { value = "10,000 CNY/year", range = ["8,000 CNY/year", "12,000 CNY/year"] }
[option.buy]
label = "Buy"
[option.buy.hardware]
input_price = "0.01 CNY / 1K tokens"
output_price = "0 CNY / 1K tokens"
[range]
load = "500 to 20,000 requests/day"
length = "250 to 16,000 tokens/request"
"""


@pytest.fixture
def own_or_buy() -> Worksheet:
    return read(OWN_OR_BUY)


def test_the_interval_of_a_sum_is_right() -> None:
    """Uniform(100, 200) + normal(1000, 40) + 50: mean and spread by the textbook, with its error."""
    sheet = read(SUM)
    found = yearly(sheet, sheet.option("A"), draw(sheet, seed=2))
    assert found.total.mean == pytest.approx(1_200, abs=0.05)
    rng = np.random.default_rng(1)
    many = 50 + rng.uniform(100, 200, 2_000_000) + rng.normal(1_000, 40, 2_000_000)
    low, high = np.quantile(many, [0.05, 0.95])
    assert (found.total.low, found.total.high) == pytest.approx((low, high), abs=0.4)
    assert 0 < found.total.error < 0.3
    assert found.parts[3].certain


def test_variance_shares_are_the_variances() -> None:
    """In a sum each input's share is its variance over the sum's: 833 and 1,600 of 2,433."""
    sheet = read(SUM)
    bars = {bar.name: bar for bar in tornado(sheet, sheet.option("A")).bars}
    flat, bell = bars["A.hardware.other"], bars["A.latency.lost"]
    for bar, wanted in ((flat, 833.33 / 2_433.33), (bell, 1_600 / 2_433.33)):
        assert bar.alone == pytest.approx(wanted, abs=0.01)
        assert bar.with_others == pytest.approx(wanted, abs=0.01)
    assert flat.swing == pytest.approx(90)
    assert bell.swing == pytest.approx(2 * 1.6449 * 40, rel=1e-3)


def test_an_interaction_shows_in_the_total_share_only() -> None:
    """A product of two uniform shares: first order 3/7 each, total order 4/7."""
    sheet = read(
        """
        [common.traffic]
        requests = "1 to 1.0001 requests/day"
        [option.A.quality.k]
        share = "0 to 100 %"
        error_rate = "0 to 100 %"
        compensation = "1 CNY/error"
        """
    )
    bars = {bar.name: bar for bar in tornado(sheet, sheet.option("A"), draws=16_384).bars}
    # Var(xy) = 7/144; the variance of the mean given x is 1/48
    assert bars["A.quality.k.share"].alone == pytest.approx(3 / 7, abs=0.02)
    assert bars["A.quality.k.share"].with_others == pytest.approx(4 / 7, abs=0.02)


def test_break_even_is_where_the_lines_cross(own_or_buy: Worksheet) -> None:
    """10,000 CNY a year over 0.01 CNY a request is 1,000,000 requests a year, 2,740 a day."""
    own, buy = own_or_buy.options
    point = draw(own_or_buy, 4096)
    found = break_even(own_or_buy, own, buy, "load", grid(own_or_buy, "load"), point)
    assert found.stated == pytest.approx(1e6 / 365, rel=1e-6)
    assert found.crossing == 1
    # the break-even scales with the stated price of owning, triangular over 8,000 to 12,000
    assert found.low == pytest.approx((8_000 + np.sqrt(0.05 * 4_000 * 2_000)) / 10_000 * 1e6 / 365, rel=0.002)
    by_length = break_even(own_or_buy, own, buy, "length", grid(own_or_buy, "length"), point)
    assert by_length.stated == pytest.approx(1_000 * 10_000 / (5_000 * 365 * 0.01), rel=1e-6)


def test_curves_say_what_is_cheapest_where(own_or_buy: Worksheet) -> None:
    """Buying is cheaper at first, owning from the break-even on; owning does not depend on load."""
    curve = cost_against(
        own_or_buy, own_or_buy.options, "load", grid(own_or_buy, "load"), draw(own_or_buy, 512)
    )
    assert curve.cheapest()[0] == "buy"
    assert curve.cheapest()[-1] == "own"
    assert "own from 2,740" in curve.sentence()
    assert curve.lines[0].constant == ("hardware",)


def test_the_flattest_need_not_be_the_cheapest(own_or_buy: Worksheet) -> None:
    """At half the break-even load buying is cheaper, but its cost follows the load; owning's does not."""
    sheet = read(OWN_OR_BUY.replace("5,000 requests/day", "1,000 requests/day"))
    found = choose(sheet, draw(sheet, 4096))
    assert (found.cheapest.option, found.flattest.option) == ("buy", "own")
    assert found.cheapest.wins == 1
    assert "That steadiness" in found.sentence() or "that steadiness" in found.sentence()
    same = choose(own_or_buy, draw(own_or_buy, 4096))
    assert same.cheapest is same.flattest


def test_what_options_share_is_drawn_once() -> None:
    """Two options with the same uncertain part differ by exactly nothing in it."""
    sheet = read(
        '[common.hardware]\nother = "100 to 900 CNY/year"\n'
        '[option.A.maintenance]\nstated = "50 CNY/year"\n[option.B.maintenance]\nstated = "20 CNY/year"\n'
    )
    found = difference(sheet, *sheet.options, draw(sheet, 512))
    assert found.total.certain
    assert found.total.stated == pytest.approx(30)
    assert yearly(sheet, sheet.option("A"), draw(sheet, 512)).total.certain is False


def test_the_same_seed_gives_the_same_numbers(own_or_buy: Worksheet) -> None:
    """No hidden state: equal seeds agree to the last bit, others do not."""
    own = own_or_buy.option("own")
    one, same, other = (total(own_or_buy, own, draw(own_or_buy, 512, seed=s)) for s in (4, 4, 5))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("method", ["sobol", "random", "antithetic"])
def test_every_way_of_drawing_fills_the_cube(method: str) -> None:
    """Means of one half, nothing at the border, the blocks differ."""
    u = quantiles(3, 2048, 1, method)  # type: ignore[arg-type]
    assert u.shape == (2048, 3)
    assert u.mean(axis=0) == pytest.approx([0.5] * 3, abs=0.03)
    assert 0 < u.min() < u.max() < 1
    assert not np.array_equal(u[:256], u[256:512])


def test_a_dominated_option_is_off_the_frontier() -> None:
    """Dearer and worse is not worth considering; dearer and better is."""
    option = (
        "[option.{0}.quality.k]\nreview_rate = '{1} %'\nreview_cost = '1 CNY'\n"
        "[option.{0}.hardware]\nother = '{2} CNY/year'\n"
    )
    text = '[common.traffic]\nrequests = "1 request/day"\n'
    text += option.format("cheap", 10, 100) + option.format("good", 2, 200) + option.format("bad", 20, 300)
    found = pareto(read(text), draw(read(text), 512))
    assert {item.option: item.efficient for item in found.positions} == {
        "cheap": True,
        "good": True,
        "bad": False,
    }
    assert [item.quality.stated for item in found.positions] == pytest.approx([0.9, 0.98, 0.8])
