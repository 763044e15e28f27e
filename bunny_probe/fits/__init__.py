"""Estimates that say how sure they are: dataclasses of parameters whose call maps a frame to a result.

Each result has `status` ("ok", "censored", "refused"), `reason`, `.sentence()`, `.table()` and `.to_json()`.
Names are loaded when first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bunny_probe.fits.decay import Decay as Decay
    from bunny_probe.fits.decay import DecayFit as DecayFit
    from bunny_probe.fits.entropy import Entropy as Entropy
    from bunny_probe.fits.entropy import EntropyFit as EntropyFit
    from bunny_probe.fits.entropy_bounds import token_entropy_bounds as token_entropy_bounds
    from bunny_probe.fits.outcomes import Outcomes as Outcomes
    from bunny_probe.fits.outcomes import OutcomesFit as OutcomesFit
    from bunny_probe.fits.proportions import wilson as wilson
    from bunny_probe.fits.recall import Recall as Recall
    from bunny_probe.fits.recall import RecallFit as RecallFit
    from bunny_probe.fits.result import Counts as Counts
    from bunny_probe.fits.result import Crossing as Crossing
    from bunny_probe.fits.result import Estimate as Estimate
    from bunny_probe.fits.result import Result as Result
    from bunny_probe.fits.window import Window as Window
    from bunny_probe.fits.window import WindowFit as WindowFit

_HOMES = {
    "Counts": "result",
    "Crossing": "result",
    "Decay": "decay",
    "DecayFit": "decay",
    "Entropy": "entropy",
    "EntropyFit": "entropy",
    "Estimate": "result",
    "Outcomes": "outcomes",
    "OutcomesFit": "outcomes",
    "Recall": "recall",
    "RecallFit": "recall",
    "Result": "result",
    "Window": "window",
    "WindowFit": "window",
    "token_entropy_bounds": "entropy_bounds",
    "wilson": "proportions",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
