"""What is done with filed releases: releases list | show | compare | gate | pin, and site."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bunny_probe.cli import app
from bunny_probe.cli import options as opt
from bunny_probe.errors import GateRefused, RunError, UsageError

if TYPE_CHECKING:
    from bunny_probe.releases import Entry

releases = typer.Typer(
    name="releases",
    help="What releases were run, how they compare, and whether one may go out.",
    no_args_is_help=True,
)
app.add_typer(releases)

_out = Console(soft_wrap=True, highlight=False)

Release = Annotated[
    str, typer.Argument(help="A release as it was typed, or RELEASE/ID for one run of it.", show_default=False)
]


@releases.command("list")
def list_(runs: opt.Runs = opt.ROOT, as_json: opt.Json = False) -> None:
    """Every run of every release, the newest first, with the state that is true now."""
    from bunny_probe.releases import Index

    index = Index(runs)
    entries = index.entries()[::-1]
    if as_json:
        opt.print_json({"baseline": index.baseline(), "runs": [entry.to_json() for entry in entries]})
        return
    if not entries:
        _out.print(f"no release in {runs}; `bunny-probe release NAME` makes one", markup=False)
        return
    table = Table(
        "release", "begun (UTC)", "state", "endpoints", "failed", "run", box=None, header_style="bold"
    )
    for entry in entries:
        pinned = " (baseline)" if entry.release == index.baseline() else ""
        table.add_row(
            entry.release + pinned, entry.started[:16].replace("T", " "),
            entry.state + (" (phantom)" if entry.simulated else ""), ", ".join(entry.endpoints),
            ", ".join(entry.failed) or "-", entry.id,
        )  # fmt: skip
    _out.print(table)


@releases.command()
def show(release: Release, runs: opt.Runs = opt.ROOT, as_json: opt.Json = False) -> None:
    """One release: its numbers with intervals, n and denominator, and where its reports are."""
    from bunny_probe.releases import Index
    from bunny_probe.releases.history import reports_of, summaries_of

    entry = Index(runs).of(release, among=_ANY)
    summaries, reports = summaries_of(runs, entry), reports_of(runs, entry)
    if as_json:
        opt.print_json({**entry.to_json(), "summaries": summaries, "reports": [str(path) for path in reports]})
        return
    _headline(entry)
    for endpoint, summary in summaries.items():
        _out.print(f"\n[bold]{endpoint}[/bold] {', '.join(summary['models'])}")
        table = Table("metric", box=None, header_style="bold")
        for heading in ("value", "interval", "n"):
            table.add_column(heading, justify="right")
        table.add_column("of")
        for told in summary["metrics"].values():
            table.add_row(*_row(told))
        _out.print(table)
    for report in reports:
        _out.print(f"report: {report}", markup=False)


@releases.command()
def compare(
    first: Release,
    second: Release,
    endpoint: Annotated[str, typer.Option(help="One endpoint's name; empty: all that both asked.")] = "",
    margin: Annotated[float, typer.Option(min=0, max=1, help="Difference of scores nobody would mind.")] = 0.05,
    runs: opt.Runs = opt.ROOT,
    as_json: opt.Json = False,
) -> None:
    """How SECOND moved against FIRST, on the same probes: better, same within a margin, worse, undecided."""
    from bunny_probe.releases import Index
    from bunny_probe.releases.history import compare_releases

    found = compare_releases(Index(runs), first, second, endpoint=endpoint, margin=margin)
    if as_json:
        opt.print_json(found)
        return
    for name, part in found["endpoints"].items():
        _out.print(f"[bold]{name}[/bold]: {part['sentence']}")
        table = Table("metric", found["first"], found["second"], "difference", "verdict", box=None,
                      header_style="bold")  # fmt: skip
        for told in part["metrics"]:
            table.add_row(
                told["title"], told["before_text"], told["after_text"], told["difference_text"], told["verdict"]
            )
        _out.print(table)


@releases.command()
def gate(
    release: Release,
    rules: Annotated[str, typer.Option(help="A TOML file of rules, or the name of a bundled one.")] = "default",
    previous: Annotated[str, typer.Option(help="The release to hold it to; empty: the one before.")] = "",
    baseline: Annotated[str, typer.Option(help="The baseline; empty: the pinned one.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="What is undecided blocks as well.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a summary for a pull request here.")] = None,
    runs: opt.Runs = opt.ROOT,
    as_json: opt.Json = False,
) -> None:
    """Hold a release to its rules; exit code 1 with the reasons when it must not go out."""
    from dataclasses import replace

    from bunny_probe.outfile import check_outfile
    from bunny_probe.releases import Index, load_rules
    from bunny_probe.releases import gate as judge
    from bunny_probe.releases.job import write_json
    from bunny_probe.releases.site import GATE

    for path in (junit, markdown):
        if path is not None:
            check_outfile(path)
    loaded = load_rules(rules)
    if strict:
        loaded = replace(loaded, rules=tuple(replace(rule, strict=True) for rule in loaded.rules))
    found = judge(Index(runs), release, loaded, previous=previous, baseline=baseline)
    if as_json:
        opt.print_json(found.to_json())
    else:
        for check in found.checks:
            _out.print(f"{check.decision:>9}  {check.endpoint}: {check.rule}: {check.reason}", markup=False)
        _out.print(found.sentence(), markup=False)
    # The verdict first: a disk that fills up now must not take it along.
    try:
        for path, text in ((junit, found.junit), (markdown, found.markdown)):
            if path is not None:
                path.write_text(text(), "utf-8")
        path = runs / found.folder / GATE
        write_json(path, found.to_json())
    except OSError as error:
        raise RunError(f"{path} cannot be written ({error.strerror or error}); the verdict holds") from None
    if not found.passed:
        raise GateRefused("\n  ".join([found.sentence(), *found.reasons()]))


@releases.command()
def pin(release: Release, runs: opt.Runs = opt.ROOT) -> None:
    """Make a release the baseline that later ones are held to."""
    from bunny_probe.releases import Index
    from bunny_probe.releases.index import utc

    Index(runs).pin(release, utc())
    _out.print(f"baseline: {release}", markup=False)


@app.command()
def site(
    out: Annotated[Path | None, typer.Option(help="The folder to write; empty: `site` below --runs.")] = None,
    runs: opt.Runs = opt.ROOT,
) -> None:
    """Write a static site of all releases: index, trend lines with intervals, every report.

    It opens from disk and needs no network and no script.
    """
    from bunny_probe.releases import Index, build_site

    index = Index(runs)
    if not os.path.isdir(runs):  # noqa: PTH112  a name too long does not raise
        raise UsageError(f"there is no folder {runs}: name that of all releases with --runs")
    _out.print(f"site: {build_site(index, out or runs / 'site')}", markup=False)


_ANY = frozenset({"running", "done", "partial", "failed", "interrupted"})


def _headline(entry: Entry) -> None:
    phantom = ", answered by the phantom: no result of a model" if entry.simulated else ""
    _out.print(f"release {entry.release}, run {entry.id}: {entry.state}{phantom}", markup=False)
    if entry.reason:
        _out.print(entry.reason, markup=False)


def _row(told: dict[str, Any]) -> list[str]:
    from bunny_probe.measures import amount

    unit = told["unit"]
    if told["value"] is None:
        return [told["name"], told["reason"] or "not known", "", str(told["n"]), told["denominator"]]
    interval = f"{amount(told['low'], unit, bare=True)} to {amount(told['high'], unit, bare=True)}"
    return [told["name"], amount(told["value"], unit), interval, str(told["n"]), told["denominator"]]
