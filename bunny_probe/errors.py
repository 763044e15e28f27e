"""Every error that this library raises on purpose.

    BunnyError                      exit code 1
    ├── UsageError                  exit code 2   the caller asked for something that cannot be
    │   ├── SuiteError                            a suite file: names the file, the key and what is allowed
    │   ├── WorksheetError                        a cost worksheet or claims table, told in the same way
    │   ├── LengthError                           a prompt cannot have the asked length
    │   └── MissingExtra                          an optional dependency is not installed
    ├── EndpointError               exit code 3   the endpoint cannot be used at all
    │   ├── EndpointUnreachable                   nothing answers there
    │   ├── Unauthorised                          401 or 403
    │   ├── ModelNotFound                         404, or not among the served models
    │   └── ProtocolError                         it answers, but not in the dialect that was named
    ├── BudgetSpent                 exit code 4   the next call could exceed the stated budget
    ├── GateRefused                 exit code 1   a release gate said no
    ├── RunError                    exit code 2   a run file cannot be used as asked
    │   └── RunLocked                             another process is writing to it
    └── FitRefused                  exit code 1   the data cannot carry the asked estimate

What one HTTP exchange came to is never an exception: it is an `Outcome` (see `records`). Errors are for
what stops the work. Messages name the thing and the way out, and never hold a secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

__all__ = [
    "BudgetSpent",
    "BunnyError",
    "EndpointError",
    "EndpointUnreachable",
    "FitRefused",
    "GateRefused",
    "LengthError",
    "MissingExtra",
    "ModelNotFound",
    "ProtocolError",
    "RunError",
    "RunLocked",
    "SuiteError",
    "Unauthorised",
    "UsageError",
    "WorksheetError",
    "unknown_choice",
]


class BunnyError(Exception):
    """The root. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class UsageError(BunnyError):
    exit_code: ClassVar[int] = 2


class SuiteError(UsageError):
    """A fault in a suite file, told with the file, the key and what is allowed there."""

    def __init__(self, message: str, *, file: str | None = None, key: str | None = None) -> None:
        self.file, self.key = file, key
        where = ": ".join(part for part in (file, key) if part)
        super().__init__(f"{where}: {message}" if where else message)


class WorksheetError(UsageError):
    """A fault in a cost worksheet or a claims table, told with the file, the key and what is allowed there."""

    def __init__(self, message: str, *, file: str | None = None, key: str | None = None) -> None:
        self.file, self.key = file, key
        where = ": ".join(part for part in (file, key) if part)
        super().__init__(f"{where}: {message}" if where else message)


class LengthError(UsageError):
    """A prompt of the asked number of tokens cannot be built."""


class MissingExtra(UsageError):
    """An optional dependency is needed; the message gives the install line."""

    def __init__(self, package: str, extra: str, why: str) -> None:
        super().__init__(f"{why} needs {package}: pip install 'space-bunny[{extra}]'")


class EndpointError(BunnyError):
    exit_code: ClassVar[int] = 3


class EndpointUnreachable(EndpointError):
    """Nothing answers at the address."""


class Unauthorised(EndpointError):
    """The key is wrong or without scope. Names the environment variable, never the key."""


class ModelNotFound(EndpointError):
    """The endpoint does not serve the named model; the message lists what it serves."""


class ProtocolError(EndpointError):
    """The endpoint answers, but not as its dialect says."""


class BudgetSpent(BunnyError):
    exit_code: ClassVar[int] = 4


class GateRefused(BunnyError):
    """A release gate said no; the message gives each reason."""


class RunError(BunnyError):
    exit_code: ClassVar[int] = 2


class RunLocked(RunError):
    """Another live process writes to the same run file."""


class FitRefused(BunnyError):
    """The data cannot carry the asked estimate; the message says what is missing."""


def unknown_choice(what: str, given: str, choices: Iterable[str]) -> str:
    """The message for a name that is not among `choices`: it lists them, and the nearest one first."""
    known = sorted(choices)
    near = get_close_matches(given, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {given!r}.{hint} Choices: {', '.join(known) or 'none'}."
