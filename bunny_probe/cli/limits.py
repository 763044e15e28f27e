"""Options that bound a run: a budget, a price, rates; and what they mean."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import typer

from bunny_probe.bounds import Bounds
from bunny_probe.endpoints import Price
from bunny_probe.errors import UsageError

__all__ = ["Arrivals", "PriceOption", "bounds", "rate_of"]

_BOUNDS = "Bounds"

BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        help="A hard limit: '$5', '2M tokens' or '200 calls'. May be repeated. The worst case of each call is "
        "set aside before it is sent, so that no limit is ever passed.",
        rich_help_panel=_BOUNDS,
    ),
]
PriceOption = Annotated[
    str,
    typer.Option(
        "--price",
        help="USD a million tokens as PROMPT/ANSWER, such as 0.15/0.60; 'provider' asks the endpoint's list of "
        "models, 'table' looks into data/prices.toml. Empty: the provider's, else the table's.",
        rich_help_panel=_BOUNDS,
    ),
]
RequestsPerMinute = Annotated[
    int | None,
    typer.Option("--requests-per-minute", min=1, help="In no minute more than these.", rich_help_panel=_BOUNDS),
]
TokensPerMinute = Annotated[
    int | None,
    typer.Option(
        "--tokens-per-minute",
        min=1,
        help="Prompt and answer tokens together, in any minute.",
        rich_help_panel=_BOUNDS,
    ),
]
Rate = Annotated[
    str,
    typer.Option(
        "--rate",
        help="Send on a clock whatever the answers take, such as 2/s or 30/min; times then count from the "
        "moment that the clock named. Empty: as soon as an earlier request is answered.",
        rich_help_panel=_BOUNDS,
    ),
]
Arrivals = Annotated[
    str,
    typer.Option("--arrivals", help="With --rate: poisson (independent) or constant.", rich_help_panel=_BOUNDS),
]

_ABSURD = 1e15
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def bounds(
    budget: BudgetOption = None,
    price: PriceOption = "",
    requests_per_minute: RequestsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    rate: Rate = "",
    arrivals: Arrivals = "poisson",
) -> Bounds:
    """What these options say; `takes(bounds=...)` gives them to a command. Raises UsageError."""
    limits: dict[str, float] = {}
    for text in budget or ():
        kind, amount = _limit(text)
        if amount >= _ABSURD:
            raise UsageError(
                f"--budget {text[:40]!r}: more than anything could spend; leave it out for no limit"
            )
        if kind in limits:
            raise UsageError(f"--budget {text!r}: a limit in {kind} is given already")
        limits[kind] = amount
    return Bounds(
        dollars=limits.get("dollars"),
        tokens=int(limits["tokens"]) if "tokens" in limits else None,
        calls=int(limits["calls"]) if "calls" in limits else None,
        price=_price(price),
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        rate=rate_of(rate),
        arrivals=arrivals,
    )


def _limit(text: str) -> tuple[Literal["dollars", "tokens", "calls"], float]:
    plain = text.strip().lower().replace(",", "").replace("_", "")
    if found := re.fullmatch(r"\$\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(?:usd|dollars?)", plain):
        return "dollars", float(found[1] or found[2])
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)\s*tokens?", plain):
        return "tokens", float(found[1]) * _UNITS[found[2]]
    if found := re.fullmatch(r"(\d+)\s*(?:calls?|requests?)", plain):
        return "calls", float(found[1])
    raise UsageError(f"--budget {text!r}: write '$5', '2M tokens' or '200 calls'")


def _price(text: str) -> Price | Literal["provider", "table", ""]:
    """A price that is stated, or where to look for one. Raises UsageError."""
    where = text.strip()
    if where in ("provider", "table", ""):
        return where  # type: ignore[return-value]
    try:
        prompt, completion = (float(part) for part in where.replace("$", "").split("/"))
    except ValueError:
        raise UsageError(f"--price {text!r}: write PROMPT/ANSWER, such as 0.15/0.60") from None
    return Price(prompt, completion)


def rate_of(text: str) -> float | None:
    """Requests a second; None without a rate. Raises UsageError."""
    if not text.strip():
        return None
    number, _, unit = text.strip().partition("/")
    seconds = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}.get(unit.strip())
    try:
        rate = float(number) / (seconds or 0)
    except (ValueError, ZeroDivisionError):
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise UsageError(f"--rate {text!r}: write 2/s, 30/min or 100/h")
    return rate
