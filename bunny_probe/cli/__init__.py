"""The command line: thin, one file a group of commands; everything it does is a call into the library.

Exit codes: 0 done, 1 a gate said no, 2 bad usage, 3 endpoint trouble, 4 budget spent, 130 interrupted. Whoever
reads a 1 as a verdict must get it for nothing else: a fault of our own is 70, a reader that went away 141.
"""

from __future__ import annotations

import sys
import traceback
from typing import NoReturn

import typer

from bunny_probe.errors import BunnyError, UsageError

__all__ = ["app", "main"]

app = typer.Typer(
    name="bunny-probe",
    help="Find out how a language model behaves behind an endpoint, and how sure that is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 a gate said no, 2 bad usage, 3 endpoint trouble, 4 budget spent, "
    "70 a fault in bunny-probe itself, 130 interrupted (what was gathered is kept).",
)


_INTERRUPTED = "interrupted; what was gathered is kept, the same command goes on"


def main() -> None:
    """The entry point `bunny-probe`: an expected error is one line on stderr and its exit code."""
    from bunny_probe.cli import commands, examine, planning, release, releases, tools  # noqa: F401  to register

    try:
        app()
    except BunnyError as error:
        _end(error.exit_code, str(error))
    except KeyboardInterrupt:
        _end(130, _INTERRUPTED)
    except SystemExit as ended:
        if ended.code == 130:  # typer catches an interrupt itself, and says nothing
            _end(130, _INTERRUPTED)
        if ended.code == 1:  # and, as rich does, a pipe that nobody reads any more
            sys.exit(141)
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(UsageError.exit_code, f"{where}{error.strerror or error}; what was gathered is kept")
    except Exception:
        from bunny_probe.endpoints.secrets import Redactor

        typer.echo(Redactor()(traceback.format_exc()), err=True)
        _end(70, "this is a fault in bunny-probe: please report the lines above. What was gathered is kept")


def _end(code: int, told: str) -> NoReturn:
    typer.secho(f"bunny-probe: {told}", err=True, fg="red")
    sys.exit(code)
