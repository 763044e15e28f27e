"""The command that makes a release: asks its endpoints, runs the notebooks, files everything."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console

from bunny_probe.cli import app
from bunny_probe.cli import options as opt
from bunny_probe.errors import BunnyError, EndpointError, UsageError, unknown_choice

_out = Console(soft_wrap=True, highlight=False)


@app.command()
def release(
    name: Annotated[
        str, typer.Argument(metavar="RELEASE", help="What to call it, such as 1.10; kept as typed.")
    ],
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--endpoint",
            "-e",
            help="URL, NAME=URL, engine or NAME=engine; may be repeated. Releases are compared by NAME.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="MODEL for all, or NAME=MODEL; may be repeated.")
    ] = None,
    key_env: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME of the variable that holds the key, for all, or ENDPOINT=NAME. Never the key itself."
        ),
    ] = None,
    dialect: Annotated[list[str] | None, typer.Option(help="Dialect for all, or ENDPOINT=DIALECT.")] = None,
    tokenizer: Annotated[
        list[str] | None, typer.Option(help="A tokenizer.json for all, or ENDPOINT=FILE.")
    ] = None,
    header: opt.Header = None,
    allow_insecure: opt.AllowInsecure = False,
    timeout: opt.Timeout = None,
    notebooks: Annotated[
        str, typer.Option(help="Notebooks, separated by commas: bundled names or paths.")
    ] = "diagnose,release_regression",
    profile: Annotated[str, typer.Option(help="quick or standard: the suite to ask.")] = "",
    suite: Annotated[
        list[str] | None,
        typer.Option(help="A suite to ask; may be repeated. Without one, those of the notebooks."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="NAME=VALUE for the notebooks, a string as typed; NAME:=JSON for any value."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="Notebooks at a time.")] = 2,
    concurrency: opt.Concurrency = 1,
    cell_timeout: Annotated[float, typer.Option(min=1, help="Seconds that a cell may take.")] = 900.0,
    notebook_timeout: Annotated[float, typer.Option(min=5, help="Seconds that a notebook may take.")] = 1800.0,
    baseline: Annotated[
        str, typer.Option(help="The release to hold it to besides the one before; empty: the pinned one.")
    ] = "",
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin another run, also where one of the same arguments is there.")
    ] = False,
    runs: opt.Runs = opt.ROOT,
    as_json: opt.Json = False,
) -> None:
    """Ask the endpoints, run the notebooks, and file everything under papermill_runs/RELEASE.

    The same command again goes on where it stopped. A notebook or an endpoint that fails is told, the rest
    go on, and the exit code is then 1; it is 3 when no endpoint could be asked.
    """
    from bunny_probe.releases import asked_endpoints, build, make_request

    if profile and profile not in opt.PROFILES:
        raise UsageError(unknown_choice("profile", profile, opt.PROFILES))
    if profile and suite:
        raise UsageError("give --profile or --suite, not both")
    request = make_request(
        name,
        asked_endpoints(
            endpoint or ["engine"],
            models=model or (),
            key_envs=key_env or (),
            dialects=dialect or (),
            tokenizers=tokenizer or (),
            headers=dict(opt.pairs("--header", header)),
            allow_insecure=allow_insecure,
            timeout=timeout,
        ),
        notebooks=[text.strip() for text in notebooks.split(",") if text.strip()],
        suites=[opt.PROFILES[profile]] if profile else suite or (),
        settings=_settings(setting or ()),
        jobs=jobs,
        concurrency=concurrency,
        cell_timeout=cell_timeout,
        notebook_timeout=notebook_timeout,
        baseline=baseline,
        root=runs,
    )
    built = build(request, anew=anew, on_status=opt.status)
    if as_json:
        opt.print_json(built.to_json())
    else:
        _out.print(f"release {built.entry.release}: {built.entry.state}, {built.folder}", markup=False)
        for report in built.reports:
            _out.print(f"report: {report}", markup=False)
    if built.failures:
        told = "; ".join(f"{part}: {why}" for part, why in built.failures)
        kind = EndpointError if built.unreached else BunnyError
        raise kind(f"release {built.entry.release} is {built.entry.state}: {told}")


def _settings(given: list[str] | tuple[()]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.rstrip(":").isidentifier():
            raise UsageError(f"--set {text!r}: write NAME=VALUE, or NAME:=JSON")
        if not name.endswith(":"):
            found[name] = value
            continue
        try:
            found[name[:-1]] = json.loads(value)
        except ValueError as error:
            raise UsageError(f"--set {text!r}: not JSON: {error}") from None
    return found
