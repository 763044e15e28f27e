"""The command line: fetch the default model, serve a model, look at one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bunny_engine.cli_bench import bench_command
from bunny_engine.cli_memory import memory_command
from bunny_engine.errors import EngineError
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
Weights = Annotated[
    str,
    typer.Option(
        help="How matrices are kept: auto, native, half, bf16, int8, int6, int4, hybrid, or a table such as "
        "'int8,mlp=int4,layers.0.*=bf16'."
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
def info(model: Model = DEFAULT, weights: Weights = "auto", as_json: Json = False) -> None:
    """What a model is, and how this machine would run it: in how many bits each layer is kept, too."""
    from bunny_engine.loading import bits_by_layer, choose_device, choose_dtype, choose_recipe
    from bunny_engine.weights import forms_of, open_reader

    source = resolve(model)
    reader = open_reader(source)
    config = reader.config
    reader.close()
    device = choose_device()
    dtype = choose_dtype("auto", device)
    forms = forms_of(choose_recipe(weights, "auto", device), config.matrices(), dtype)
    token_bytes = 2 * config.layers * config.kv_rows * dtype.itemsize
    facts: dict[str, Any] = {
        "name": source.name,
        "path": str(source.path),
        **config.to_json(),
        "device": str(device),
        "dtype": str(dtype).removeprefix("torch."),
        "weights": [line.strip() for line in bits_by_layer(config, forms)],
        "cache_bytes_per_token": token_bytes,
        "cache": str(cache_dir()),
    }
    _show(facts, as_json)


app.command("memory")(memory_command)
app.command("bench")(bench_command)


@app.command()
def serve(
    model: Model = DEFAULT,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8000,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    weights: Weights = "auto",
    compiled: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile the decode step with this machine's C compiler, once, in seconds: answers are "
            "written faster. A file's own four bits are then kept. On a CPU, with --memory full or window.",
        ),
    ] = False,
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
        str,
        typer.Option(
            help="How threads wait for the next product: brief (spin a moment, then sleep), passive (sleep: "
            "for a machine that is busy with other things), or active (spin)."
        ),
    ] = "brief",
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
        str,
        typer.Option(
            help="full: all dense; bsr: older blocks sealed; top-blocks: of those only the most promising "
            "are read; window: older blocks forgotten."
        ),
    ] = "full",
    block_size: Annotated[int, typer.Option(help="Tokens a block has.")] = 512,
    resident_blocks: Annotated[int, typer.Option(min=1, help="Newest blocks that stay dense.")] = 2,
    bits: Annotated[int, typer.Option(help="Bits of a sealed number: 16, 8, 4 or 3.")] = 8,
    form: Annotated[
        str,
        typer.Option(
            help="What is sealed: kv (keys before RoPE, and values), x (the layer's input, recomputed; 16 or 8 "
            "bits), or auto: the smaller one."
        ),
    ] = "auto",
    top_blocks: Annotated[int, typer.Option(min=1, help="Sealed blocks that top-blocks reads a layer.")] = 4,
    placement: Annotated[
        str, typer.Option(help="Where sealed blocks lie: device, or host (pinned, fetched a layer ahead).")
    ] = "device",
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
            weights=weights,
            compiled=compiled,
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
            form=form,
            top_blocks=top_blocks,
            placement=placement,
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
        said = "\n".join(value) if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), said)
    Console().print(table)


if __name__ == "__main__":
    main()
