"""The commands around the main job: phantom."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bunny_probe.cli import app


@app.command()
def phantom(
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A preset; may be repeated. None: all presets.")
    ] = None,
    behaviour: Annotated[
        list[Path] | None, typer.Option(help="A TOML or JSON file of models; may be repeated.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="JSON Lines of right answers, as `bunny-probe export` writes them.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    script: Annotated[
        list[str] | None, typer.Option(help="A fault for the next request; may be repeated.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="NAME of the variable with the key that clients must send.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Gets url, model and pid as JSON once requests are taken.")
    ] = None,
) -> None:
    """Serve a simulated endpoint of known truth, to check an instrument against. Runs until Ctrl-C.

    Every model it serves is named phantom-…, so that nothing it says can pass for a model's answer.
    """
    from bunny_probe.phantom import load_behaviours, preset, serve

    behaviours = [preset(name) for name in model or []]
    for path in behaviour or []:
        behaviours += load_behaviours(path)
    serve(
        behaviours or None,
        key,
        host=host,
        port=port,
        ready_file=ready_file,
        script=script or (),
        api_key_env=api_key_env,
    )
