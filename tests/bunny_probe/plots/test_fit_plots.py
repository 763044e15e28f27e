"""Figures of fits: they draw every case, say it in words, and hide nothing that was not measured."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from bunny_probe import fits, plots


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def _frame(documents: int = 6, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for length in (1024, 2048, 4096, 8192):
        for document in range(documents):
            for depth in (0.0, 0.5, 1.0):
                hit = rng.random() < 0.95 - 0.06 * np.log2(length / 1024) - 0.4 * (depth == 0.5)
                rows.append(
                    {
                        "probe_id": f"p{len(rows)}", "cluster": f"{length}-{document}", "length_tokens": length,
                        "depth": depth, "outcome": "answered" if rng.random() < 0.95 else "timeout",
                        "score": float(hit), "label": "hit" if hit else "wrong_anchor", "family": "position",
                        "variant": "plain", "entropy_low": 0.2, "entropy_high": 0.5 + rng.random(),
                        "ttft_s": 0.1 + length / 2e4 * rng.random(), "latency_s": 0.5 + rng.random(),
                        "timing_valid": True, "text": "x",
                    }
                )  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["answered"] = frame["outcome"] == "answered"
    return frame


FIGURES = {
    "decay": lambda f, **k: plots.decay_curve(fits.Decay()(f), **k),
    "decay with window": lambda f, **k: plots.decay_curve(fits.Decay()(f), window=fits.Window()(f), **k),
    "from the end": lambda f, **k: plots.decay_curve(fits.Decay(axis="from_end")(f), **k),
    "recall": lambda f, **k: plots.recall_heatmap(fits.Recall()(f), **k),
    "wrong anchors": lambda f, **k: plots.wrong_anchor_heatmap(fits.Recall()(f), **k),
    "entropy": lambda f, **k: plots.entropy_band(fits.Entropy()(f), **k),
    "entropy by variant": lambda f, **k: plots.entropy_band(fits.Entropy(by="variant")(f), **k),
    "outcomes": lambda f, **k: plots.outcome_bars(fits.Outcomes()(f), **k),
    "outcomes by family": lambda f, **k: plots.outcome_bars(fits.Outcomes(by="family")(f), **k),
    "latency": plots.latency_ecdf,
    "first token": plots.ttft_by_length,
    "comparison": lambda f, **k: plots.comparison_dots(fits.Compare(rounds=50)(f, f.assign(score=1.0)), **k),
}


@pytest.mark.parametrize("width", [7.2, 3.8])
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_what_it_shows(name, width):
    """Each figure has a finding as title, axes with names, a text for screen readers, and draws cleanly."""
    ax = FIGURES[name](_frame(), width=width)
    assert ax.get_title(loc="left")
    assert len(plots.alt_text(ax)) > 80
    assert ax.get_xlabel()
    figure = ax.get_figure()
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == pytest.approx(width)
    texts = [ax.title, ax._left_title, ax.xaxis.label, *ax.texts]
    for text in texts:
        if text.get_text() and text.get_visible():
            box = text.get_window_extent()
            assert box.x1 <= figure.bbox.width + 2, f"{text.get_text()!r} is cut off on the right"
            assert box.x0 >= -2, f"{text.get_text()!r} is cut off on the left"


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("rows", [0, 1])
def test_a_figure_without_data_says_why(name, rows):
    """No data gives a figure with the reason in it, not a traceback."""
    ax = FIGURES[name](_frame().iloc[:rows])
    ax.get_figure().canvas.draw()
    assert plots.alt_text(ax)


def test_missing_cells_are_hatched():
    """A cell that was not probed is hatched and carries no number."""
    frame = _frame()
    frame = frame[~((frame["depth"] == 1.0) & (frame["length_tokens"] == 8192))]
    ax = plots.recall_heatmap(fits.Recall()(frame))
    hatched = [patch for patch in ax.patches if patch.get_hatch()]
    assert len(hatched) == 1
    numbers = [t for t in ax.texts if t.get_text().startswith("n=")]
    assert len(numbers) == 4 * 3 - 1


def test_the_scale_of_a_heatmap_is_fixed():
    """Colours run from 0 to 1 whatever the data, depth 0 is at the top, and the map is even in luminance."""
    ax = plots.recall_heatmap(fits.Recall()(_frame()))
    mesh = ax.collections[0]
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0, 1)
    assert mesh.get_cmap().name == "cividis"
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_the_curve_is_dashed_where_nothing_was_probed():
    """Past the longest probed length the line is dashed; the solid one ends there."""
    ax = plots.decay_curve(fits.Decay()(_frame()))
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) > 5]
    solid = next(line for line in lines if line.get_linestyle() == "-")
    dashed = next(line for line in lines if line.get_linestyle() == "--")
    assert max(solid.get_xdata()) == pytest.approx(8192)
    assert min(dashed.get_xdata()) == pytest.approx(8192)


def test_a_figure_leaves_the_readers_settings_alone():
    """Drawing changes no matplotlib setting of the caller."""
    before = dict(mpl.rcParams)
    plots.decay_curve(fits.Decay()(_frame()))
    assert dict(mpl.rcParams) == before


def test_a_figure_draws_into_given_axes():
    """With `ax` nothing else is opened and the same axes come back."""
    import matplotlib.pyplot as plt

    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    assert plots.decay_curve(fits.Decay()(_frame()), left) is left
    assert plots.outcome_bars(fits.Outcomes()(_frame()), right) is right
    assert len(plt.get_fignums()) == 1
