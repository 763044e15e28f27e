"""What a fit may be told, checked when it is made: a level of 2 would give a "200% interval" and no error."""

from __future__ import annotations

import math
from dataclasses import fields

__all__ = ["check_settings"]

_SHARES = ("level", "fraction", "tail", "q", "edge")
_COUNTS = (
    "points",
    "resamples",
    "depth_bins",
    "length_bins",
    "splines",
    "permutations",
    "repeats",
    "candidates",
)


def check_settings(fit: object) -> None:
    """For `__post_init__`. Raises ValueError, which names the fit, the setting and what it may be."""
    for field in fields(fit):  # type: ignore[arg-type]
        name, value = field.name, getattr(fit, field.name)
        if value is None:
            continue
        if name in _SHARES and not all(0 < share < 1 for share in (value if name == "q" else (value,))):
            wanted = "between 0 and 1"
        elif name in _COUNTS and not value >= 1:
            wanted = "1 or more"
        elif name == "beyond" and not 1 <= value < math.inf:
            wanted = "a factor of 1 or more"
        elif name == "models" and (unknown := set(value) - set(_curves())):
            wanted = f"of {', '.join(_curves())}, and not {', '.join(sorted(unknown))}"
        else:
            continue
        raise ValueError(f"{type(fit).__name__}: {name} must be {wanted}, not {value!r}")


def _curves() -> tuple[str, ...]:
    from bunny_probe.fits.curves import CURVES  # which needs scipy

    return tuple(CURVES)
