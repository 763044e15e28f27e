"""What a provider says of the key itself: its limit and what is left of it. OpenRouter's `GET /key`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bunny_probe.endpoints.reading import decode

if TYPE_CHECKING:
    from bunny_probe.endpoints.client import Endpoint

__all__ = ["KeyLimits", "key_limits"]


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Dollars. None: not said, or no limit."""

    limit: float | None
    left: float | None
    spent: float | None
    free_tier: bool | None
    requests: int | None = None  # allowed in each `interval`
    interval: str | None = None  # as the provider writes it: "10s"

    def told(self) -> str:
        left = "no limit on the key" if self.left is None else f"${self.left:,.4f} left on the key"
        spent = "" if self.spent is None else f", ${self.spent:,.4f} spent"
        rate = f", {self.requests:,} requests in {self.interval}" if self.requests and self.interval else ""
        return f"{left}{spent}{rate}{', free tier' if self.free_tier else ''}"


async def key_limits(endpoint: Endpoint) -> KeyLimits | None:
    """None where the provider has no such operation, or does not tell. Never raises for what it answers."""
    import httpx

    if endpoint.spec.dialect != "openrouter":
        return None
    try:
        response = await endpoint.http.get(endpoint.spec.join("/key"))
        data = decode(response.content)["data"] if response.status_code == 200 else None
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None
    if not isinstance(data, dict):
        return None
    rate = data.get("rate_limit")
    rate = rate if isinstance(rate, dict) else {}
    limit, left, spent = (_dollars(data.get(name)) for name in ("limit", "limit_remaining", "usage"))
    if left is None and limit is not None and spent is not None:
        left = max(0.0, limit - spent)
    free, requests, interval = data.get("is_free_tier"), rate.get("requests"), rate.get("interval")
    return KeyLimits(
        limit,
        left,
        spent,
        free if isinstance(free, bool) else None,
        requests if type(requests) is int and requests > 0 else None,
        interval if isinstance(interval, str) else None,
    )


def _dollars(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    return float(value) if good else None
