"""How a formula grows in one of its names: constant, logarithmic, linear, quadratic, cubic or exponential."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.expression import Value, evaluate
from bunny_probe.cost.units import Dims

__all__ = ["GROWTHS", "growth_of"]

GROWTHS = ("constant", "logarithmic", "linear", "quadratic", "cubic", "exponential", "none of these")
_POINTS = 33
_EXACT = 1e-7  # of the range: what rounding may leave of a difference that is zero


def growth_of(
    formula: str, values: Mapping[str, Value], variable: str, low: float, high: float, dims: Dims | None = None
) -> str:
    """The entry of GROWTHS that describes `formula` between `low` and `high` of `variable` (base units).

    Decided by what a formula of that kind does exactly: the second differences of a linear one vanish, the
    third of a quadratic one, the fourth of a cubic one; an exponential a·exp(b·x) + c has first differences
    in a constant ratio; a logarithmic one is linear in log x. Raises FormulaFault.
    """
    known = {name: value for name, value in values.items() if name != variable}
    unit = dims if dims is not None else values[variable].dims if variable in values else {}

    def at(x: Floats) -> Floats:
        value = evaluate(formula, {**known, variable: Value(x, unit)}).magnitude
        return np.broadcast_to(np.asarray(value, dtype=float), x.shape).astype(float)

    even = at(np.linspace(low, high, _POINTS))
    size = float(np.abs(even).max())
    span = float(np.ptp(even))
    if size == 0 or span <= _EXACT * size:
        return "constant"
    for order, name in ((2, "linear"), (3, "quadratic"), (4, "cubic")):
        if np.abs(np.diff(even, order)).max() <= _EXACT * span:
            return name
    steps = np.diff(even)
    if np.all(steps != 0):
        ratios = steps[1:] / steps[:-1]
        if np.ptp(ratios) <= 1e-5 * np.abs(ratios).max():
            return "exponential"
    spaced = at(np.geomspace(low, high, _POINTS))
    if np.abs(np.diff(spaced, 2)).max() <= _EXACT * span:
        return "logarithmic"
    return "none of these"
