"""The README keeps its promises: every command, notebook and folder that it should name is named."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from bunny_probe.cli import app, commands, examine, planning, release, releases, tools

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_every_command_is_in_the_readme() -> None:
    """A command that nobody can find does not exist."""
    assert {commands, examine, planning, release, releases, tools}  # they register the commands
    names = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert len(names) >= 14
    assert [name for name in names if f"bunny-probe {name}" not in README] == []


def test_every_option_in_the_readme_and_in_the_docs_of_releases_is_one() -> None:
    """What is copied from there works: each --option belongs to some command of either program."""
    import bunny_engine.cli as engine

    known: set[str] = {"--help"}
    for program in (app, engine.app):
        pending = [typer.main.get_command(program)]
        while pending:
            command = pending.pop()
            known.update(name for parameter in command.params for name in parameter.opts)
            pending += getattr(command, "commands", {}).values()
    text = README + (ROOT / "docs/releases.md").read_text("utf-8")
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert len(named) > 25
    assert sorted(named - known) == []


def test_every_notebook_is_in_the_readme() -> None:
    """Likewise for notebooks."""
    found = [path.stem for path in (ROOT / "notebooks").glob("*.ipynb")]
    assert found
    assert [name for name in found if f"`{name}`" not in README] == []


def test_every_top_level_folder_is_in_the_readme() -> None:
    """The layout tells where to go."""
    folders = [
        "bunny_probe",
        "engine",
        "probes",
        "data",
        "notebooks",
        "tests",
        "benchmarks",
        "docs",
        "papermill_runs",
    ]
    assert [name for name in folders if f"{name}/" not in README or not (ROOT / name).is_dir()] == []
