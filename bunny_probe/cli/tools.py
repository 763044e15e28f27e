"""The commands around the main job: phantom, window, judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bunny_probe.cli import app
from bunny_probe.cli import options as opt
from bunny_probe.cli.options import status
from bunny_probe.errors import UsageError
from bunny_probe.targets import Target

if TYPE_CHECKING:
    from bunny_probe.fits.adaptive import WindowSearch


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


@app.command()
@opt.takes(whom=opt.target)
def window(
    run_file: Annotated[Path, typer.Option("--run", help="The run file; made, or gone on with.")],
    whom: Target,
    by: Annotated[
        str,
        typer.Option(
            help="What is chosen: the prompt's 'length', or a fact's 'depth' in prompts of one length."
        ),
    ] = "length",
    prompt: Annotated[
        int | None, typer.Option(min=256, max=1_048_576, help="By depth: tokens of every prompt.")
    ] = None,
    shortest: Annotated[
        int | None,
        typer.Option(min=1, help="Shortest prompt, or distance from fact to end. None: 512; by depth 128."),
    ] = None,
    longest: Annotated[
        int | None,
        typer.Option(max=1_048_576, help="Longest prompt, or distance. None: 4,096; by depth the prompt."),
    ] = None,
    fraction: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Share of the short-context score that must hold.")
    ] = 0.85,
    width: Annotated[
        float, typer.Option(min=0.05, max=30, help="Stop when the interval is this narrow, in octaves.")
    ] = 1.5,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Stop before this many prompt tokens. None: 200,000; by depth 40 prompts."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Documents asked a step.")] = 4,
    domain: Annotated[str, typer.Option(help="Domain of the haystack.")] = "contract",
    language: Annotated[str, typer.Option(help="en or zh.")] = "en",
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other documents.")] = 0,
    concurrency: opt.Concurrency = 1,
    as_json: opt.Json = False,
) -> None:
    """Find the effective window, asking each time the length that tells most for its tokens.

    A fixed grid asks ten lengths and spends most of its tokens where nothing is learnt. This stops when the
    interval is as narrow as asked for or the budget is spent, and goes on after an interruption.

    With --by depth --prompt 32000 every prompt has that length, facts are asked at chosen depths, and what is
    found is how many of the last tokens count. The same run file goes on with another --budget or --width.
    """
    from bunny_probe.window_search import search_window

    found = search_window(
        whom,
        run_file,
        _search(by, prompt, shortest, longest, fraction, width, budget, repeats),
        domain=domain,
        language=language,
        seed=seed,
        concurrency=concurrency,
        mode="none",  # each step tells where the search stands
        on_status=status,
        on_step=lambda step: status(step.sentence()),
    )
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(found.sentence())


_SHORTEST_PROMPT = 256  # below it the template and the question leave a haystack no room


def _search(
    by: str,
    prompt: int | None,
    shortest: int | None,
    longest: int | None,
    fraction: float,
    width: float,
    budget: int | None,
    repeats: int,
) -> WindowSearch:
    """The search that was asked for, or UsageError where its options contradict each other."""
    from bunny_probe.fits.adaptive import WindowSearch

    if by not in ("length", "depth"):
        raise UsageError(f"--by {by}: the search goes by 'length' or by 'depth'")
    if by == "length" and prompt is not None:
        raise UsageError(f"--prompt {prompt:,} fixes the length: add --by depth, or leave it out")
    if by == "depth" and prompt is None:
        raise UsageError("--by depth asks in prompts of one length: add --prompt TOKENS")
    first = shortest or (512 if prompt is None else 128)
    last = longest or prompt or 4096
    if prompt is None and first < _SHORTEST_PROMPT:
        raise UsageError(f"--shortest {first:,}: a prompt has at least {_SHORTEST_PROMPT} tokens")
    if prompt is not None and last > prompt:
        raise UsageError(f"--longest {last:,}: no fact stands that far before the end of --prompt {prompt:,}")
    if first >= last:
        raise UsageError(f"--shortest {first:,} must be below --longest {last:,}")
    most = budget or (200_000 if prompt is None else 40 * prompt)
    step = repeats * (prompt or first)
    if most < step:
        raise UsageError(f"--budget {most:,} does not pay for one step: {repeats} prompts are {step:,} tokens")
    return WindowSearch(first, last, fraction, width, most, repeats=repeats, prompt=prompt)


@app.command()
@opt.takes(whom=opt.target, without=("tokenizer",))
def judge(
    *,
    run_file: opt.RunFile,
    counted_by: Annotated[
        str, typer.Option(help="URL (or 'engine') of the endpoint whose /tokenize counted the run's prompts.")
    ] = "engine",
    scorer: Annotated[str, typer.Option(help="judge, reward or likelihood.")] = "judge",
    whom: Target,
    rubric: Annotated[str, typer.Option(help="What the judge grades by; empty: a plain one.")] = "",
    votes: Annotated[int, typer.Option(min=1, max=64, help="Votes an answer, half in each order.")] = 4,
    concurrency: opt.Concurrency = 4,
) -> None:
    """Score a run's answers by asking another model; beside the probes' own scores, never instead of them."""
    from bunny_probe.judging import judge_run

    params = {"votes": votes, **({"rubric": rubric} if rubric else {})} if scorer == "judge" else {}
    count = judge_run(
        run_file,
        scorer,
        whom,
        counted_by=Target(endpoint=counted_by),
        params=params,
        concurrency=concurrency,
        on_status=status,
    )
    typer.echo(f"{count:,} answers scored by {scorer} in {run_file}")
