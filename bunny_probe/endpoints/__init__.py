"""Endpoints: anything that answers, and the client that reads it truthfully.

`EndpointSpec` names one, `open_endpoint` opens it, `Endpoint.attempt` asks it and gives an `Attempt` whatever
comes. Nothing here knows what a probe is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bunny_probe.endpoints.dialects import Dialect, dialect, dialect_names
from bunny_probe.endpoints.preflight import error_for
from bunny_probe.endpoints.pricing import Price, provider_price, table_price
from bunny_probe.endpoints.secrets import Redactor
from bunny_probe.endpoints.spec import EndpointSpec, Timeouts

if TYPE_CHECKING:
    from bunny_probe.endpoints.client import Endpoint as Endpoint
    from bunny_probe.endpoints.client import Exchanged as Exchanged
    from bunny_probe.endpoints.client import open_endpoint as open_endpoint

__all__ = [
    "Dialect",
    "Endpoint",
    "EndpointSpec",
    "Exchanged",
    "Price",
    "Redactor",
    "Timeouts",
    "dialect",
    "dialect_names",
    "error_for",
    "open_endpoint",
    "provider_price",
    "table_price",
]


def __getattr__(name: str) -> Any:
    """The client needs aiohttp; naming an endpoint does not, so it is imported when it is first used."""
    if name in ("Endpoint", "Exchanged", "open_endpoint"):
        from bunny_probe.endpoints import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
