"""What a fit may be told."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from bunny_probe import fits


@pytest.mark.parametrize(
    ("fit", "settings", "named"),
    [
        (fits.Window, {"level": 2}, "Window: level"),
        (fits.Window, {"fraction": math.nan}, "Window: fraction"),
        (fits.Window, {"models": ("nope",)}, "models must be of constant.*not nope"),
        (fits.Decay, {"beyond": 0}, "Decay: beyond"),
        (fits.Distribution, {"tail": -1}, "Distribution: tail"),
        (fits.Distribution, {"q": (0.5, 2)}, "Distribution: q"),
        (fits.RobustDecay, {"resamples": 0}, "RobustDecay: resamples"),
    ],
)
def test_a_setting_that_cannot_be_is_named(fit: type, settings: dict[str, object], named: str) -> None:
    """When the fit is made, and not as a number without sense."""
    with pytest.raises(ValueError, match=named):
        fit(**settings)


def test_a_prompt_without_tokens_gives_no_surface() -> None:
    """Log-length begins at 1."""
    frame = pd.DataFrame(
        {
            "score": [float(i % 2) for i in range(60)],
            "answered": True,
            "cluster": range(60),
            "length_tokens": 0,
            "depth": [i % 5 / 4 for i in range(60)],
        }
    )
    found = fits.RecallSurface()(frame)
    assert (found.status, found.reason) == ("refused", "a prompt of 0 tokens is none: lengths begin at 1")
