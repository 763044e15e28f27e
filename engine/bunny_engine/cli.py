"""The command line: fetch the default model, serve a model, look at one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from bunny_engine.errors import EngineError, OptionError
from bunny_engine.fetch import DEFAULT, KNOWN, cache_dir, fetch, resolve

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="An OpenAI-compatible server for small language models on this machine.",
)
_console = Console(stderr=True, soft_wrap=True, highlight=False)

Model = Annotated[
    str,
    typer.Option(
        "--model", help=f"A known name ({', '.join(KNOWN)}), a .gguf file, or a folder with safetensors."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]


def main() -> None:
    """The entry point: every foreseen error becomes one line and its exit code."""
    try:
        app(standalone_mode=True)
    except EngineError as error:
        _console.print(f"bunny-engine: {error}", style="red", markup=False, highlight=False)
        sys.exit(error.exit_code)


@app.command("fetch")
def fetch_command(as_json: Json = False) -> None:
    """Get the default model, once; it is checked against its pinned hash and kept in the cache."""
    model = KNOWN[DEFAULT]
    with _console.status(f"fetching {model.name} ({model.size / 1e6:.0f} MB, {model.licence})"):
        path = fetch(model)
    if as_json:
        print(json.dumps({"model": model.name, "path": str(path), "bytes": model.size, "sha256": model.sha256}))
    else:
        print(path)


@app.command()
def info(model: Model = DEFAULT, as_json: Json = False) -> None:
    """What a model is, and how this machine would run it."""
    from bunny_engine.loading import choose_device, choose_dtype
    from bunny_engine.weights import open_reader

    source = resolve(model)
    reader = open_reader(source)
    config = reader.config
    reader.close()
    device = choose_device()
    dtype = choose_dtype("auto", device)
    token_bytes = 2 * config.layers * config.kv_rows * dtype.itemsize
    facts: dict[str, Any] = {
        "name": source.name,
        "path": str(source.path),
        **config.to_json(),
        "device": str(device),
        "dtype": str(dtype).removeprefix("torch."),
        "cache_bytes_per_token": token_bytes,
        "cache": str(cache_dir()),
    }
    _show(facts, as_json)


@app.command("memory")
def memory_command(
    model: Model = DEFAULT,
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens; the model's own context if unset.")
    ] = None,
    block_size: Annotated[int, typer.Option(help="Tokens a block of bsr and window has.")] = 512,
    resident_blocks: Annotated[int, typer.Option(min=1, help="Newest blocks that stay dense.")] = 2,
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    as_json: Json = False,
) -> None:
    """Predict the bytes that one sequence's keys and values take, policy by policy."""
    from bunny_engine.loading import DTYPES, choose_device, choose_dtype
    from bunny_engine.policies import Policy
    from bunny_engine.weights import open_reader

    if dtype not in ("auto", *DTYPES):
        raise OptionError(f"--dtype {dtype!r}; choices: auto, {', '.join(DTYPES)}")
    reader = open_reader(resolve(model))
    config = reader.config
    reader.close()
    number = choose_dtype(cast(Any, dtype), choose_device())
    tokens = context or config.context
    sizes = {"block": block_size, "resident": resident_blocks}
    policies = [Policy(name="full"), *(Policy(name="bsr", bits=bits, **sizes) for bits in (8, 4, 3))]
    rows: list[dict[str, Any]] = []
    for policy in (*policies, Policy(name="window", **sizes)):
        size = policy.bytes_for(config, tokens, number)
        name = f"bsr, {policy.bits} bits" if policy.name == "bsr" else policy.name
        rows.append(
            {"policy": name, "bytes": size, "of_full": size / policies[0].bytes_for(config, tokens, number)}
        )
    if as_json:
        print(json.dumps({"tokens": tokens, "dtype": str(number).removeprefix("torch."), "policies": rows}))
        return
    table = Table("policy", "MiB", "of full", title=f"{tokens:,} tokens, {str(number).removeprefix('torch.')}")
    for row in rows:
        table.add_row(str(row["policy"]), f"{row['bytes'] / 2**20:,.1f}", f"{row['of_full']:.3f}")
    Console().print(table)


@app.command()
def serve(
    model: Model = DEFAULT,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8000,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens a request may have; the model's own if unset.")
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable that holds the key clients must send.", metavar="NAME"),
    ] = None,
    allow_open: Annotated[
        bool, typer.Option("--allow-open", help="Listen beyond this machine without a key.")
    ] = False,
    alias: Annotated[
        list[str] | None, typer.Option(help="A further name for the model; may be repeated.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; one a core if unset.")] = None,
    wait: Annotated[
        str, typer.Option(help="How idle threads wait: passive, or active (spin) on a machine of its own.")
    ] = "passive",
    slots: Annotated[int, typer.Option(min=1, help="Requests that run at once.")] = 32,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait before new ones get a 429.")] = 256,
    step_tokens: Annotated[
        int, typer.Option(min=1, help="Prompt tokens between two tokens of running answers.")
    ] = 256,
    cache_mib: Annotated[int, typer.Option(min=1, help="Keys and values of running requests, MiB.")] = 4096,
    prefix_mib: Annotated[
        int, typer.Option(min=0, help="Keys and values kept for shared prefixes, MiB.")
    ] = 1024,
    memory: Annotated[
        str, typer.Option(help="full: all dense; bsr: older blocks sealed; window: older blocks forgotten.")
    ] = "full",
    block_size: Annotated[int, typer.Option(help="Tokens a block of bsr and window has.")] = 512,
    resident_blocks: Annotated[int, typer.Option(min=1, help="Newest blocks that stay dense.")] = 2,
    bits: Annotated[int, typer.Option(help="Bits of a sealed number: 8, 4 or 3.")] = 8,
    ready_file: Annotated[
        Path | None, typer.Option(help="Written when the server answers: JSON with url, model and pid.")
    ] = None,
    parent_pid: Annotated[int | None, typer.Option(help="End when this process ends.")] = None,
) -> None:
    """Serve a model over HTTP, OpenAI-compatible, until Ctrl-C."""
    from bunny_engine.serving import ServeOptions, run

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    run(
        ServeOptions(
            model=model,
            host=host,
            port=port,
            device=device,
            dtype=dtype,
            context=context,
            api_key_env=api_key_env,
            allow_open=allow_open,
            aliases=tuple(alias or ()),
            threads=threads,
            wait=wait,
            slots=slots,
            queue=queue,
            step_tokens=step_tokens,
            cache_bytes=cache_mib << 20,
            prefix_bytes=prefix_mib << 20,
            memory=memory,
            block_size=block_size,
            resident_blocks=resident_blocks,
            bits=bits,
            ready_file=ready_file,
            parent_pid=parent_pid,
        ),
        _console,
    )


def _show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)


if __name__ == "__main__":
    main()
