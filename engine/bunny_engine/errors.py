"""Every error that the engine raises on purpose.

    EngineError                     exit code 1
    ├── OptionError                 exit code 2   the caller asked for something that cannot be
    │   └── UnknownModel                          neither a known name nor a path; lists the choices
    ├── WeightsError                exit code 2   the weights cannot be used
    │   ├── DamagedWeights                        truncated, mutated, or not the format its name says
    │   └── UnsupportedModel                      a sound file of a kind that this engine does not run
    └── FetchError                  exit code 3   the default model could not be had

A full queue is `types.EngineBusy`; a request that cannot be served is the server's to say. Messages name the
thing and the way out.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "NOT_FINITE",
    "DamagedWeights",
    "EngineError",
    "FetchError",
    "OptionError",
    "UnknownModel",
    "UnsupportedModel",
    "WeightsError",
]

NOT_FINITE = (
    "the weights give numbers that are not finite: their file is damaged, or its conversion in the cache is "
    "(`bunny-engine info` names the folder; what is deleted there is made anew)"
)


class EngineError(Exception):
    """The root. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class OptionError(EngineError):
    exit_code: ClassVar[int] = 2


class UnknownModel(OptionError):
    """Neither the name of a bundled model nor a path that exists."""


class WeightsError(EngineError):
    exit_code: ClassVar[int] = 2


class DamagedWeights(WeightsError):
    """The file breaks a promise of its own format: sizes, ranges, shapes or finite numbers."""


class UnsupportedModel(WeightsError):
    """The file is sound, but its architecture or a feature of it is not implemented here."""


class FetchError(EngineError):
    exit_code: ClassVar[int] = 3
