"""Cost figures: they draw every case without a warning, tell it in words, and never draw a missing glyph."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from bunny_probe import cost
from bunny_probe.cost.money import scale_for
from bunny_probe.cost.pareto import pareto
from bunny_probe.plots import alt_text, cost_curves
from bunny_probe.plots import cost as pictures
from bunny_probe.resources import resource_dir

CERTAIN = '[option.A.hardware]\nother = "100 CNY/year"\n[option.B.hardware]\nother = "300 CNY/year"\n'


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def _sheet(name: str) -> cost.Worksheet:
    return cost.read((resource_dir("data") / "cost" / f"{name}.toml").read_text("utf-8"), file=name)


def _draw(sheet: cost.Worksheet, width: float) -> list[mpl.axes.Axes]:
    first, second = sheet.options
    point = cost.draw(sheet, 512)
    axes = [
        pictures.waterfall(cost.difference(sheet, first, second, point), width=width),
        pictures.waterfall(cost.yearly(sheet, first, point), width=width),
        pictures.tornado(cost.tornado(sheet, first, second, draws=512), width=width),
        pictures.options(cost.choose(sheet, point), width=width),
    ]
    if any(term.part == "quality" for term in first.terms):
        axes.append(cost_curves.cost_quality(pareto(sheet, point), width=width))
    for axis in ("load", "length"):
        if getattr(sheet, axis) is not None:
            at = cost.grid(sheet, axis, 9)  # type: ignore[arg-type]
            curve = cost.cost_against(sheet, sheet.options, axis, at, point)  # type: ignore[arg-type]
            even = cost.break_even(sheet, first, second, axis, at, point)  # type: ignore[arg-type]
            axes.append(cost_curves.cost_curve(curve, even, width=width))
    if first.loss is not None:
        axes.append(cost_curves.latency_loss(first.loss, 1.0, 9.0, 0.5, width=width))
    return axes


@pytest.mark.parametrize(("name", "width"), [("legal_assistant", 8.6), ("own_or_buy", 3.7)])
def test_every_figure_is_drawn_without_a_warning_and_told_in_words(
    name: str, width: float, tmp_path: Path
) -> None:
    """On a screen and on a phone; a missing glyph or a collapsed layout would be a warning, and so an error."""
    for i, ax in enumerate(_draw(_sheet(name), width)):
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.savefig(tmp_path / f"{i}.png", dpi=60)
        assert len(alt_text(ax)) > 60
        assert ax.get_xlabel()


def test_figures_without_uncertainty_say_so(tmp_path: Path) -> None:
    """No whiskers are drawn, and the reader is told why; a tornado of nothing is refused in words."""
    sheet = cost.read(CERTAIN)
    first, second = sheet.options
    point = cost.draw(sheet, 512)
    found = pictures.waterfall(cost.difference(sheet, first, second, point))
    assert any("no input was given an uncertainty" in text.get_text() for text in found.texts)
    assert "could not be drawn" in alt_text(pictures.tornado(cost.tornado(sheet, first, second)))


def test_the_waterfall_ends_at_the_total() -> None:
    """The last bar is the sum of those before it, and each begins where the one above ended."""
    sheet = _sheet("legal_assistant")
    ax = pictures.waterfall(cost.difference(sheet, *sheet.options, cost.draw(sheet, 512)))
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert len(bars) == 5
    for (left, width), (following, _) in pairwise(bars[:4]):
        assert following == pytest.approx(left + width)
    assert bars[4] == (0.0, pytest.approx(7_029.54))


def test_the_scale_falls_back_where_no_font_has_the_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """万 only where it can be drawn, ×10⁴ elsewhere, and never a box."""
    scale = scale_for(7e7, "CNY")
    monkeypatch.setattr(pictures, "chinese_font", lambda: None)
    assert pictures.unit_label(scale) == "×10⁴ CNY"
    assert pictures.shown("方案一", "A") == "A"
    assert pictures.shown("方案一", "方案") == "??"
    monkeypatch.setattr(pictures, "chinese_font", lambda: "Noto Sans CJK SC")
    assert pictures.unit_label(scale) == "万 CNY"


def test_chinese_labels_are_drawn_without_boxes(tmp_path: Path) -> None:
    """A worksheet labelled in Chinese draws here too, by its keys where no font has the characters."""
    text = CERTAIN.replace("[option.A.hardware]", '[option.A]\nlabel = "方案一：一张大卡"\n[option.A.hardware]')
    sheet = cost.read(text.replace("100 CNY/year", "1 to 2 万元/年"))
    point = cost.draw(sheet, 512)
    for ax in (
        pictures.options(cost.choose(sheet, point)),
        pictures.waterfall(cost.yearly(sheet, sheet.options[0], point)),
        pictures.tornado(cost.tornado(sheet, *sheet.options, draws=512)),
    ):
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.savefig(tmp_path / "x.png", dpi=60)


def test_axes_can_be_handed_in() -> None:
    """Figures compose: what is drawn into given axes stays there."""
    import matplotlib.pyplot as plt

    sheet = _sheet("legal_assistant")
    figure, given = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    found = cost.difference(sheet, *sheet.options, cost.draw(sheet, 512))
    assert pictures.waterfall(found, ax=given[0]) is given[0]
    assert np.isfinite(given[0].get_xlim()).all()
    figure.draw_without_rendering()
