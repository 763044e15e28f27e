"""The cost worksheet and the claims audit: sections on every kind of case, and notebooks without logic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest

from bunny_probe.errors import WorksheetError
from bunny_probe.plots import alt_text
from bunny_probe.reports import claims, cost, display
from bunny_probe.resources import resource_dir

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTEBOOKS = ("cost_worksheet", "claims_audit")
SECTIONS = (
    cost.headline, cost.measured, cost.summands, cost.waterfall, cost.published, cost.sensitivity, cost.waiting,
    cost.against, cost.choice, cost.method,
)  # fmt: skip


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the sections show, in order, as text and HTML."""
    mpl.use("Agg")
    shown: list[str] = []
    monkeypatch.setattr(display, "_html", shown.append)
    monkeypatch.setattr(cost, "plot", lambda draw: shown.append(_alt(draw)))
    for module in (cost, claims):
        monkeypatch.setattr(module, "markdown", shown.append)
    return shown


def _alt(draw: Callable[[float], Axes]) -> str:
    """The figure's words; its pixels are the plot tests' business."""
    import matplotlib.pyplot as plt

    text = alt_text(draw(4.0))
    plt.close("all")
    return text


def test_the_default_report_tells_the_sum_and_the_slip(page: list[str]) -> None:
    """The worked example: five figures, the wrong published total, the intervals, the choice."""
    case = cost.open_case(draws=512)
    for section in SECTIONS:
        section(case)
    text = "\n".join(page)
    for figure in ("+7,029.54 万 CNY", "3.40", "547.50", "6,438.60", "40.04"):
        assert figure in text
    assert "fails: the parts add up to 7,029.54 万 CNY" in text
    assert "90% interval" in text
    assert "The flattest is B" in text
    assert "every input is stated" in text.lower()


def test_stand_ins_are_named_as_such(page: list[str]) -> None:
    """Without a run, measured inputs are said to be assumptions."""
    case = cost.open_case("own_or_buy", draws=512)
    for section in SECTIONS:
        section(case)
    text = "\n".join(page)
    assert "Not measured, stand-ins are used: own: 4 % for wrong answer error rate" in text
    assert text.count("P50 3 s, P95") == 1  # options that share a sample share its picture


def test_one_certain_option_is_a_report_too(page: list[str], tmp_path: Path) -> None:
    """No comparison, no uncertainty, no range: every section still says what it can."""
    path = tmp_path / "one.toml"
    path.write_text('[option.A.hardware]\nother = "100 CNY/year"\n', "utf-8")
    case = cost.open_case(str(path), draws=512)
    for section in SECTIONS:
        section(case)
    assert "arithmetic, not an estimate" in "\n".join(page)
    assert json.dumps(cost.results(case), allow_nan=False)


def test_results_are_plain_json() -> None:
    """What a release files away holds no NaN and no array."""
    filed = json.loads(json.dumps(cost.results(cost.open_case(draws=512)), allow_nan=False))
    assert filed["differences"][0]["total"]["stated"] == pytest.approx(70_295_400)
    assert json.dumps(claims.results(claims.open_audit()), allow_nan=False)


def test_an_unknown_worksheet_is_told_with_those_that_exist() -> None:
    """A slip in the first cell gets an answer that helps."""
    with pytest.raises(WorksheetError, match=r"Did you mean 'legal_assistant'\?"):
        cost.open_case("legal_asistant")
    with pytest.raises(WorksheetError, match="sample_vendor"):
        claims.open_audit("../../etc/passwd-not-there")


def test_the_claims_report_leads_with_what_fails(page: list[str]) -> None:
    """Counts, verdicts and working; nothing measured is said to be so."""
    desk = claims.open_audit()
    for section in (claims.headline, claims.verdicts, claims.arithmetic, claims.measurements, claims.method):
        section(desk)
    text = "\n".join(page)
    assert "3 fail, 1 contradicts another claim" in text
    assert "859.0 GB" in text
    assert "Nothing was measured: 3 claims stay open" in text


def test_a_run_decides_measured_claims() -> None:
    """P95 of 200 times, an answered share and a mean score, each with the interval its n allows."""
    import numpy as np
    import pandas as pd

    from bunny_probe.columns import COLUMNS
    from bunny_probe.cost.claims import audit, read_claims

    n = 200
    given: dict[str, Any] = {
        "length_tokens": [65_536] * n, "ttft_s": np.linspace(1.0, 2.0, n), "answered": [True] * n,
        "timing_valid": [True] * n, "score": [1.0, 0.0] * (n // 2), "probe_id": [f"p{i}" for i in range(n)],
    }  # fmt: skip
    frame = pd.DataFrame(
        {
            name: pd.Series(given.get(name, [np.nan if dtype == "float64" else pd.NA] * n)).astype(dtype)
            for name, (dtype, _) in COLUMNS.items()
        }
    )
    table = read_claims((resource_dir("data") / "claims" / "sample_vendor.toml").read_text("utf-8"))
    found = {claim.id: seen for claim in table.claims if (seen := claims.find(frame, claim))}
    rows = {row.id: row for row in audit(table, found).rows}
    assert rows["answers_64k"].verdict == "holds"  # 200 of 200: Wilson's lower end is 0.98
    assert rows["ttft_64k"].verdict == "holds"
    assert found["ttft_64k"].low is not None
    assert found["ttft_64k"].low < 1.95 < (found["ttft_64k"].high or 0)
    assert rows["recall_64k"].verdict == "fails"  # 0.5 where 0.731 is claimed
    few = {claim.id: claims.find(frame.head(20), claim) for claim in table.claims if claim.id == "ttft_64k"}
    assert few["ttft_64k"] is not None
    assert few["ttft_64k"].high is None  # 20 times bound no P95 from above
    assert {r.id: r.verdict for r in audit(table, few).rows}["ttft_64k"] == "needs measurement"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_hold_parameters_and_calls_and_nothing_else(name: str) -> None:
    """One tagged cell of JSON values, no outputs, and no cell that decides or computes."""
    import ast

    book = json.loads((resource_dir("notebooks") / f"{name}.ipynb").read_text("utf-8"))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    tagged = [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])]
    assert tagged == code[:1]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    parameters: dict[str, Any] = {}
    exec("".join(tagged[0]["source"]), parameters)
    parameters.pop("__builtins__")
    assert json.loads(json.dumps(parameters)) == parameters
    for cell in code[1:]:
        for node in ast.parse("".join(cell["source"])).body:
            assert isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.Expr)
            assert not isinstance(node, ast.Assign | ast.Expr) or isinstance(node.value, ast.Call)
