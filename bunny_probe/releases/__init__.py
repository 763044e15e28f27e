"""Releases: batch runs of notebooks over endpoints, their index, the gate between two of them, and the site.

build(make_request(release, endpoints, …)) ──▶ papermill_runs/<release>/<utc>-<id>/ + a line in the index
gate(Index(root), release, load_rules()) ──▶ GateResult        build_site(Index(root), folder) ──▶ index.html
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bunny_probe.releases.building import Built as Built
    from bunny_probe.releases.building import build as build
    from bunny_probe.releases.gating import GateResult as GateResult
    from bunny_probe.releases.gating import gate as gate
    from bunny_probe.releases.index import Entry as Entry
    from bunny_probe.releases.index import Index as Index
    from bunny_probe.releases.judging import Check as Check
    from bunny_probe.releases.judging import Side as Side
    from bunny_probe.releases.judging import judge as judge
    from bunny_probe.releases.places import ROOT as ROOT
    from bunny_probe.releases.places import Asked as Asked
    from bunny_probe.releases.places import asked_endpoints as asked_endpoints
    from bunny_probe.releases.places import folder_name as folder_name
    from bunny_probe.releases.request import Request as Request
    from bunny_probe.releases.request import make_request as make_request
    from bunny_probe.releases.rules import Rules as Rules
    from bunny_probe.releases.rules import load_rules as load_rules
    from bunny_probe.releases.site import build_site as build_site
    from bunny_probe.releases.summary import load_results as load_results
    from bunny_probe.releases.summary import summary_of as summary_of

_HOMES = {
    "ROOT": "places",
    "Asked": "places",
    "Built": "building",
    "Check": "judging",
    "Entry": "index",
    "GateResult": "gating",
    "Index": "index",
    "Request": "request",
    "Rules": "rules",
    "Side": "judging",
    "asked_endpoints": "places",
    "build": "building",
    "build_site": "site",
    "folder_name": "places",
    "gate": "gating",
    "judge": "judging",
    "load_results": "summary",
    "load_rules": "rules",
    "make_request": "request",
    "summary_of": "summary",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
