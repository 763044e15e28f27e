"""Options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bunny_probe.campaign import Target
from bunny_probe.errors import UsageError

__all__ = [
    "AllowInsecure",
    "Concurrency",
    "Dialect",
    "EndpointUrl",
    "Header",
    "Json",
    "KeyEnv",
    "ModelName",
    "RunFile",
    "SuiteName",
    "Tokenizer",
    "status",
    "target",
]

_WHO, _HOW = "Endpoint", "How"

SuiteName = Annotated[str, typer.Argument(help="A bundled suite or the path of a TOML file.")]
RunFile = Annotated[Path, typer.Argument(help="A run file.", show_default=False)]
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
    str, typer.Option(help="openai-chat, openai-completions or anthropic-messages.", rich_help_panel=_WHO)
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


def target(
    endpoint: str,
    model: str,
    key_env: str,
    dialect: str,
    header: list[str] | None,
    tokenizer: str,
    allow_insecure: bool,
) -> Target:
    """The endpoint that these options name. Raises UsageError for a malformed header."""
    headers = {}
    for item in header or []:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--header {item.partition('=')[0]!r}: write NAME=VALUE")
        headers[name.strip()] = value.strip()
    return Target(
        endpoint=endpoint,
        model=model,
        dialect=dialect,
        key_env=key_env or None,
        headers=headers,
        tokenizer=tokenizer or None,
        allow_insecure=allow_insecure,
    )


def status(text: str) -> None:
    """A line about the work, for a person: dim, on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(text, style="dim", markup=False)
