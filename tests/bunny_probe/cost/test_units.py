"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.cost.units import UnitFault, Units, fits_into

UNITS = Units(365, 52, yen="CNY")
YEAR = 365 * 86_400.0


@pytest.mark.parametrize(
    ("text", "value", "dims"),
    [
        ("28 CNY", 28, {"CNY": 1}),
        ("CNY 28", 28, {"CNY": 1}),
        ("¥28", 28, {"CNY": 1}),
        ("3.4 万", 34_000, {}),
        ("3.4 万元", 34_000, {"CNY": 1}),
        ("7,029.54 万 CNY", 70_295_400, {"CNY": 1}),
        ("1.2 亿元", 120_000_000, {"CNY": 1}),
        ("２８％", 0.28, {}),
        ("18 %", 0.18, {}),
        ("100,000 requests/day", 100_000 / 86_400, {"request": 1, "s": -1}),
        ("100,000 requests a day", 100_000 / 86_400, {"request": 1, "s": -1}),
        ("10 万次/天", 100_000 / 86_400, {"request": 1, "s": -1}),
        ("142,000 CNY per year", 142_000 / YEAR, {"CNY": 1, "s": -1}),
        ("14.2 万元/年", 142_000 / YEAR, {"CNY": 1, "s": -1}),
        ("2.5 person-days/week", 2.5 * 8 * 52 / YEAR, {"person-hour": 1, "s": -1}),
        ("2.5 人天/周", 2.5 * 8 * 52 / YEAR, {"person-hour": 1, "s": -1}),
        ("3,500 CNY/person-day", 3_500 / 8, {"CNY": 1, "person-hour": -1}),
        ("$0.00015 / 1K tokens", 1.5e-7, {"USD": 1, "token": -1}),
        ("$0.60 per 1M tokens", 6e-7, {"USD": 1, "token": -1}),
        ("0.8 CNY/kWh", 0.8 / 3.6e6, {"CNY": 1, "J": -1}),
        ("0.7 kW", 700, {"J": 1, "s": -1}),
        ("26.8 GB", 26.8e9, {"B": 1}),
        ("80 GiB", 80 * 2**30, {"B": 1}),
        ("2 TB/s", 2e12, {"B": 1, "s": -1}),
        ("350 ms", 0.35, {"s": 1}),
        ("−2.5 h", -9_000, {"s": 1}),
        ("64K tokens", 64_000, {"token": 1}),
        ("1.5e-3", 0.0015, {}),
        ("1_000", 1_000, {}),
    ],
)
def test_what_people_write_is_understood(text: str, value: float, dims: dict[str, int]) -> None:
    """Currencies, 万 and 亿, percent, rates by any time, bytes and power, in English and Chinese."""
    number, unit = UNITS.one(text)
    assert number * unit.factor == pytest.approx(value, rel=1e-12)
    assert dict(unit.dims) == dims


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no number"),
        ("twelve", "no number"),
        ("3,5 CNY", "thousands are grouped"),
        ("1,0000 CNY", "thousands are grouped"),
        ("1.2.3", "not a number"),
        ("5 furlongs", "unknown unit 'furlongs'"),
        ("$5 CNY", "two currencies"),
        ("1e999", "too large"),
        ("1e199 万 亿 CNY", "too large|beyond"),
        ("5 CNY/0", "cannot be told by '0'"),
        ("3 to 5", "is a range"),
    ],
)
def test_what_is_unclear_is_refused(text: str, told: str) -> None:
    """A decimal comma or a strange unit is never guessed at."""
    with pytest.raises(UnitFault, match=told):
        UNITS.one(text)


def test_the_yen_sign_needs_a_currency() -> None:
    """¥ is CNY or JPY; without a worksheet's currency it is refused."""
    with pytest.raises(UnitFault, match="CNY or JPY"):
        Units().one("¥28")


def test_a_scale_behind_a_range_belongs_to_both_ends() -> None:
    """3 to 5 万 is 30,000 to 50,000."""
    assert UNITS.numbers("3 to 5 万 CNY")[0] == (30_000, 50_000)
    assert UNITS.numbers("12–18 %")[0] == (12, 18)


def test_kilo_is_what_the_reader_says() -> None:
    """64K is 64,000, or 65,536 where K was said to be 1024."""
    assert Units(kilo=1024).one("64K")[0] == 65_536
    assert Units().one("64Ki")[0] == 65_536


def test_counted_things_may_be_left_out_but_not_swapped() -> None:
    """100/day serves for requests/day, tokens/day does not; money and time must match."""
    wanted = {"request": 1, "s": -1}
    assert fits_into({"s": -1}, wanted)
    assert not fits_into({"token": 1, "s": -1}, wanted)
    assert not fits_into({"request": 1}, wanted)


@given(
    st.floats(0.001, 1e9, allow_nan=False), st.sampled_from(["second", "hour", "day", "week", "month", "year"])
)
def test_a_rate_is_the_same_by_any_time(value: float, period: str) -> None:
    """The periods are consistent: x a year is x/12 a month, x/52 a week, x/365 a day."""
    parts = {"second": YEAR, "hour": 8_760, "day": 365, "week": 52, "month": 12, "year": 1}
    number, unit = UNITS.one(f"{value / parts[period]!r} CNY/{period}")
    assert number * unit.factor * YEAR == pytest.approx(value, rel=1e-9)


@given(st.text(max_size=30))
def test_no_text_escapes_as_another_error(text: str) -> None:
    """Any text is a quantity or a UnitFault."""
    try:
        UNITS.numbers(text)
    except UnitFault:
        return
