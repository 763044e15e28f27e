"""The commands of the main job: run, diagnose, fit, score, export, frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bunny_probe.bounds import Bounds
from bunny_probe.cli import app
from bunny_probe.cli import options as opt
from bunny_probe.cli.limits import bounds as make_bounds
from bunny_probe.errors import EndpointError, UsageError, unknown_choice
from bunny_probe.targets import Target

if TYPE_CHECKING:
    from bunny_probe.campaign import Observed, Plan
    from bunny_probe.runs import RunSummary

_ON_A_CLOCK = 512  # requests under way at most, in an open loop without a stated concurrency

_out = Console(soft_wrap=True, highlight=False)
_err = Console(stderr=True, soft_wrap=True, highlight=False)


@app.command()
@opt.takes(whom=opt.target, bounds=make_bounds)
def run(
    suite: opt.SuiteName,
    run_file: Annotated[Path, typer.Option("--run", help="The run file; made, or gone on with.")],
    whom: Target,
    bounds: Bounds,
    concurrency: opt.Concurrency = 1,
    as_json: opt.Json = False,
) -> None:
    """Ask a suite's probes, keep every answer, score them.

    Interrupted at any moment, the same command goes on where it stopped: nothing answered is asked again.
    """
    from bunny_probe.campaign import load_plan, observe, score_run

    loaded = load_plan(suite)
    observed = observe(
        loaded,
        whom,
        run_file,
        # On a clock, how many are under way is the server's doing.
        concurrency=_ON_A_CLOCK if bounds.rate and concurrency == 1 else concurrency,
        bounds=bounds,
        on_status=opt.status,
    )
    scored = score_run(run_file)
    summary = _summary(loaded, observed.endpoint, run_file, observed.summary, scored)
    if as_json:
        opt.print_json(summary)
    else:
        _print_summary(summary)
    _refuse_silence(observed)


@app.command()
@opt.takes(whom=opt.target, bounds=make_bounds, without=("rate", "arrivals"))
def diagnose(
    whom: Target,
    bounds: Bounds,
    profile: Annotated[str, typer.Option(help="quick (minutes on a laptop) or standard.")] = "quick",
    suite: Annotated[str, typer.Option(help="A suite instead of a profile's.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder for run, notebook and report.")] = None,
    release: Annotated[str, typer.Option(help="What to call this state of the model, as typed.")] = "",
    concurrency: opt.Concurrency = 1,
    as_json: opt.Json = False,
) -> None:
    """Ask a suite, fit what came back, and write an HTML report.

    Without --endpoint the bundled engine is started and stopped at the end. The folder holds run.db,
    report.ipynb and report.html; the same command again goes on where it stopped, or draws the report anew.
    """
    from bunny_probe.campaign import load_plan, observe, score_run
    from bunny_probe.reports.html import execute, write_html
    from bunny_probe.resources import resource_dir
    from bunny_probe.runs import estimate

    if profile not in opt.PROFILES:
        raise UsageError(unknown_choice("profile", profile, opt.PROFILES))
    loaded = load_plan(suite or opt.PROFILES[profile])
    folder = out or Path("reports") / loaded.suite.name
    run_file, notebook, report = folder / "run.db", folder / "report.ipynb", folder / "report.html"
    told = estimate(loaded.trials)
    opt.status(f"{loaded.suite.name}: {told.calls:,} requests, {told.prompt_tokens:,} prompt tokens")
    observed = observe(loaded, whom, run_file, concurrency=concurrency, bounds=bounds, on_status=opt.status)
    scored = score_run(run_file)
    parameters: dict[str, Any] = {
        "endpoint": whom.endpoint,
        "model": whom.model,
        "suite": suite or loaded.suite.name,
        "release": release,
        "run_path": str(run_file.resolve()),
        "key_env": whom.key_env or "",
        "dialect": whom.dialect,
        "tokenizer": whom.tokenizer or "",
    }
    execute(resource_dir("notebooks") / "diagnose.ipynb", notebook, parameters, on_status=opt.status)
    write_html(notebook, report, title=f"{observed.endpoint}: {loaded.suite.name}")
    summary = _summary(loaded, observed.endpoint, run_file, observed.summary, scored)
    summary["report"] = str(report)
    if as_json:
        opt.print_json(summary)
    else:
        _print_summary(summary)
        _out.print(f"[bold]report:[/bold] {report.resolve()}")
    _refuse_silence(observed)


@app.command()
def fit(run_file: opt.RunFile, as_json: opt.Json = False) -> None:
    """Estimate decay, effective window, recall by depth and entropy from a run, each with its interval."""
    from bunny_probe.estimates import estimates

    found = estimates(run_file)
    opt.tell_gaps(run_file)
    if as_json:
        opt.print_json(
            {name: {key: result.to_json() for key, result in part.items()} for name, part in found.items()}
        )
        return
    for name, part in found.items():
        _out.print(f"[bold]{name}[/bold]")
        for result in part.values():
            _out.print(f"  {result.sentence()}", markup=False)


@app.command()
def score(
    run_file: opt.RunFile,
    anew: Annotated[bool, typer.Option("--anew", help="Score everything again, not only what is new.")] = False,
) -> None:
    """Score the observations of a run. An old run can be scored again with a better scorer."""
    from bunny_probe.campaign import score_run

    _out.print(f"{score_run(run_file, anew=anew):,} observations scored in {run_file}")


@app.command()
@opt.takes(whom=opt.target)
def export(
    *,
    source: Annotated[str, typer.Argument(help="A run file, or a suite (bundled name or TOML file).")],
    export_format: Annotated[str, typer.Option("--format", help="jsonl")] = "jsonl",
    out: Annotated[Path | None, typer.Option(help="The file to write; standard output without.")] = None,
    with_observations: Annotated[
        bool,
        typer.Option("--with-observations", help="Add outcome, text, score and prompt_tokens (runs only)."),
    ] = False,
    whom: Target,
) -> None:
    """Write the probes, and what came back, in a format that another tool loads.

    Prompts are written anew from their recipes, so the endpoint (for its tokenizer) or --tokenizer is needed.
    """
    from bunny_probe.exports import FORMATS, export_source

    if export_format not in FORMATS:
        raise UsageError(unknown_choice("format", export_format, FORMATS))
    count = export_source(
        source, export_format, out, whom, with_observations=with_observations, on_status=opt.status
    )
    _err.print(f"{count:,} lines{f' in {out}' if out else ''}", markup=False)


@app.command()
def frame(
    run_files: Annotated[list[Path], typer.Argument(help="Run files.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")] = Path("observations.parquet"),
) -> None:
    """Write the observations of runs as one Parquet file: a row each, the columns that analysis reads.

    In parts, so that a million observations need no more memory than a few thousand.
    """
    from bunny_probe.runs import to_parquet

    count = to_parquet(run_files, out)
    _err.print(f"{count:,} observations in {out}", markup=False)


# ── what a person or a program reads ────────────────────────────────────────────────────────────────


def _summary(
    loaded: Plan, endpoint: str, run_file: Path, made: RunSummary | None, scored: int
) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "suite": loaded.suite.name,
        "endpoint": endpoint,
        "run": str(run_file),
        "trials": len(loaded.trials),
        "already": len(loaded.trials) if made is None else made.already,
        "asked": 0 if made is None else made.asked,
        "unasked": 0 if made is None else made.unasked,
        "outcomes": {} if made is None else {str(key): count for key, count in made.outcomes.items()},
        "attempts": 0 if made is None else made.attempts,
        "prompt_tokens": 0 if made is None else made.prompt_tokens,
        "completion_tokens": 0 if made is None else made.completion_tokens,
        "dollars": None if made is None else made.cost,
        "elapsed_s": 0.0 if made is None else round(made.elapsed_s, 3),
        "worst_client_lag_s": None if made is None else made.worst_lag_s,
        "timings_invalid": 0 if made is None else made.invalid_timings,
        "spent_on_reasoning": 0 if made is None else made.spent_on_reasoning,
        "scored": scored,
    }
    return summary


def _refuse_silence(observed: Observed) -> None:
    """Raise EndpointError where not one of those asked answered: a script must not go on as after a run."""
    made = observed.summary
    if made is not None and made.asked and made.open and not made.answered:
        raise EndpointError(f"{observed.endpoint} answered nothing; the same command asks again")


def _print_summary(summary: dict[str, Any]) -> None:
    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary["outcomes"].items())
    _out.print(
        f"{summary['endpoint']}: {summary['asked']:,} asked now ({outcomes or 'nothing was left to ask'}), "
        f"{summary['already']:,} of {summary['trials']:,} from before, {opt.duration(summary['elapsed_s'])}",
        markup=False,
    )
    if summary["unasked"]:
        _out.print(f"{summary['unasked']:,} prompts could not be built; see the report", markup=False)
    if summary["dollars"]:
        _out.print(f"spent: ${summary['dollars']:,.4f}", markup=False)
    if summary["timings_invalid"]:
        _out.print(
            f"warning: {summary['timings_invalid']:,} of {summary['attempts']:,} attempts have invalid times: "
            f"this client was up to {summary['worst_client_lag_s'] * 1e3:,.0f} ms late itself. Use fewer at "
            "once, or a machine with more room",
            markup=False,
        )
    if summary["spent_on_reasoning"]:
        _out.print(
            f"warning: {summary['spent_on_reasoning']:,} answers never came: reasoning spent their limit. "
            "Allow more with --reasoning-tokens",
            markup=False,
        )
    _out.print(f"run: {summary['run']}", markup=False)
