"""Endpoints: anything that answers, and the client that reads it truthfully.

`EndpointSpec` names one, `open_endpoint` opens it, `Endpoint.attempt` asks it and gives an `Attempt` whatever
comes. Nothing here knows what a probe is about.
"""

from __future__ import annotations

from bunny_probe.endpoints.client import Endpoint, Exchanged, open_endpoint
from bunny_probe.endpoints.dialects import Dialect, dialect, dialect_names
from bunny_probe.endpoints.preflight import error_for
from bunny_probe.endpoints.secrets import Redactor
from bunny_probe.endpoints.spec import EndpointSpec, Timeouts

__all__ = [
    "Dialect",
    "Endpoint",
    "EndpointSpec",
    "Exchanged",
    "Redactor",
    "Timeouts",
    "dialect",
    "dialect_names",
    "error_for",
    "open_endpoint",
]
