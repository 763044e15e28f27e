"""The command line: thin, one file a group of commands; everything it does is a call into the library.

Exit codes: 0 done, 1 a gate said no, 2 bad usage, 3 endpoint trouble, 4 budget spent, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from bunny_probe.errors import BunnyError

__all__ = ["app", "main"]

app = typer.Typer(
    name="bunny-probe",
    help="Find out how a language model behaves behind an endpoint, and how sure that is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 a gate said no, 2 bad usage, 3 endpoint trouble, 4 budget spent, "
    "130 interrupted (what was gathered is kept).",
)


def main() -> None:
    """The entry point `bunny-probe`: an expected error is one line on stderr and its exit code."""
    from bunny_probe.cli import commands, examine, planning, release, tools  # noqa: F401  registers them

    try:
        app()
    except BunnyError as error:
        typer.secho(f"bunny-probe: {error}", err=True, fg="red")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as ended:
        if ended.code == 130:  # typer catches an interrupt itself, and says nothing
            _interrupted()
        raise


def _interrupted() -> NoReturn:
    typer.secho("bunny-probe: interrupted; what was gathered is kept, the same command goes on", err=True)
    sys.exit(130)
