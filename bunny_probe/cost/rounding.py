"""Whether a stated figure agrees with a computed one, given the digits in which it was stated."""

from __future__ import annotations

import math
import re
from typing import Literal

__all__ = ["CLOSE", "Agreement", "agreement", "half_digit"]

Agreement = Literal["holds", "close", "fails"]
CLOSE = 0.01  # beyond rounding, but within this share: worth a flag, not an alarm


def half_digit(text: str, number: float, value: float) -> float:
    """Half a unit of the last digit of the first number in `text`, in the unit of `value`.

    `number` is what the text's number alone reads as, `value` what it amounts to in base units.
    """
    match = re.search(r"(\d[\d,_]*)(?:\.(\d+))?(?:[eE]([-+]?\d+))?", text)
    if not match:
        return 0.0
    decimals, power = len(match[2] or ""), int(match[3] or 0)
    plain = float(match[0].replace(",", "").replace("_", ""))
    scale = abs(value / plain) if plain else abs(value / number) if number else 1.0
    return float(0.5 * 10.0 ** (power - decimals) * scale)


def agreement(stated: float, computed: float, slack: float) -> tuple[Agreement, float]:
    """The verdict and the relative difference (stated - computed) / computed.

    holds: within `slack` (half of the last stated digit). close: within CLOSE. Else fails.
    """
    gap = stated - computed
    relative = gap / abs(computed) if computed else (0.0 if gap == 0 else math.copysign(math.inf, gap))
    if abs(gap) <= slack * (1 + 1e-9) + 1e-12 * abs(computed):
        return "holds", relative
    return ("close" if abs(relative) <= CLOSE else "fails"), relative
