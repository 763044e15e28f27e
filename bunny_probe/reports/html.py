"""Executes a notebook through papermill and writes it as one HTML file without code or network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bunny_probe.errors import BunnyError, MissingExtra, UsageError
from bunny_probe.progress import PROGRESS_VARIABLE

__all__ = ["NotebookFailed", "execute", "write_html"]

_TEMPLATES = Path(__file__).resolve().parent


class NotebookFailed(BunnyError):
    """A cell raised; what was executed so far is kept in the output notebook."""


def execute(
    notebook: Path,
    output: Path,
    parameters: Mapping[str, Any],
    *,
    cell_timeout: float = 1800.0,
    on_status: Callable[[str], None] = lambda _: None,
) -> None:
    """Run `notebook` with `parameters` (JSON values) and save the executed copy as `output`.

    Raises NotebookFailed with the failing cell's last line; the executed part is in `output` all the same.
    """
    try:
        import papermill
    except ImportError as error:
        raise MissingExtra("papermill", "notebooks", "a report") from error
    if not notebook.is_file():
        raise UsageError(f"no notebook at {notebook}")
    unsafe = sorted(key for key, value in parameters.items() if not _is_json(value))
    if unsafe:
        raise UsageError(f"notebook parameters must be JSON values: {', '.join(unsafe)}")
    output.parent.mkdir(parents=True, exist_ok=True)
    # The debugger's warning about frozen modules would otherwise stand on stderr in every report.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    os.environ.setdefault(PROGRESS_VARIABLE, "lines")  # a bar would freeze in the saved notebook
    on_status(f"executing {notebook.name}")
    try:
        papermill.execute_notebook(
            # papermill runs paths through str.format: braces in a folder's name must survive it
            _literal(notebook),
            _literal(output),
            parameters=dict(parameters),
            kernel_name="python3",
            language="python",
            progress_bar=False,
            log_output=False,
            execution_timeout=cell_timeout,
            start_timeout=120,
            # the kernel's remark about its own loopback sockets is of no use to whoever reads a report
            extra_arguments=["--IPKernelApp.log_level=40"],
            cwd=None,
        )
    except papermill.PapermillExecutionError as error:
        raise NotebookFailed(
            f"{notebook.name} failed in cell {error.cell_index}: {error.ename}: {error.evalue}; "
            f"the executed part is in {output}"
        ) from error


def write_html(notebook: Path, output: Path, *, title: str) -> None:
    """Write an executed notebook as one self-contained HTML file: no code, no scripts, nothing fetched."""
    try:
        import nbformat
        from nbconvert import HTMLExporter
    except ImportError as error:
        raise MissingExtra("nbconvert", "notebooks", "a report") from error
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="template",
        extra_template_basedirs=[str(_TEMPLATES)],
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    document = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    html, _ = exporter.from_notebook_node(document, resources={"metadata": {"title": title}})
    temporary = output.with_suffix(".html.part")
    temporary.write_text(html, "utf-8")
    temporary.replace(output)


def _literal(path: Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(_is_json(item) for item in value)
    return value is None or isinstance(value, str | int | float | bool)
