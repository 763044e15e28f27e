"""Which parameters a notebook takes: read off its parameters cell, without running it."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.resources import resource_dir

__all__ = ["Notebook", "find_notebook"]


@dataclass(frozen=True, slots=True)
class Notebook:
    name: str  # its file's name without the ending
    path: Path
    parameters: dict[str, Any]  # name → default


def find_notebook(text: str) -> Notebook:
    """A bundled notebook by name, or any by path. Raises UsageError: the choices, or what is wrong with it."""
    bundled = {path.stem: path for path in sorted(resource_dir("notebooks").glob("*.ipynb"))}
    path = bundled.get(text) or Path(text)
    if not path.is_file():
        raise UsageError(unknown_choice("notebook", text, bundled))
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        source = next(
            "".join(cell["source"])
            for cell in cells
            if cell["cell_type"] == "code" and "parameters" in cell["metadata"].get("tags", ())
        )
        return Notebook(path.stem, path.resolve(), _defaults(source))
    except StopIteration:
        raise UsageError(f"{path}: no cell is tagged 'parameters'") from None
    except (ValueError, KeyError, TypeError, SyntaxError) as error:
        raise UsageError(f"{path}: not a notebook that papermill can run: {error}") from None


def _defaults(source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name):
            try:
                found[target.id] = ast.literal_eval(value)
            except ValueError:  # computed: papermill can still set it
                found[target.id] = None
    return found
