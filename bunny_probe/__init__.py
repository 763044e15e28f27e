"""Space Bunny: a black-box instrument for the behaviour of language models behind HTTP endpoints.

    from bunny_probe import Target, frame, load_plan, observe, score_run

    plan = load_plan("diagnose-quick")
    observe(plan, Target(endpoint="http://127.0.0.1:8000/v1"), Path("run.db"))
    score_run(Path("run.db"))
    table = frame("run.db")

Everything public is in `__all__`; a name that is not there is ours to change. Names are loaded when first
used, so that importing the library costs milliseconds. The errors are in `bunny_probe.errors`, the fits in
`bunny_probe.fits`, the figures in `bunny_probe.plots`, the simulated endpoint in `bunny_probe.phantom`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bunny_probe.bundled_engine import bundled_engine as bundled_engine
    from bunny_probe.campaign import Plan as Plan
    from bunny_probe.campaign import load_plan as load_plan
    from bunny_probe.campaign import observe as observe
    from bunny_probe.campaign import score_run as score_run
    from bunny_probe.columns import COLUMNS as COLUMNS
    from bunny_probe.endpoints import Endpoint as Endpoint
    from bunny_probe.endpoints import EndpointSpec as EndpointSpec
    from bunny_probe.endpoints import open_endpoint as open_endpoint
    from bunny_probe.errors import BunnyError as BunnyError
    from bunny_probe.estimates import estimates as estimates
    from bunny_probe.records import Anchor as Anchor
    from bunny_probe.records import Attempt as Attempt
    from bunny_probe.records import Decoding as Decoding
    from bunny_probe.records import Expectation as Expectation
    from bunny_probe.records import Message as Message
    from bunny_probe.records import Observation as Observation
    from bunny_probe.records import Outcome as Outcome
    from bunny_probe.records import Probe as Probe
    from bunny_probe.records import Rendered as Rendered
    from bunny_probe.records import Score as Score
    from bunny_probe.records import Trial as Trial
    from bunny_probe.reports import Study as Study
    from bunny_probe.reports import open_study as open_study
    from bunny_probe.runs import Store as Store
    from bunny_probe.runs import frame as frame
    from bunny_probe.scores import score as score
    from bunny_probe.targets import Target as Target
    from bunny_probe.text import render as render

__version__ = "0.1.0"

_HOMES = {
    "COLUMNS": "columns",
    "Anchor": "records",
    "Attempt": "records",
    "BunnyError": "errors",
    "Decoding": "records",
    "Endpoint": "endpoints",
    "EndpointSpec": "endpoints",
    "Expectation": "records",
    "Message": "records",
    "Observation": "records",
    "Outcome": "records",
    "Plan": "campaign",
    "Probe": "records",
    "Rendered": "records",
    "Score": "records",
    "Store": "runs",
    "Study": "reports",
    "Target": "targets",
    "Trial": "records",
    "bundled_engine": "bundled_engine",
    "estimates": "estimates",
    "frame": "runs",
    "load_plan": "campaign",
    "observe": "campaign",
    "open_endpoint": "endpoints",
    "open_study": "reports",
    "render": "text",
    "score": "scores",
    "score_run": "campaign",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
