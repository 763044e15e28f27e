"""The public surface: what is promised is there, and nothing more is promised by accident."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bunny_probe

PUBLIC = [
    "Anchor", "Attempt", "BunnyError", "COLUMNS", "Decoding", "Endpoint", "EndpointSpec", "Expectation",
    "Message", "Observation", "Outcome", "Plan", "Probe", "Rendered", "Score", "Store", "Study", "Target",
    "Trial", "__version__", "bundled_engine", "estimates", "frame", "load_plan", "observe", "open_endpoint",
    "open_study", "render", "score", "score_run",
]  # fmt: skip


def test_all_is_what_is_promised() -> None:
    """A name enters or leaves the public surface only together with this list."""
    assert sorted(bunny_probe.__all__) == sorted(PUBLIC)
    assert bunny_probe.__all__ == sorted(bunny_probe.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_name_loads(name: str) -> None:
    """Every public name can be had from the package itself."""
    assert getattr(bunny_probe, name) is not None


def test_submodules_win_over_nothing() -> None:
    """A name that is not public is an AttributeError that names it."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        bunny_probe.nonsense  # noqa: B018


def test_importing_the_library_loads_nothing_heavy() -> None:
    """The bare import and the help of the command line touch none of the slow libraries."""
    code = (
        "import sys, bunny_probe, bunny_probe.cli.commands, bunny_probe.cli.tools;"
        "print([m for m in ('torch','spacy','matplotlib','pandas','scipy','seaborn','papermill','statsmodels')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
