"""The worked example: the published sum, and its slip."""

from __future__ import annotations

import pytest

from bunny_probe.cost import Worksheet, check_published, difference, draw, explain, read, yearly
from bunny_probe.cost.money import money
from bunny_probe.resources import resource_dir


@pytest.fixture(scope="module")
def sheet() -> Worksheet:
    return read((resource_dir("data") / "cost" / "legal_assistant.toml").read_text("utf-8"), file="legal")


def test_the_four_parts_and_the_total_are_exact(sheet: Worksheet) -> None:
    """3.40, 547.50, 6,438.60 and 40.04 万 a year, 7,029.54 万 in all."""
    found = difference(sheet, sheet.option("A"), sheet.option("B"), draw(sheet, 1024))
    parts = {part.name: part.stated / 1e4 for part in (*found.parts, found.total)}
    wanted = {"hardware": 3.40, "latency": 547.50, "quality": 6_438.60, "maintenance": 40.04, "total": 7_029.54}
    assert parts == pytest.approx(wanted, abs=1e-6)
    assert money(found.total.stated, "CNY") == "7,029.54 万 CNY"
    assert found.table()["at the stated values, 万 CNY"].tolist() == [
        "3.40",
        "547.50",
        "6,438.60",
        "40.04",
        "7,029.54",
    ]


def test_the_published_slip_is_flagged(sheet: Worksheet) -> None:
    """6,929.54 万 is not what the parts add up to; the check says by how much it is off."""
    (check,) = check_published(sheet)
    assert check.verdict == "fails"
    assert check.computed - check.published == pytest.approx(100e4, abs=1e-3)
    assert "7,029.54 万 CNY" in check.sentence()
    assert "100.00 万 CNY less" in check.sentence()


def test_a_right_published_total_holds(sheet: Worksheet) -> None:
    """The check is no alarm that always rings."""
    text = (resource_dir("data") / "cost" / "legal_assistant.toml").read_text("utf-8")
    (check,) = check_published(read(text.replace("6,929.54", "7,029.54")))
    assert check.verdict == "holds"


def test_every_summand_shows_its_numbers_and_its_source(sheet: Worksheet) -> None:
    """A reader can redo each line with a pocket calculator."""
    rows = explain(sheet, sheet.option("A")).rows
    filled = {row.name: row.filled for row in rows}
    assert filled["upkeep"] == "2.5 person-days/week × 3,500 CNY/person-day × 52 weeks"
    assert filled["high risk: review"] == "100,000 requests/day × 18 % × 47 % × 28 CNY/review × 365 days"
    assert all(row.sources for row in rows)


def test_the_stated_total_lies_inside_its_interval(sheet: Worksheet) -> None:
    """Ranges around the stated values give an interval around the stated total, with its error."""
    found = yearly(sheet, sheet.option("A"), draw(sheet, 4096, seed=3)).total
    assert found.low < found.stated < found.high
    assert 0 < found.error < 0.01 * (found.high - found.low)
