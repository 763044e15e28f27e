"""Numbers of a measure as people read them."""

from __future__ import annotations

__all__ = ["amount"]


def amount(value: float | None, unit: str, *, signed: bool = False, bare: bool = False) -> str:
    """`92.3 %`, `0.412 s`, `12,300 tokens`, `US$ 1.20`; a dash for what is not known.

    `signed`: a difference, which of shares is in points. `bare`: without the unit, for a bound beside a value
    that has it.
    """
    if value is None:
        return "—"
    sign = "+" if signed else ""
    if unit == "share":
        return f"{value * 100:{sign}.1f}" + ("" if bare else " points" if signed else " %")
    if unit == "tokens":
        return f"{value:{sign},.0f}" + ("" if bare else " tokens")
    if unit == "USD":
        return ("" if bare else "US$ ") + f"{value:{sign},.4g}"
    digits = f"{value:{sign}.3f}" if abs(value) < 100 else f"{value:{sign},.0f}"
    return digits if bare else f"{digits} {unit}"
