"""Money and numbers for people: 7,029.54 万 CNY, $1.2 M; and plain JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["Scale", "money", "money_range", "plain", "scale_for", "signed"]

_MYRIADS = {"CNY", "JPY", "KRW", "TWD"}  # counted in 万 (man, 만), not in thousands


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """One scale for a whole table or axis."""

    factor: float
    word: str  # "万", "K", "M", ""
    currency: str

    @property
    def unit(self) -> str:
        return f"{self.word} {self.currency}".strip()

    def number(self, amount: float, decimals: int | None = None) -> str:
        value = amount / self.factor
        if abs(value) < 5e-7:
            return "0"
        if decimals is None:
            decimals = 2 if self.factor > 1 or abs(value) < 100 else 0
            small = abs(value) if value else 1.0
            decimals = min(6, max(decimals, 1 - math.floor(math.log10(small)))) if small < 0.1 else decimals
        text = f"{value:,.{decimals}f}"
        return text.replace("-", "−")


def scale_for(amounts: Any, currency: str) -> Scale:
    """The scale that suits the largest of `amounts`."""
    values = np.abs(np.asarray(amounts, dtype=float))
    largest = float(values.max(initial=0.0))
    if currency in _MYRIADS:
        return Scale(1e4, "万", currency) if largest >= 1e4 else Scale(1.0, "", currency)
    if largest >= 1e7:
        return Scale(1e6, "M", currency)
    return Scale(1e3, "K", currency) if largest >= 1e5 else Scale(1.0, "", currency)


def money(amount: float, currency: str, scale: Scale | None = None) -> str:
    """`7,029.54 万 CNY`."""
    used = scale or scale_for(amount, currency)
    return f"{used.number(amount)} {used.unit}"


def signed(amount: float, currency: str, scale: Scale | None = None) -> str:
    """The same with its sign always shown."""
    text = money(amount, currency, scale)
    return text if text.startswith("−") else f"+{text}"


def money_range(low: float, high: float, currency: str, scale: Scale | None = None) -> str:
    """`6,010.00 to 8,120.00 万 CNY`."""
    used = scale or scale_for([low, high], currency)
    return f"{used.number(low)} to {used.number(high)} {used.unit}"


def plain(value: Any) -> Any:
    """`value` as JSON values; NaN and infinities become None, as JSON has no word for them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
