"""What the engine's benchmarks share: the table for people, the JSON with its bars, the exit code."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from bunny_engine.waiting import wait_as
from rich.console import Console
from rich.table import Table


def as_served() -> None:
    """Start this process again with the waiting policy of `bunny-engine serve`: OpenMP reads it only once."""
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        wait_as("brief")
        os.execv(sys.executable, [sys.executable, *sys.argv])


def bar(name: str, value: float, limit: float, *, most: bool = False) -> dict[str, Any]:
    """A claim that is checked: `value` is at least `limit`, or with `most` at most."""
    return {"name": name, "value": value, "limit": limit, "holds": value <= limit if most else value >= limit}


def report(
    title: str, rows: Sequence[dict[str, Any]], bars: Sequence[dict[str, Any]], *, as_json: bool, **facts: Any
) -> None:
    """Print everything and end the process: 0 only if every bar holds."""
    if as_json:
        print(json.dumps({"benchmark": title, **facts, "rows": rows, "bars": bars}))
    else:
        console = Console()
        console.print(f"[bold]{title}[/]  " + "  ".join(f"{name}: {value}" for name, value in facts.items()))
        table = Table(*rows[0])
        for row in rows:
            table.add_row(*(_cell(value) for value in row.values()))
        console.print(table)
        for each in bars:
            mark = "[green]holds[/]" if each["holds"] else "[red]does not hold[/]"
            console.print(f"{each['name']}: {each['value']:.4g} (limit {each['limit']:g}) {mark}")
    sys.exit(0 if all(each["holds"] for each in bars) else 1)


def write_page(
    page: Path,
    name: str,
    rows: Sequence[dict[str, Any]],
    bars: Sequence[dict[str, Any]],
    facts: dict[str, Any],
    *,
    measured: bool = True,
) -> None:
    """Put the table and its bars between this benchmark's markers in a Markdown page, with machine and date."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = page.read_text("utf-8")
    if begin not in text or end not in text:
        sys.exit(f"{page} has no lines {begin} and {end}")
    said = ", ".join(f"{fact} {value}" for fact, value in facts.items())
    done = "Measured" if measured else "Not measured"
    lines = [f"{done}, {date.today().isoformat()}, {machine()}; {said}.", ""]
    lines += ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(_cell(value) for value in row.values()) + " |" for row in rows]
    if bars:
        lines += ["", "| claim | measured | limit | |", "|---|---|---|---|"]
    for each in bars:
        mark = "holds" if each["holds"] else "**does not hold**"
        lines.append(
            f"| {each['name'].replace('|', chr(92) + '|')} | {each['value']:.4g} | {each['limit']:g} | {mark} |"
        )
    head, rest = text.split(begin, 1)
    page.write_text(head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end, 1)[1], "utf-8")


def machine() -> str:
    """The processor, as the system names it, and its cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def _cell(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
