"""The commands of the main job: plan, run, diagnose, fit, export, score."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bunny_probe.cli import app
from bunny_probe.cli import options as opt
from bunny_probe.errors import UsageError, unknown_choice

if TYPE_CHECKING:
    from bunny_probe.campaign import Plan
    from bunny_probe.runs import Budget, RunSummary

PROFILES = {"quick": "diagnose-quick", "standard": "diagnose-standard"}

_out = Console(soft_wrap=True, highlight=False)
_err = Console(stderr=True, soft_wrap=True, highlight=False)


@app.command()
def plan(
    suite: opt.SuiteName = "",
    price_prompt: Annotated[
        float | None, typer.Option(help="USD a million prompt tokens, for the cost line.")
    ] = None,
    price_completion: Annotated[
        float | None, typer.Option(help="USD a million answer tokens, for the cost line.")
    ] = None,
    prefill_rate: Annotated[
        float, typer.Option(min=0.001, help="Prompt tokens a second, for the time line.")
    ] = 1000.0,
    decode_rate: Annotated[float, typer.Option(min=0.001, help="Answer tokens a second.")] = 40.0,
    as_json: opt.Json = False,
) -> None:
    """Say what a suite would ask, how long that takes and what it costs. Sends nothing.

    Without a suite, lists the bundled ones.
    """
    from bunny_probe.suites import bundled, load

    if not suite:
        suites = {name: load(path).description for name, path in bundled().items() if _is_suite(path)}
        if as_json:
            _print_json(suites)
            return
        listing = Table("suite", "asks", box=None, header_style="bold")
        for name, description in suites.items():
            listing.add_row(name, description)
        _out.print(listing)
        return
    from bunny_probe.campaign import load_plan

    loaded = load_plan(suite)
    totals = _totals(loaded)
    seconds = totals["prompt_tokens"] / prefill_rate + totals["answer_tokens"] / decode_rate
    dollars = None
    if price_prompt is not None or price_completion is not None:
        dollars = (
            totals["prompt_tokens"] * (price_prompt or 0.0)
            + totals["answer_tokens"] * (price_completion or 0.0)
        ) / 1e6
    if as_json:
        rows = [asdict(row) for row in loaded.rows()]
        _print_json(
            {
                "suite": loaded.suite.name,
                **totals,
                "seconds_at_most": seconds,
                "dollars_at_most": dollars,
                "rows": rows,
            }
        )
        return
    _out.print(_plan_table(loaded))
    _out.print(
        f"{totals['trials']:,} requests, {totals['prompt_tokens']:,} prompt tokens, at most "
        f"{totals['answer_tokens']:,} answer tokens"
        + (
            f" ({totals['natural_length']:,} requests at their natural length are not in the token count)"
            if totals["natural_length"]
            else ""
        )
    )
    _out.print(
        f"at {prefill_rate:,.0f} prompt and {decode_rate:,.0f} answer tokens a second, one request at a time: "
        f"at most {_duration(seconds)}; a server that keeps shared prefixes needs less"
    )
    if dollars is not None:
        _out.print(f"at the given prices: at most ${dollars:,.4f}")


@app.command()
def run(
    suite: opt.SuiteName,
    run_file: Annotated[Path, typer.Option("--run", help="The run file; made, or gone on with.")],
    endpoint: opt.EndpointUrl = "engine",
    model: opt.ModelName = "",
    key_env: opt.KeyEnv = "",
    dialect: opt.Dialect = "openai-chat",
    header: opt.Header = None,
    tokenizer: opt.Tokenizer = "",
    allow_insecure: opt.AllowInsecure = False,
    concurrency: opt.Concurrency = 1,
    max_calls: Annotated[int | None, typer.Option(min=0, help="Stop before call number N+1.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=0, help="Stop before this many tokens are exceeded.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Ask a suite's probes, keep every answer, score them.

    Interrupted at any moment, the same command goes on where it stopped: nothing answered is asked again.
    """
    from bunny_probe.campaign import load_plan, observe, score_run

    loaded = load_plan(suite)
    whom = opt.target(endpoint, model, key_env, dialect, header, tokenizer, allow_insecure)
    observed = observe(
        loaded,
        whom,
        run_file,
        concurrency=concurrency,
        budget=_budget(max_calls, max_tokens),
        on_status=opt.status,
    )
    scored = score_run(run_file)
    summary = _summary(loaded, observed.endpoint, run_file, observed.summary, scored)
    if as_json:
        _print_json(summary)
    else:
        _print_summary(summary)


@app.command()
def diagnose(
    endpoint: opt.EndpointUrl = "engine",
    model: opt.ModelName = "",
    key_env: opt.KeyEnv = "",
    dialect: opt.Dialect = "openai-chat",
    header: opt.Header = None,
    tokenizer: opt.Tokenizer = "",
    allow_insecure: opt.AllowInsecure = False,
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

    if profile not in PROFILES:
        raise UsageError(unknown_choice("profile", profile, PROFILES))
    loaded = load_plan(suite or PROFILES[profile])
    whom = opt.target(endpoint, model, key_env, dialect, header, tokenizer, allow_insecure)
    folder = out or Path("reports") / loaded.suite.name
    run_file, notebook, report = folder / "run.db", folder / "report.ipynb", folder / "report.html"
    totals = _totals(loaded)
    opt.status(f"{loaded.suite.name}: {totals['trials']:,} requests, {totals['prompt_tokens']:,} prompt tokens")
    observed = observe(loaded, whom, run_file, concurrency=concurrency, on_status=opt.status)
    scored = score_run(run_file)
    parameters: dict[str, Any] = {
        "endpoint": endpoint,
        "model": model,
        "suite": suite or loaded.suite.name,
        "release": release,
        "run_path": str(run_file.resolve()),
        "key_env": key_env,
        "dialect": dialect,
        "tokenizer": tokenizer,
    }
    execute(resource_dir("notebooks") / "diagnose.ipynb", notebook, parameters, on_status=opt.status)
    write_html(notebook, report, title=f"{observed.endpoint}: {loaded.suite.name}")
    summary = _summary(loaded, observed.endpoint, run_file, observed.summary, scored)
    summary["report"] = str(report)
    if as_json:
        _print_json(summary)
    else:
        _print_summary(summary)
        _out.print(f"[bold]report:[/bold] {report.resolve()}")


@app.command()
def fit(run_file: opt.RunFile, as_json: opt.Json = False) -> None:
    """Estimate decay, effective window, recall by depth and entropy from a run, each with its interval."""
    from bunny_probe.estimates import estimates

    found = estimates(run_file)
    if as_json:
        _print_json(
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

    if not run_file.is_file():
        raise UsageError(f"no run file at {run_file}")
    _out.print(f"{score_run(run_file, anew=anew):,} observations scored in {run_file}")


@app.command()
def export(
    source: Annotated[str, typer.Argument(help="A run file, or a suite (bundled name or TOML file).")],
    export_format: Annotated[str, typer.Option("--format", help="jsonl")] = "jsonl",
    out: Annotated[Path | None, typer.Option(help="The file to write; standard output without.")] = None,
    with_observations: Annotated[
        bool,
        typer.Option("--with-observations", help="Add outcome, text, score and prompt_tokens (runs only)."),
    ] = False,
    endpoint: opt.EndpointUrl = "engine",
    model: opt.ModelName = "",
    key_env: opt.KeyEnv = "",
    dialect: opt.Dialect = "openai-chat",
    header: opt.Header = None,
    tokenizer: opt.Tokenizer = "",
    allow_insecure: opt.AllowInsecure = False,
) -> None:
    """Write the probes, and what came back, in a format that another tool loads.

    Prompts are written anew from their recipes, so the endpoint (for its tokenizer) or --tokenizer is needed.
    """
    from bunny_probe.exports import FORMATS, export_source

    if export_format not in FORMATS:
        raise UsageError(unknown_choice("format", export_format, FORMATS))
    whom = opt.target(endpoint, model, key_env, dialect, header, tokenizer, allow_insecure)
    count = export_source(
        source, export_format, out, whom, with_observations=with_observations, on_status=opt.status
    )
    _err.print(f"{count:,} lines{f' in {out}' if out else ''}", markup=False)


# ── what a person or a program reads ────────────────────────────────────────────────────────────────


def _is_suite(path: Path) -> bool:
    """Template files lie beside the suites; they hold no [[probe]] table."""
    return "[[probe]]" in path.read_text("utf-8")


def _totals(loaded: Plan) -> dict[str, int]:
    rows = loaded.rows()
    return {
        "trials": sum(row.trials for row in rows),
        "prompt_tokens": sum(row.prompt_tokens or 0 for row in rows),
        "answer_tokens": sum(row.answer_tokens for row in rows),
        "natural_length": sum(row.trials for row in rows if row.prompt_tokens is None),
    }


def _plan_table(loaded: Plan) -> Table:
    table = Table(box=None, header_style="bold", title=f"{loaded.suite.name}: {loaded.suite.description}")
    table.title_justify = "left"
    for name in ("family", "task"):
        table.add_column(name)
    for name in ("length", "requests", "documents", "prompt tokens", "answer tokens"):
        table.add_column(name, justify="right")
    for row in loaded.rows():
        table.add_row(
            row.family,
            row.task,
            "natural" if row.length_tokens is None else f"{row.length_tokens:,}",
            f"{row.trials:,}",
            f"{row.documents:,}",
            "-" if row.prompt_tokens is None else f"{row.prompt_tokens:,}",
            f"{row.answer_tokens:,}",
        )
    return table


def _budget(calls: int | None, tokens: int | None) -> Budget | None:
    from bunny_probe.runs import Budget

    return None if calls is None and tokens is None else Budget(calls=calls, tokens=tokens)


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
        "elapsed_s": 0.0 if made is None else round(made.elapsed_s, 3),
        "scored": scored,
    }
    return summary


def _print_summary(summary: dict[str, Any]) -> None:
    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary["outcomes"].items())
    _out.print(
        f"{summary['endpoint']}: {summary['asked']:,} asked now ({outcomes or 'nothing was left to ask'}), "
        f"{summary['already']:,} of {summary['trials']:,} from before, {_duration(summary['elapsed_s'])}",
        markup=False,
    )
    if summary["unasked"]:
        _out.print(f"{summary['unasked']:,} prompts could not be built; see the report", markup=False)
    _out.print(f"run: {summary['run']}", markup=False)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))
