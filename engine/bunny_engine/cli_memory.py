"""`bunny-engine memory`: the bytes that one sequence takes, policy by policy, before anything is loaded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from bunny_engine.errors import OptionError
from bunny_engine.fetch import DEFAULT, KNOWN, resolve

if TYPE_CHECKING:
    import torch

    from bunny_engine.config import ModelConfig

__all__ = ["memory_command", "predictions"]

_MIB = 2**20


def predictions(
    config: ModelConfig, tokens: int, dtype: torch.dtype, *, block: int, resident: int, most: int
) -> list[dict[str, Any]]:
    """A row a policy and stored form: `policy`, `form`, `bits`, `bytes`, `of_full`."""
    from bunny_engine.policies import Policy

    def of(name: str, form: str = "auto", bits: int = 8) -> Policy:
        return Policy(name=name, block=block, resident=resident, form=form, bits=bits, most=most)

    sealing = [("kv", bits) for bits in (16, 8, 4, 3)] + [("x", bits) for bits in (16, 8)]
    chosen = [of("full"), *(of("bsr", *each) for each in sealing), of("top-blocks"), of("window")]
    whole = chosen[0].bytes_for(config, tokens, dtype)
    return [
        {
            "policy": policy.name,
            "form": policy.stored_form(config)[0] if policy.seals else None,
            "bits": policy.bits if policy.seals else 8 * dtype.itemsize,
            "bytes": (size := policy.bytes_for(config, tokens, dtype)),
            "of_full": size / whole,
        }
        for policy in chosen
    ]


def memory_command(
    model: Annotated[
        str,
        typer.Argument(help=f"A known name ({', '.join(KNOWN)}), a .gguf file, or a folder with safetensors."),
    ] = DEFAULT,
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens; the model's own context if unset.")
    ] = None,
    block_size: Annotated[int, typer.Option(help="Tokens a block has.")] = 512,
    resident_blocks: Annotated[int, typer.Option(min=1, help="Newest blocks that stay dense.")] = 2,
    top_blocks: Annotated[int, typer.Option(min=1, help="Sealed blocks that top-blocks rebuilds.")] = 4,
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Predict the bytes that one sequence's memory takes, for each policy and stored form."""
    from bunny_engine.loading import DTYPES, choose_device, choose_dtype
    from bunny_engine.policies import Policy
    from bunny_engine.weights import open_reader

    if dtype not in ("auto", *DTYPES):
        raise OptionError(f"--dtype {dtype!r}; choices: auto, {', '.join(DTYPES)}")
    source = resolve(model)
    reader = open_reader(source)
    config = reader.config
    reader.close()
    number = choose_dtype(cast(Any, dtype), choose_device())
    tokens = context or config.context
    rows = predictions(config, tokens, number, block=block_size, resident=resident_blocks, most=top_blocks)
    form, why = Policy(name="bsr").stored_form(config)
    facts: dict[str, Any] = {
        "model": source.name,
        "tokens": tokens,
        "trained_for": config.context,
        "dtype": str(number).removeprefix("torch."),
        "block": block_size,
        "resident": resident_blocks,
        "auto": form,
        "why": why,
        "policies": rows,
    }
    if as_json:
        print(json.dumps(facts))
        return
    console = Console()
    title = f"{source.name}, {tokens:,} tokens, {facts['dtype']}, blocks of {block_size}"
    table = Table("policy", "stored form", "bits", "MiB", "of full", title=title)
    for row in rows:
        cells = (row["policy"], row["form"] or "dense", row["bits"], f"{row['bytes'] / _MIB:,.1f}")
        table.add_row(*map(str, cells), f"{row['of_full']:.3f}")
    console.print(table)
    console.print(f"auto stores {form}: {why}.", highlight=False)
    worse = [row for row in rows if row["policy"] != "full" and row["of_full"] > 1]
    for row in worse:
        console.print(
            f"{row['policy']} with {row['form']} in {row['bits']} bits takes more than full here.",
            highlight=False,
        )
    if tokens > config.context:
        console.print(f"The model was trained for {config.context:,} tokens only.", highlight=False)
