"""Options that several commands share, said once."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from bunny_probe.errors import UsageError
from bunny_probe.targets import Target

__all__ = [
    "PROFILES",
    "ROOT",
    "AllowInsecure",
    "Concurrency",
    "Dialect",
    "EndpointUrl",
    "Field",
    "Header",
    "Json",
    "KeyEnv",
    "ModelName",
    "ReasoningTokens",
    "RunFile",
    "Runs",
    "SuiteName",
    "Timeout",
    "Tokenizer",
    "duration",
    "pairs",
    "print_json",
    "status",
    "takes",
    "target",
    "tell_gaps",
]

_WHO, _HOW = "Endpoint", "How"
PROFILES = {"quick": "diagnose-quick", "standard": "diagnose-standard"}  # name → suite
ROOT = Path("papermill_runs")

SuiteName = Annotated[str, typer.Argument(help="A bundled suite or the path of a TOML file.")]
RunFile = Annotated[Path, typer.Argument(help="A run file.", show_default=False)]
Runs = Annotated[Path, typer.Option("--runs", help="The folder of all releases.")]
EndpointUrl = Annotated[
    str,
    typer.Option(
        "--endpoint",
        "-e",
        help="Base URL, such as http://127.0.0.1:8000/v1; 'engine' starts the bundled one.",
        rich_help_panel=_WHO,
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="A name the endpoint serves; for the bundled engine also a GGUF file or a Hugging Face folder. "
        "Empty: the only one served.",
        rich_help_panel=_WHO,
    ),
]
KeyEnv = Annotated[
    str,
    typer.Option(
        "--key-env",
        help="NAME of the environment variable that holds the key. The key itself is never an option.",
        rich_help_panel=_WHO,
    ),
]
Dialect = Annotated[
    str,
    typer.Option(
        help="openai-chat, openai-completions, anthropic-messages or openrouter.", rich_help_panel=_WHO
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        help="NAME=VALUE, sent with each request; VALUE may be env:VARIABLE. May be repeated.",
        rich_help_panel=_WHO,
    ),
]
Tokenizer = Annotated[
    str,
    typer.Option(
        help="A tokenizer.json to count prompt tokens with. Empty: the endpoint's own /tokenize.",
        rich_help_panel=_WHO,
    ),
]
AllowInsecure = Annotated[
    bool,
    typer.Option(
        "--allow-insecure", help="Send the key over plain http to a public host.", rich_help_panel=_WHO
    ),
]
Concurrency = Annotated[
    int,
    typer.Option(
        "--concurrency", "-c", min=1, max=1024, help="Requests under way at once.", rich_help_panel=_HOW
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program.", rich_help_panel=_HOW)]


Field = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        help="NAME=JSON, a further field of each request's body, such as "
        'provider=\'{"order": ["DeepInfra"]}\'. May be repeated.',
        rich_help_panel=_WHO,
    ),
]
ReasoningTokens = Annotated[
    int,
    typer.Option(
        "--reasoning-tokens",
        min=0,
        help="Room for a reasoning model's thoughts, on top of each answer's own limit.",
        rich_help_panel=_WHO,
    ),
]

Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.1,
        max=86_400,
        help="Seconds to the first byte of an answer; silence after that may last as long, but 120 at most. An "
        "attempt that takes longer is tried once more. Empty: 600, and 120 for questions of a few words.",
        show_default=False,
        rich_help_panel=_WHO,
    ),
]


def target(
    endpoint: EndpointUrl = "engine",
    model: ModelName = "",
    key_env: KeyEnv = "",
    dialect: Dialect = "openai-chat",
    header: Header = None,
    tokenizer: Tokenizer = "",
    allow_insecure: AllowInsecure = False,
    field: Field = None,
    reasoning_tokens: ReasoningTokens = 0,
    timeout: Timeout = None,
) -> Target:
    """The endpoint that these options name; `takes(whom=target)` gives them to a command.

    Raises UsageError for a malformed header or field, and for a tokenizer that is not there.
    """
    fields: dict[str, Any] = {}
    for name, value in pairs("--field", field):
        try:
            fields[name] = json.loads(value, parse_constant=_no_json)
        except (ValueError, RecursionError):
            raise UsageError(
                f"--field {name}: its value is not JSON (a text needs quotes of its own)"
            ) from None
    made = Target(
        endpoint=endpoint,
        model=model,
        dialect=dialect,
        key_env=key_env or None,
        headers=dict(pairs("--header", header)),
        options=fields,
        tokenizer=tokenizer or None,
        reasoning_tokens=reasoning_tokens,
        allow_insecure=allow_insecure,
        timeout=timeout,
    )
    made.check_tokenizer()  # also where nothing is left to ask: a word mistyped is told all the same
    return made


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)  # NaN and Infinity, which Python reads and no server does


def pairs(option: str, given: list[str] | None) -> Iterator[tuple[str, str]]:
    """The parts of NAME=VALUE, as often as it was given. Raises UsageError."""
    for item in given or []:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} {name!r}: write NAME=VALUE")
        yield name.strip(), value.strip()


def takes(
    *, without: Sequence[str] = (), **made: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For a command that wants a thing that several options make: `takes(whom=target)` replaces its parameter
    `whom` by the options of `target`, but for those in `without`, and hands in what `target` makes of them."""
    options = {
        thing: {name: parameter for name, parameter in _parameters(make).items() if name not in without}
        for thing, make in made.items()
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        shown: dict[str, inspect.Parameter] = {}
        for name, parameter in _parameters(command).items():
            shown |= options.get(name, {name: parameter})

        @wraps(command)
        def called(**given: Any) -> None:
            for thing, make in made.items():
                given[thing] = make(**{name: given.pop(name) for name in options[thing]})
            command(**given)

        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in shown.values()]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


def tell_gaps(*run_files: Path) -> None:
    """What a reader of numbers should know: a run without observations, or one that is not all scored."""
    from bunny_probe.runs import Store

    for path in run_files:
        with Store(path, write=False) as store:
            observations, unscored = store.counts()["observations"], store.unscored()
        if not observations:
            status(f"warning: {path} holds no observation yet: `bunny-probe run SUITE --run {path}` asks")
        elif unscored:
            status(
                f"warning: {unscored:,} of {observations:,} observations are not scored, and count nowhere: "
                f"`bunny-probe score {path}` scores them"
            )


def status(text: str) -> None:
    """A line about the work, for a person: dim, on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(text, style="dim", markup=False)


def print_json(value: Any) -> None:
    """One line for a program."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def duration(seconds: float) -> str:
    """A length of time for a person."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
