"""The command that sends nothing: what a suite would ask, how long that takes and what it costs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bunny_probe.bounds import Bounds, find_price, stated_price
from bunny_probe.cli import app
from bunny_probe.cli import options as opt
from bunny_probe.cli.limits import bounds as make_bounds
from bunny_probe.endpoints import Price, open_endpoint
from bunny_probe.targets import Target, reach

if TYPE_CHECKING:
    from bunny_probe.campaign import Plan
    from bunny_probe.runs import Estimate

_out = Console(soft_wrap=True, highlight=False)


@app.command()
@opt.takes(whom=opt.target, bounds=make_bounds, without=("tokenizer", "header", "field", "timeout", "arrivals"))
def plan(
    whom: Target,
    bounds: Bounds,
    suite: opt.SuiteName = "",
    prefill_rate: Annotated[
        float, typer.Option(min=0.001, help="Prompt tokens a second of one request, for the time.")
    ] = 1000.0,
    decode_rate: Annotated[
        float, typer.Option(min=0.001, help="Answer tokens a second of one request.")
    ] = 40.0,
    concurrency: opt.Concurrency = 1,
    as_json: opt.Json = False,
) -> None:
    """Say what a suite would ask, how long that takes and what it costs. Asks no probe.

    Without a suite, lists the bundled ones. The price is that of --endpoint in the price table, or what --price
    states; --price provider looks it up at the endpoint.
    """
    if not suite:
        _list_suites(as_json)
        return
    from bunny_probe.campaign import load_plan
    from bunny_probe.runs import estimate

    loaded = load_plan(suite)
    told = estimate(
        loaded.trials,
        price=_price(whom, bounds),
        prefill_rate=prefill_rate,
        decode_rate=decode_rate,
        concurrency=concurrency,
        requests_per_minute=bounds.requests_per_minute,
        tokens_per_minute=bounds.tokens_per_minute,
        reasoning_tokens=whom.reasoning_tokens,
        rate=bounds.rate,
    )
    if as_json:
        opt.print_json(_as_json(loaded, told, bounds))
        return
    _out.print(_table(loaded))
    for line in _lines(told, bounds, prefill_rate, decode_rate, concurrency):
        _out.print(line, markup=False)
    if told.price is not None and told.price.source == "table" and whom.place is None:
        _out.print(
            "that price is from the table, for planning asks nobody; a run pays the provider's where it states "
            "one: see it with --price provider",
            markup=False,
        )


def _price(whom: Target, bounds: Bounds) -> Price | None:
    if bounds.price != "provider":
        return (
            stated_price(whom.spec(), bounds.price)
            if whom.place is None
            else stated_price(whom.spec(url="http://127.0.0.1"), bounds.price)
        )
    from bunny_probe.runs import run_sync

    with reach(whom, opt.status) as spec:

        async def ask() -> Price | None:
            async with open_endpoint(spec) as endpoint:
                return await find_price(endpoint, "provider")

        return run_sync(ask)


def _lines(
    told: Estimate, bounds: Bounds, prefill_rate: float, decode_rate: float, concurrency: int
) -> list[str]:
    guessed = (
        f" ({told.estimated_prompts:,} requests have their natural length, which is guessed here)"
        if told.estimated_prompts
        else ""
    )
    lines = [
        f"{told.calls:,} requests, {told.prompt_tokens:,} prompt tokens, at most {told.answer_tokens:,} answer "
        f"tokens{guessed}"
    ]
    if told.seconds is not None:
        limits = [
            f"{value:g} {name}"
            for value, name in (
                (bounds.requests_per_minute, "requests a minute"),
                (bounds.tokens_per_minute, "tokens a minute"),
                (bounds.rate, "requests a second"),
            )
            if value
        ]
        within = f", within {' and '.join(limits)}" if limits else ""
        lines.append(
            f"at {prefill_rate:,.0f} prompt and {decode_rate:,.0f} answer tokens a second, {concurrency:,} at "
            f"a time{within}: at most {opt.duration(told.seconds)}; a server that keeps shared prefixes needs "
            "less"
        )
    if told.dollars is not None and told.price is not None:
        lines.append(f"at the {told.price.told()}: at most ${told.dollars:,.4f}")
    else:
        lines.append("no price is known: name one with --price PROMPT/ANSWER, or the endpoint with --endpoint")
    return lines


def _as_json(loaded: Plan, told: Estimate, bounds: Bounds) -> dict[str, Any]:
    return {
        "suite": loaded.suite.name,
        "trials": told.calls,
        "prompt_tokens": told.prompt_tokens,
        "answer_tokens": told.answer_tokens,
        "natural_length": told.estimated_prompts,
        "longest_prompt": told.longest_prompt,
        "seconds_at_most": told.seconds,
        "dollars_at_most": told.dollars,
        "price": None if told.price is None else asdict(told.price),
        "within_budget": _within(told, bounds),
        "rows": [asdict(row) for row in loaded.rows()],
    }


def _within(told: Estimate, bounds: Bounds) -> bool | None:
    """Whether the whole plan fits into the budget at its worst; None without a budget, or a price for it."""
    needed = {
        "dollars": told.dollars,
        "tokens": told.prompt_tokens + told.answer_tokens,
        "calls": told.calls,
    }
    limits = [(getattr(bounds, name), need) for name, need in needed.items()]
    asked = [(limit, need) for limit, need in limits if limit is not None]
    if not asked or any(need is None for _, need in asked):
        return None
    return all(need <= limit for limit, need in asked)


def _list_suites(as_json: bool) -> None:
    from bunny_probe.suites import bundled, load

    suites = {name: load(path).description for name, path in bundled().items() if _is_suite(path)}
    if as_json:
        opt.print_json(suites)
        return
    listing = Table("suite", "asks", box=None, header_style="bold")
    for name, description in suites.items():
        listing.add_row(name, description)
    _out.print(listing)


def _is_suite(path: Path) -> bool:
    """Template files lie beside the suites; they hold no [[probe]] table."""
    return "[[probe]]" in path.read_text("utf-8")


def _table(loaded: Plan) -> Table:
    table = Table(
        box=None,
        padding=(0, 1, 0, 0),
        header_style="bold",
        title=f"{loaded.suite.name}: {loaded.suite.description}",
    )
    table.title_justify = "left"
    for name in ("family", "task"):
        table.add_column(name)
    for name in ("length", "requests", "documents", "prompt tokens", "answer tokens"):
        table.add_column(name, justify="right")
    for row in loaded.rows():
        table.add_row(
            row.family,
            row.task,
            "natural" if row.length_tokens is None else f"{row.length_tokens:,}",
            f"{row.trials:,}",
            f"{row.documents:,}",
            "-" if row.prompt_tokens is None else f"{row.prompt_tokens:,}",
            f"{row.answer_tokens:,}",
        )
    return table
