"""What a token costs: stated by the caller, by the provider, or by the price table in `data/prices.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bunny_probe.endpoints.spec import EndpointSpec
from bunny_probe.errors import UsageError
from bunny_probe.resources import resource_dir

if TYPE_CHECKING:
    from bunny_probe.endpoints.client import Endpoint

__all__ = ["Price", "provider_price", "table_price"]


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a million tokens, and a request."""

    prompt: float
    completion: float
    request: float = 0.0
    source: Literal["given", "provider", "table"] = "given"
    note: str = ""  # where and when a table's figure comes from, for people

    def __post_init__(self) -> None:
        for name in ("prompt", "completion", "request"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"a price's {name} must be a number of dollars of at least 0")

    def told(self) -> str:
        """The price in words, with where it comes from."""
        where = {
            "given": "given price",
            "provider": "provider's own price",
            "table": self.note or "table's price",
        }
        return f"{where[self.source]} of ${self.prompt:g} and ${self.completion:g} a million tokens"

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return self.request + (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


def table_price(spec: EndpointSpec, table: Path | None = None) -> Price | None:
    """The first line of a price table that fits the endpoint's host and model; None when none does.

    Raises:
        UsageError: the table cannot be read; names the file and the line.
    """
    path = table or resource_dir("data") / "prices.toml"
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the price table {path} cannot be read: {error}") from None
    about: dict[str, Any] = content.get("about", {})
    for number, line in enumerate(content.get("price", ()), start=1):
        try:
            if fnmatchcase(spec.host, line["host"]) and fnmatchcase(spec.model, line["model"]):
                noted = line.get("noted", about.get("noted", "undated"))
                note = f"{about.get('kind', 'own')} price, noted {noted}"
                prompt, completion = float(line["prompt"]), float(line["completion"])
                return Price(prompt, completion, float(line.get("request", 0.0)), "table", note)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{path}: price[{number}]: needs host, model, prompt, completion ({error})"
            ) from None
    return None


async def provider_price(endpoint: Endpoint) -> Price | None:
    """What the endpoint's own list of models says that the model costs (OpenRouter's form), or None."""
    from bunny_probe.endpoints.preflight import model_cards

    for card in await model_cards(endpoint):
        pricing = card.get("pricing")
        if card.get("id") == endpoint.spec.model and isinstance(pricing, dict):
            try:
                per_token = [float(pricing.get(name) or 0) for name in ("prompt", "completion", "request")]
                return Price(per_token[0] * 1e6, per_token[1] * 1e6, per_token[2], "provider")
            except (TypeError, ValueError, UsageError):
                return None
    return None
