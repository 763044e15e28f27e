"""The standard estimates of a run, one set an endpoint: what `bunny-probe fit` prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.fits import Result

__all__ = ["estimates", "estimates_of"]


def estimates(run_path: Path) -> dict[str, dict[str, Result]]:
    """Endpoint name → name of the question → result. Raises RunError when it is not a run file."""
    from bunny_probe.runs import frame

    everything = frame(run_path)
    return {
        str(name): estimates_of(everything[everything["endpoint"] == name])
        for name in sorted(everything["endpoint"].dropna().unique())
    }


def estimates_of(frame: pd.DataFrame) -> dict[str, Result]:
    """The standard questions, asked of the observations of one endpoint. Thin data give stated refusals."""
    from bunny_probe import fits
    from bunny_probe.fits.groups import Groups

    length, position = frame[frame["family"] == "length"], frame[frame["family"] == "position"]
    return {
        "outcomes": fits.Outcomes()(frame),
        "decay": fits.Decay()(length),
        "window": fits.Window()(length),
        "recall": fits.Recall()(position),
        "stress": Groups(by=("task", "variant"))(frame[frame["family"] == "stress"]),
        "entropy": fits.Entropy()(length),
    }
