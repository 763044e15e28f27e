"""`bunny-engine bench`: what each memory policy costs and where attention goes, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from bunny_engine.errors import OptionError
from bunny_engine.fetch import DEFAULT, KNOWN, resolve
from bunny_engine.waiting import wait_as

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["bench_command", "show"]

_MIB = 2**20


def bench_command(
    model: Annotated[
        str,
        typer.Argument(help=f"A known name ({', '.join(KNOWN)}), a .gguf file, or a folder with safetensors."),
    ] = DEFAULT,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer lengths and turns: a minute or two.")] = False,
    out: Annotated[Path | None, typer.Option("--json", help="Write the figures there, as JSON.")] = None,
    context: Annotated[
        int | None, typer.Option(min=1024, help="The longest length; 8192 if unset, 4096 with --quick.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; one a core if unset.")] = None,
) -> None:
    """Measure the memory policies: bytes and time against full, block sizes, and the locality of attention."""
    if device not in ("auto", "cpu", "cuda"):
        raise OptionError(f"--device {device!r}; choices: auto, cpu, cuda")
    if dtype not in ("auto", "float32", "bfloat16"):
        raise OptionError(f"--dtype {dtype!r}; choices: auto, float32, bfloat16")
    if out is not None and not out.parent.is_dir():
        raise OptionError(f"--json {out}: there is no folder {out.parent}")
    wait_as("brief")  # as `serve` does
    import torch

    from bunny_engine.bench import BenchOptions, measure

    if threads:
        torch.set_num_threads(threads)
    options = BenchOptions(device=cast(Any, device), dtype=cast(Any, dtype), quick=quick, context=context)
    status = Console(stderr=True)
    with status.status("opening the model") as line:
        found = measure(resolve(model), options, progress=lambda text: line.update(text))
    if out is not None:
        part = out.with_name(out.name + ".part")
        part.write_text(json.dumps(found, indent=1))
        part.replace(out)
    show(found, Console())


def show(found: dict[str, Any], console: Console) -> None:
    """Print what `bench.measure` found."""
    console.print(
        f"{found['model']}, {found['device']}, {found['dtype']}, {found['threads']} threads, "
        f"{found['machine']}, {found['when']}",
        highlight=False,
    )
    _costs(console, "Memory policies by length", found["forms"])
    _costs(console, "bsr by block size", found["blocks"])
    long = found["long"]
    _costs(console, f"Random model of the same shape, {long['layers']} layers, {long['dtype']}", long["rows"])
    seen = found["locality"]
    table = Table(
        "layer", "first 4 tokens", "newest 3 blocks", "blocks between", "steps that need one", "heads that do",
        title=f"Share of attention, {seen['length']:,} tokens of prose, last {seen['steps']} steps, "
        f"blocks of {seen['block']}",
    )  # fmt: skip
    for row in [*seen["layers"], {"layer": "mean", **seen["mean"]}]:
        names = (
            "first_4_tokens",
            "newest_3_blocks",
            "blocks_between",
            "steps_needing_one",
            "heads_needing_one",
        )
        table.add_row(str(row["layer"]), *(f"{row[name]:.3f}" for name in names))
    console.print(table)
    table = Table("sealed blocks read", "attention covered", "best choice", title="top-blocks")
    for row in seen["top"]:
        table.add_row(
            f"{row['most']} of {seen['blocks_between']}", f"{row['covered']:.3f}", f"{row['best_possible']:.3f}"
        )
    console.print(table)
    for note in found["notes"]:
        console.print(note, highlight=False)


def _costs(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title=f"{title}; × is against full")
    for name in ("tokens", "policy", "block", "MiB", "×", "ms/token", "×", "ms/prompt token", "×"):
        table.add_column(name, no_wrap=name == "policy", justify="left" if name == "policy" else "right")
    for row in rows:
        table.add_row(
            f"{row['length']:,}", row["name"], str(row["block"] or "—"), f"{row['bytes'] / _MIB:,.1f}",
            f"{row['bytes_of_full']:.3f}", f"{row['token_ms']:.1f}", f"{row['token_of_full']:.2f}",
            f"{row['prompt_ms']:.2f}", f"{row['prompt_of_full']:.2f}",
        )  # fmt: skip
    console.print(table)
