"""The regression report: four words for every number, speed beside its price, and the same-model test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest
from releases import observations

from bunny_probe.errors import UsageError
from bunny_probe.plots import alt_text
from bunny_probe.reports import display, regression
from bunny_probe.resources import resource_dir

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SECTIONS = (
    regression.headline, regression.quality, regression.speed, regression.same_model, regression.answers,
    regression.visible, regression.method,
)  # fmt: skip


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the sections show, in order, as text and HTML."""
    mpl.use("Agg")
    shown: list[str] = []
    monkeypatch.setattr(display, "_html", shown.append)
    monkeypatch.setattr(regression, "plot", lambda draw: shown.append(_alt(draw)))
    monkeypatch.setattr(regression, "markdown", shown.append)
    return shown


def _alt(draw: Callable[[float], Axes]) -> str:
    import matplotlib.pyplot as plt

    text = alt_text(draw(4.0))
    plt.close("all")
    return text


def told(page: list[str], folder: Path, current: pd.DataFrame, **references: pd.DataFrame) -> str:
    """The whole report on these frames, as text."""
    paths: dict[str, Any] = {}
    for name, frame in {"run": current, **references}.items():
        path = folder / f"{name}.parquet"
        frame.to_parquet(path, index=False)
        paths[f"{name}_path"] = str(path)
    case = regression.open_regression(**paths, release="1.10", previous="1.9", baseline="1.0")
    for section in SECTIONS:
        section(case)
    return "\n".join(page)


def test_faster_but_worse_is_called_out(page: list[str], tmp_path: Path) -> None:
    """A release that answers sooner and finds less, with both numbers and their intervals in one sentence."""
    now = observations(samples=300, latency=0.7, recall={1024: 0.95, 32768: 0.8})
    text = told(page, tmp_path, now, previous=observations(samples=300))
    assert "Faster but worse than the previous release 1.9" in text
    assert "Recall at 32,768 tokens" in text
    assert "worse: " in text
    assert "no results of a model" in text
    assert "Answers that lost score" in text
    assert "had been" not in text


def test_the_same_twice_says_so_and_claims_no_more(page: list[str], tmp_path: Path) -> None:
    """Nothing moved, nothing is called the same model for certain; two references are told apart."""
    frame = observations(samples=300)
    text = told(page, tmp_path, frame, previous=frame, baseline=observations(samples=300, recall=0.5))
    assert "Against the previous release 1.9" in text
    assert "Against the baseline 1.0" in text
    assert "Nothing was shown to have moved." in text
    assert "No difference to the model that answered as the previous release 1.9 was seen" in text
    assert "no proof of sameness" in text
    assert "These are not answers of the model that answered as the baseline 1.0" in text
    assert "better: Requests answered" not in text


def test_a_first_release_has_nothing_to_be_held_to(page: list[str], tmp_path: Path) -> None:
    """It shows its numbers and says what to do next; so does one that shares nothing with the one before."""
    text = told(page, tmp_path, observations(samples=20))
    assert "no earlier release" in text
    assert "n = 40 of 40" in text
    other = observations(samples=2)
    other["probe_id"] = other["probe_id"] + "x"
    assert "no comparison" in told(page, tmp_path, observations(samples=2), previous=other)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """An empty path, a missing file, a file without observations, several endpoints in one."""
    with pytest.raises(UsageError, match="run_path is empty"):
        regression.open_regression("")
    with pytest.raises(UsageError, match="no run at"):
        regression.open_regression(str(tmp_path / "none.db"))
    path = tmp_path / "empty.parquet"
    observations().iloc[:0].to_parquet(path)
    with pytest.raises(UsageError, match="holds no observation"):
        regression.open_regression(str(path))
    two = observations()
    two.loc[two.index[:10], ["endpoint_id", "endpoint"]] = ["other", "other at there"]
    two.to_parquet(path)
    with pytest.raises(UsageError, match="several endpoints"):
        regression.open_regression(str(path))
    assert len(regression.open_regression(str(path), only="other at there").frame) == 10


def test_the_notebook_holds_no_logic() -> None:
    """Cells open the case and call its sections, every one of them, and nothing is left in the outputs."""
    cells = json.loads((resource_dir("notebooks") / "release_regression.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code[2:] == [f"regression.{section.__name__}(case)" for section in SECTIONS]
    assert all(not cell.get("outputs") for cell in cells)


def test_a_damaged_results_file_is_named(tmp_path: Path) -> None:
    """Not a traceback of another library: the file, and how to get it anew."""
    damaged = tmp_path / "results.parquet"
    damaged.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(UsageError, match=r"results\.parquet cannot be read"):
        regression.open_regression(str(damaged))
