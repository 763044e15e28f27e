"""What the engine's benchmarks share: the table for people, the JSON with its bars, the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def as_served() -> None:
    """Start this process again with the waiting policy of `bunny-engine serve`: OpenMP reads it only once."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
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
            table.add_row(
                *(f"{value:,.4g}" if isinstance(value, float) else str(value) for value in row.values())
            )
        console.print(table)
        for each in bars:
            mark = "[green]holds[/]" if each["holds"] else "[red]does not hold[/]"
            console.print(f"{each['name']}: {each['value']:.4g} (limit {each['limit']:g}) {mark}")
    sys.exit(0 if all(each["holds"] for each in bars) else 1)
