"""Every bundled notebook keeps its contract: one parameters cell, no outputs, no logic of its own."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from bunny_probe.releases.notebook import find_notebook
from bunny_probe.resources import resource_dir

NOTEBOOKS = sorted(resource_dir("notebooks").glob("*.ipynb"))
SPOKEN = (ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.With, ast.Try, ast.ListComp)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A bundled notebook as JSON."""
    content: dict[str, Any] = json.loads(Path(request.param).read_text("utf-8"))
    return content


def code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def parameters(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in code(notebook) if "parameters" in cell["metadata"].get("tags", [])]


def test_nothing_of_a_run_is_kept(notebook: dict[str, Any]) -> None:
    """Outputs are stripped and execution counts are null, so that a diff shows what a person changed."""
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code(notebook))
    assert all(set(cell["metadata"]) <= {"tags"} for cell in notebook["cells"])
    assert "papermill" not in notebook["metadata"]
    assert "widgets" not in notebook["metadata"]


def test_any_jupyter_opens_it(notebook: dict[str, Any]) -> None:
    """The kernel is the plain python3, and every cell has an id of its own."""
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert (notebook["nbformat"], notebook["nbformat_minor"]) >= (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


def test_one_cell_takes_the_parameters(notebook: dict[str, Any]) -> None:
    """Exactly one cell is tagged, and it holds plain assignments of JSON values, no expressions."""
    assert len(parameters(notebook)) == 1
    for statement in ast.parse("".join(parameters(notebook)[0]["source"])).body:
        assert isinstance(statement, ast.Assign | ast.AnnAssign), ast.unparse(statement)
        assert statement.value is not None
        json.dumps(ast.literal_eval(statement.value), allow_nan=False)


def test_a_release_can_set_every_parameter() -> None:
    """What papermill and `bunny-probe release` read off the cell is every name that it assigns."""
    for path in NOTEBOOKS:
        source = "".join(parameters(json.loads(path.read_text("utf-8")))[0]["source"])
        names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
        assert names - {"str", "int", "float", "bool", "list"} <= set(find_notebook(path.stem).parameters)


def test_cells_only_call_the_library(notebook: dict[str, Any]) -> None:
    """No loop, function, HTTP or table work in a cell: whatever is computed is computed where it is tested."""
    for cell in code(notebook):
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            assert not isinstance(node, SPOKEN), ast.unparse(node)
            if isinstance(node, ast.Import):
                raise AssertionError(f"a cell imports more than the library: {ast.unparse(node)}")
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] == "bunny_probe", ast.unparse(node)


def test_it_reads_like_a_report(notebook: dict[str, Any]) -> None:
    """Words stand between the sections: headings ask the questions that the cells answer."""
    headings = [
        line
        for cell in notebook["cells"]
        if cell["cell_type"] == "markdown"
        for line in "".join(cell["source"]).splitlines()
        if line.startswith("## ")
    ]
    assert len(headings) >= 4
