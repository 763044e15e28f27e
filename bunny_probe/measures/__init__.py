"""The named numbers of a run, and their differences between two runs: pure functions of frames.

    measures(frame) ──▶ Measure … ──measure_all──▶ {name: Measured}
                          └──differ(measure, before, after)──▶ Difference

A release's summary, its gate, its trend lines and its notebook read the same numbers from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bunny_probe.measures.catalogue import Direction as Direction
    from bunny_probe.measures.catalogue import Measure as Measure
    from bunny_probe.measures.catalogue import matching as matching
    from bunny_probe.measures.catalogue import measure_named as measure_named
    from bunny_probe.measures.catalogue import measures as measures
    from bunny_probe.measures.differences import Difference as Difference
    from bunny_probe.measures.differences import differ as differ
    from bunny_probe.measures.values import Measured as Measured
    from bunny_probe.measures.values import measure_all as measure_all
    from bunny_probe.measures.values import measured as measured
    from bunny_probe.measures.verdicts import Verdict as Verdict
    from bunny_probe.measures.verdicts import corrected as corrected
    from bunny_probe.measures.verdicts import verdict as verdict
    from bunny_probe.measures.wording import amount as amount

_HOMES = {
    "Difference": "differences",
    "Direction": "catalogue",
    "Measure": "catalogue",
    "Measured": "values",
    "Verdict": "verdicts",
    "amount": "wording",
    "corrected": "verdicts",
    "differ": "differences",
    "matching": "catalogue",
    "measure_all": "values",
    "measure_named": "catalogue",
    "measured": "values",
    "measures": "catalogue",
    "verdict": "verdicts",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
