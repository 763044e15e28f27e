"""Worksheets: what they may say, and how a fault is told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.cost import Worksheet, draw, explain, read, yearly
from bunny_probe.cost.distributions import Lognormal, Normal, Triangular, Uniform
from bunny_probe.cost.simulate import total
from bunny_probe.errors import WorksheetError
from bunny_probe.resources import resource_dir

HEAD = '[common.traffic]\nrequests = "1,000 requests/day"\n'


def _one(value: str, key: str = "hardware.other") -> str:
    part, name = key.split(".")
    return f"{HEAD}[option.A.{part}]\n{name} = {value}\n"


def _input(value: str) -> Any:
    sheet = read(_one(value))
    return sheet.option("A").inputs()["A.hardware.other"]


@pytest.mark.parametrize(
    ("value", "kind", "central"),
    [
        ('"10 万 CNY/year"', None, 100_000),
        ('"10 to 20 CNY/year"', Uniform, 15),
        ('{ uniform = ["10 CNY/year", "20 CNY/year"] }', Uniform, 15),
        ('{ value = "12 CNY/year", range = ["10 CNY/year", "20 CNY/year"] }', Triangular, 12),
        ('{ triangular = ["10 CNY/year", "12 CNY/year", "20 CNY/year"] }', Triangular, 12),
        ('{ normal = { mean = "100 CNY/year", sd = "10 CNY/year" } }', Normal, 100),
        ('{ lognormal = { median = "100 CNY/year", factor = 1.5 } }', Lognormal, 100),
        ('{ quantiles = { p5 = "50 CNY/year", p95 = "200 CNY/year" }, shape = "lognormal" }', Lognormal, 100),
        ('{ quantiles = { p10 = "90 CNY/year", p90 = "110 CNY/year" }, shape = "normal" }', Normal, 100),
    ],
)
def test_every_form_of_an_input_is_read(value: str, kind: type | None, central: float) -> None:
    """A value, a range, and each named distribution, in the unit they were written in."""
    item = _input(value)
    year = 365 * 86_400.0
    assert item.central * year == pytest.approx(central, rel=1e-9)
    assert item.certain if kind is None else isinstance(item.distribution, kind)


def test_quantile_pairs_hit_their_quantiles() -> None:
    """What was stated as P5 and P95 is P5 and P95 of the draws."""
    item = _input('{ quantiles = { p5 = "50 CNY/year", p95 = "300 CNY/year" }, shape = "lognormal" }')
    assert item.distribution.quantile([0.05, 0.95]) == pytest.approx([50, 300], rel=1e-9)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("= 3", "not TOML"),
        ("[option]", "at least one [option.NAME]"),
        ("[option.A]", "nothing in it costs anything"),
        ("titel = 'x'", "Did you mean 'title'?"),
        ("currency = 'RMB'", "unknown currency"),
        ("[calendar]\ndays_per_year = 250", "from 360 to 366"),
        (_one('"10 CNY"'), "'10 CNY' is CNY, but CNY/s is wanted"),
        (_one('"10 CNY/request"'), "CNY/request"),
        (_one('"ten"'), "no number"),
        (_one("true"), "expected a number or a text"),
        (_one("inf"), "not a number"),
        (_one('"-5 CNY/year"'), "within 0 to unlimited"),
        (_one('"20 to 10 CNY/year"'), "must rise"),
        (_one('{ value = "5 CNY/year", range = ["6 CNY/year", "9 CNY/year"] }'), "outside its range"),
        (_one('{ range = ["6 CNY/year", "9 USD/year"] }'), "not in the unit"),
        (_one('{ gamma = ["1 CNY/year"] }'), "unknown form of input 'gamma'"),
        (_one('{ quantiles = { p5 = "1 CNY/year", p95 = "2 CNY/year" } }'), "shape = 'normal' or 'lognormal'"),
        (_one('{ normal = { mean = "1 CNY/year", sd = "5 CNY/year" } }'), "lies outside what is possible"),
        (_one('"10 USD/year"'), "[rates] USD"),
        (_one('{ measured = "wrong" }'), "cannot be measured"),
        (_one('"24 万 CNY"', "hardware.gpu_price"), "needs it"),
        (_one('"2 %"', "latency.order_share"), "order_value"),
        (HEAD + "[option.A.quality.x]\nreview_rate = '120 %'\nreview_cost = '1 CNY'", "within 0 to 100"),
        (HEAD + "[option.A.quality.x]\nreview_rat = '12 %'", "Did you mean 'review_rate'?"),
        (_one('"1 CNY/year"') + "[length_mix]\n4096 = '50 %'", "add up to 0.5"),
        (_one('"1 CNY/year"') + "[range]\nload = '5 requests/day'", "a range above 0"),
        (_one('"1 CNY/year"') + "[[published]]\nvalue = '1 CNY/year'\nof = ['Z']", "unknown option 'Z'"),
        (
            _one('"1 CNY/year"') + "[rates]\nUSD = '7 CNY'\n[[published]]\nvalue = '1 USD/year'",
            "state it in CNY",
        ),
    ],
)
def test_a_fault_names_file_key_and_what_is_allowed(text: str, told: str) -> None:
    """Nobody has to guess what a worksheet wants."""
    with pytest.raises(WorksheetError) as caught:
        read(text, file="sheet.toml")
    assert str(caught.value).startswith("sheet.toml: ")
    assert told in str(caught.value)


def _with_rate() -> Worksheet:
    return read(
        "[rates]\nUSD = { value = '7 CNY', range = ['6 CNY', '8 CNY'] }\n"
        + HEAD
        + "[option.A.hardware]\ninput_price = '$1 / 1M tokens'\noutput_price = '$0 / 1M tokens'\n"
        + "[option.A.traffic]\ninput_tokens = '1,000 tokens/request'\noutput_tokens = '0 tokens/request'\n"
    )


def test_foreign_money_is_converted_and_its_rate_is_an_input() -> None:
    """1,000 requests a day at $0.001 are 2,555 CNY a year at 7; the rate's range shows in the interval."""
    sheet = _with_rate()
    assert float(total(sheet, sheet.option("A"))) == pytest.approx(1_000 * 365 * 0.001 * 7)
    found = yearly(sheet, sheet.option("A"), draw(sheet, 1024))
    assert found.total.low < 2_555 < found.total.high
    assert found.total.high == pytest.approx(2_555 / 7 * 7.68, rel=0.01)


def test_own_machines_are_bought_for_the_peak() -> None:
    """20,000 a day, three times that at peak, 1.21 s of GPU each, 60 % busy: 2 cards and a spare."""
    sheet = read((resource_dir("data") / "cost" / "own_or_buy.toml").read_text("utf-8"))
    rows = {row.name: row for row in explain(sheet, sheet.option("own")).rows}
    assert rows["purchase"].value == pytest.approx(3 * 240_000 / 4)
    assert rows["electricity"].value == pytest.approx((2 * (0.1 + 0.6 * 0.6) + 0.1) * 1.3 * 0.8 * 8_760)
    assert "ceil(3 × 20,000 requests/day × 1 × 1.214 s / 60 %) = 2 GPU" in rows["purchase"].steps[1]


def test_the_bundled_worksheets_are_read() -> None:
    """What ships works."""
    for path in (resource_dir("data") / "cost").glob("*.toml"):
        sheet = read(path.read_text("utf-8"), file=path.name)
        for option in sheet.options:
            assert float(total(sheet, option)) > 0


_VALUES = st.one_of(
    st.text(max_size=12),
    st.integers(-5, 5),
    st.floats(),
    st.booleans(),
    st.lists(st.text(max_size=5), max_size=3),
    st.sampled_from(["1 CNY/year", "5 %", "1 to 2 CNY/year", "3 requests/day"]),
)
_TABLES = st.dictionaries(
    st.sampled_from(["value", "range", "normal", "quantiles", "shape", "source", "measured", "lost", "x"]),
    _VALUES,
)


@given(
    st.sampled_from(["hardware", "latency", "quality", "maintenance", "traffic"]),
    st.sampled_from(["stated", "lost", "sample", "loss", "share", "requests", "effort", "gpu_price"]),
    st.one_of(_VALUES, _TABLES),
)
def test_no_worksheet_escapes_as_another_error(part: str, key: str, value: Any) -> None:
    """Whatever a worksheet holds, it is read or told as a WorksheetError."""
    text = f"{HEAD}[option.A.hardware]\nother = '1 CNY/year'\n[option.B.{part}]\n{key} = {_toml(value)}\n"
    try:
        sheet = read(text)
        for option in sheet.options:
            assert np.isfinite(total(sheet, option)).all()
    except WorksheetError:
        return


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, float):
        return (
            "nan"
            if value != value
            else "inf"
            if value == float("inf")
            else "-inf"
            if value < -1e308
            else repr(value)
        )
    return json.dumps(value, ensure_ascii=True).replace("\\ud", "\\\\ud")


def test_a_sum_that_overflows_is_told_and_not_shown() -> None:
    """Absurd inputs end in a message with the option and the part, not in inf."""
    sheet = read(
        '[common.traffic]\nrequests = "1e150 requests/s"\n[option.A.quality.k]\n'
        'share = "100 %"\nreview_rate = "100 %"\nreview_cost = "1e180 CNY"\n'
    )
    with pytest.raises(WorksheetError, match=r"option\.A\.quality.*cannot be computed"):
        total(sheet, sheet.option("A"))
