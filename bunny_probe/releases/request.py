"""What a release is asked to be: the arguments, checked before anything is sent or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bunny_probe.campaign import Plan, load_plan
from bunny_probe.errors import UsageError
from bunny_probe.records import content_hash
from bunny_probe.releases.notebook import Notebook, find_notebook
from bunny_probe.releases.places import ROOT, Asked

__all__ = ["DEFAULT_NOTEBOOKS", "Request", "make_request"]

DEFAULT_NOTEBOOKS = ("diagnose", "release_regression")
_FALLBACK_SUITE = "diagnose-quick"


@dataclass(frozen=True, slots=True)
class Request:
    release: str  # as typed
    endpoints: tuple[Asked, ...]
    notebooks: tuple[Notebook, ...]
    plans: tuple[Plan, ...]  # what every endpoint is asked, in this order, into one run file
    suites: tuple[str, ...]  # their names or paths, as a notebook takes them
    settings: Mapping[str, Any] = field(default_factory=dict)  # further parameters for the notebooks
    jobs: int = 2  # notebooks at a time
    concurrency: int = 1  # requests at a time
    cell_timeout: float = 900.0  # seconds
    notebook_timeout: float = 1800.0  # seconds, kernel start included
    baseline: str = ""  # a release; empty: the pinned one
    root: Path = ROOT

    @property
    def arguments(self) -> str:
        """Hash of what decides the results: the same again goes on with the same run."""
        return content_hash(
            [
                self.release,
                [asked.to_json() for asked in self.endpoints],
                [notebook.name for notebook in self.notebooks],
                [content_hash(plan.suite.file.read_text("utf-8")) for plan in self.plans],
                dict(self.settings),
            ]
        )

    def suite_for(self, notebook: Notebook) -> str:
        """The notebook's own suite where it was asked, else the first."""
        own = notebook.parameters.get("suite")
        return own if own in self.suites else self.suites[0]

    def to_json(self) -> dict[str, Any]:
        """What release.json keeps; no credential is among it."""
        return {
            "release": self.release,
            "endpoints": [asked.to_json() for asked in self.endpoints],
            "notebooks": [notebook.name for notebook in self.notebooks],
            "suites": [plan.suite.name for plan in self.plans],
            "trials": sum(len(plan.trials) for plan in self.plans),
            "settings": dict(self.settings),
            "jobs": self.jobs,
            "concurrency": self.concurrency,
            "cell_timeout_s": self.cell_timeout,
            "notebook_timeout_s": self.notebook_timeout,
            "baseline": self.baseline,
        }


def make_request(
    release: str,
    endpoints: Sequence[Asked],
    *,
    notebooks: Sequence[str] = DEFAULT_NOTEBOOKS,
    suites: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Request:
    """Checks all of it. Without suites, those that the notebooks ask for on their own.

    Raises UsageError (SuiteError for a suite) that says what is allowed.
    """
    if not endpoints:
        raise UsageError("a release needs an endpoint: --endpoint URL, NAME=URL or engine")
    found = [find_notebook(text) for text in notebooks]
    if not found:
        raise UsageError("a release needs a notebook: --notebooks diagnose,release_regression")
    names = [notebook.name for notebook in found]
    if len(set(names)) < len(names):
        raise UsageError(f"two notebooks have one name: {', '.join(sorted(names))}")
    for name in settings or {}:
        if all(name not in notebook.parameters for notebook in found):
            known = sorted({parameter for notebook in found for parameter in notebook.parameters})
            raise UsageError(f"no notebook takes a parameter {name!r}. There are: {', '.join(known)}")
    wanted = list(suites) or sorted({str(n.parameters["suite"]) for n in found if n.parameters.get("suite")})
    wanted = wanted or [_FALLBACK_SUITE]
    return Request(
        release=release,
        endpoints=tuple(endpoints),
        notebooks=tuple(found),
        plans=tuple(load_plan(suite) for suite in wanted),
        suites=tuple(str(Path(suite).resolve()) if Path(suite).is_file() else suite for suite in wanted),
        settings=dict(settings or {}),
        **options,
    )
