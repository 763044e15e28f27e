"""The wording of tasks and the words of planted facts, read from the bundled templates and data.

probes/templates/<language>.toml    tables of texts with {fields}
data/anchors/<language>.toml        keys and values
"""

from __future__ import annotations

import string
import tomllib
from functools import lru_cache
from typing import Any

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.resources import resource_dir

__all__ = ["anchor_words", "fields_of", "wording"]


@lru_cache(maxsize=256)
def wording(language: str, task: str) -> dict[str, Any]:
    """The texts of one task in one language. Raises `SuiteError` when there are none."""
    tables = _toml("probes", f"templates/{language}.toml", language)
    if task not in tables:
        raise SuiteError(unknown_choice("task", task, tables), file=f"templates/{language}.toml")
    table: dict[str, Any] = tables[task]
    return table


@lru_cache(maxsize=64)
def anchor_words(language: str) -> dict[str, Any]:
    """Keys and values that facts are planted with. Raises `SuiteError` for an unknown language."""
    return _toml("data", f"anchors/{language}.toml", language)


def fields_of(template: str) -> set[str]:
    """Names of the {fields} in a template. Raises ValueError when a brace is left open."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@lru_cache(maxsize=64)
def _toml(folder: str, name: str, language: str) -> dict[str, Any]:
    path = resource_dir(folder) / name
    if not path.is_file():
        known = [p.stem for p in path.parent.glob("*.toml")]
        raise SuiteError(unknown_choice("language", language, known))
    with path.open("rb") as file:
        return tomllib.load(file)
