"""The commands that look at an endpoint itself: doctor and load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from bunny_probe.bounds import Bounds
from bunny_probe.cli import app
from bunny_probe.cli import options as opt
from bunny_probe.cli.limits import rate_of
from bunny_probe.cli.options import status
from bunny_probe.endpoints import open_endpoint
from bunny_probe.errors import EndpointError, UsageError
from bunny_probe.records import Probe, Rendered
from bunny_probe.targets import Target, reach, renderer

if TYPE_CHECKING:
    from bunny_probe.endpoints.doctor import Diagnosis
    from bunny_probe.runs.load import LoadRow, Quantile

_out = Console(soft_wrap=True, highlight=False)
_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red", "unknown": "dim"}


@app.command()
@opt.takes(whom=opt.target, without=("tokenizer",))
def doctor(
    whom: Target,
    search_context: Annotated[
        bool,
        typer.Option("--search-context", help="Look for the context limit; costs long prompts."),
    ] = False,
    most_tokens: Annotated[int, typer.Option(min=1024, help="Longest prompt of that search.")] = 131_072,
    as_json: opt.Json = False,
) -> None:
    """Examine an endpoint: key, model, streaming, usage, log-probabilities, seed, penalties, limits, clock.

    Says what is wrong and what to do about it. About a dozen short requests. What it finds is kept, and later
    runs against the endpoint look at it before they ask.
    """
    from bunny_probe.endpoints.capabilities import remember
    from bunny_probe.endpoints.doctor import examine
    from bunny_probe.runs import run_sync

    with reach(whom, status) as spec:

        async def look(shown: Status) -> Diagnosis:
            async with open_endpoint(spec if search_context else whom.hasty(spec)) as opened:
                return await examine(
                    opened,
                    search_context=search_context,
                    most_tokens=most_tokens,
                    on_finding=lambda item: shown.update(f"examining {spec.name}: {item.step}: {item.status}"),
                )

        with Console(stderr=True).status(f"examining {spec.name}") as shown:  # a terminal alone sees it
            found = run_sync(lambda: look(shown))
    if found.examined:
        try:
            remember(found.fingerprint, found.capabilities)
        except OSError as error:
            status(f"the record of what was found could not be kept: {error}")
    if as_json:
        opt.print_json({**asdict(found), "usable": found.usable})
    else:
        table = Table(
            "step", "", "what was seen", "what to do", box=None, header_style="bold", title=found.endpoint
        )
        table.title_justify = "left"
        for item in found.findings:
            colour = _COLOURS[item.status]
            table.add_row(item.step, f"[{colour}]{item.status}[/{colour}]", item.told, item.advice)
        _out.print(table)
    if not found.usable:
        raise EndpointError(f"{found.endpoint} cannot be used as it is: see the failures above")


@app.command()
@opt.takes(whom=opt.target)
def load(
    whom: Target,
    lengths: Annotated[str, typer.Option(help="Prompt tokens, separated by commas.")] = "256,1024,4096",
    concurrencies: Annotated[
        str, typer.Option(help="Requests in flight, separated by commas; empty: none of these cells.")
    ] = "1,4,8,16,20",
    rates: Annotated[
        str,
        typer.Option(help="Open loop as well: requests a second, such as 0.5,1,2; times count from the clock."),
    ] = "",
    arrivals: Annotated[str, typer.Option(help="With --rates: poisson (independent) or constant.")] = "poisson",
    requests: Annotated[int, typer.Option(min=1, help="Requests a cell, after the warm-up.")] = 40,
    warm_up: Annotated[int, typer.Option(min=0, help="Requests a cell that are not counted.")] = 2,
    as_json: opt.Json = False,
) -> None:
    """Measure time to first token and latency under load: each length at each concurrency and rate, no prompt
    twice.

    Percentiles carry intervals; one that so few requests cannot bound is left open rather than stated.
    """
    from bunny_probe.runs import run_sync
    from bunny_probe.runs.load import load_table

    lengths_, concurrencies_ = _numbers("--lengths", lengths), _numbers("--concurrencies", concurrencies)
    rates_ = [rate for part in rates.split(",") if (rate := rate_of(part)) is not None]
    Bounds(arrivals=arrivals)  # refuses an unknown law before anything is asked
    with reach(whom, status) as spec, renderer(spec, whom.tokenizer) as render:

        async def measure() -> list[LoadRow]:
            async with open_endpoint(spec) as opened:
                return await load_table(
                    opened,
                    _prompts(render),
                    lengths=lengths_,
                    concurrencies=concurrencies_,
                    rates=rates_,
                    arrivals=lambda rate: Bounds(rate=rate, arrivals=arrivals).schedule() or iter(()),
                    requests=requests,
                    warm_up=warm_up,
                    progress=lambda row: status(
                        f"{row.prompt_tokens:,} tokens, {_load(row)}: {row.timed} timed"
                    ),
                )

        rows = run_sync(measure)
    if as_json:
        opt.print_json([{**asdict(row), "error_rate": row.error_rate} for row in rows])
        return
    table = Table(box=None, header_style="bold", title=f"{spec.name}: seconds, 95 % intervals in brackets")
    table.title_justify = "left"
    names = (
        "tokens",
        "load",
        "n",
        "errors",
        "TTFT P50",
        "TTFT P95",
        "latency P50",
        "P95",
        "P99",
        "tokens/s",
    )
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            f"{row.prompt_tokens:,}",
            _load(row),
            str(row.timed),
            f"{row.error_rate:.0%}",
            *(_seconds(row.ttft[name]) for name in ("p50", "p95")),
            *(_seconds(row.latency[name]) for name in ("p50", "p95", "p99")),
            "-" if row.answer_tokens_per_s is None else f"{row.answer_tokens_per_s:.1f}",
        )
    _out.print(table)


def _prompts(render: Callable[[Probe], Rendered]) -> Callable[[int, int], Rendered]:
    """The number-th prompt of so many tokens, none sharing its text with another."""
    from bunny_probe.families import probes
    from bunny_probe.suites import Entry

    def prompt(tokens: int, number: int) -> Rendered:
        entry = Entry(family="length", task="single", lengths=(tokens,), seed=number, where="load table")
        return render(next(iter(probes(entry))))

    return prompt


def _load(row: LoadRow) -> str:
    return f"{row.concurrency} in flight" if row.rate is None else f"{row.rate:g}/s"


def _numbers(option: str, text: str) -> list[int]:
    if not text.strip():
        return []
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise UsageError(f"{option} {text!r}: write whole numbers above 0, separated by commas")
    return found


def _seconds(quantile: Quantile) -> str:
    if quantile.value is None:
        return "n too small"
    low = "?" if quantile.low is None else f"{quantile.low:.3f}"
    high = "?" if quantile.high is None else f"{quantile.high:.3f}"
    return f"{quantile.value:.3f} [{low}, {high}]"
