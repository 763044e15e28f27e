"""What every fit hands back: a status, a sentence, a table and plain JSON."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Counts", "Crossing", "Estimate", "Result", "Status", "plain", "records_table"]

Status = Literal["ok", "censored", "refused"]


def plain(value: Any) -> Any:
    """`value` as JSON values. NaN and infinities become None: JSON has no word for them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def records_table(rows: tuple[Any, ...]) -> pd.DataFrame:
    """A table of dataclass records, a row each."""
    import pandas as pd

    return pd.DataFrame([plain(row) for row in rows])


@dataclass(frozen=True, slots=True)
class Counts:
    """What the fit read and what it had to leave out."""

    rows: int = 0  # rows of the frame
    used: int = 0  # answered and scored: the denominator
    clusters: int = 0  # independent documents among them
    failed: tuple[tuple[str, int], ...] = ()  # outcome → rows that are no answer, most frequent first
    unscored: int = 0  # answered, but without a usable number

    @property
    def left_out(self) -> str:
        """In words, what was not used; empty when everything was."""
        parts = [f"{count} {name.replace('_', ' ')}" for name, count in self.failed]
        if self.unscored:
            parts.append(f"{self.unscored} answered but not scored")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval. None: the data do not bound it on that side."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0  # trials
    clusters: int = 0  # independent units among them
    level: float = 0.95

    def text(self, digits: int = 2) -> str:
        """For people: `0.83 [0.60, 0.95]`, with words for an open side."""
        if self.value is None:
            return "not estimable"
        low = "unbounded" if self.low is None else f"{self.low:.{digits}f}"
        high = "unbounded" if self.high is None else f"{self.high:.{digits}f}"
        return f"{self.value:.{digits}f} [{low}, {high}]"


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a curve crosses a level, in tokens. None means: not within the probed range."""

    value: float | None  # None: the chosen curve does not cross up to `probed_to`
    low: float | None  # None: not even the lower limit crosses there
    high: float | None  # None: the upper limit lies beyond `probed_to`
    probed_from: float
    probed_to: float
    level: float = 0.95

    @property
    def censored(self) -> bool:
        return self.value is None

    def text(self) -> str:
        """For people: `12,300 [9,800, 15,200] tokens`, `beyond 131,072 tokens` where it never crosses."""
        beyond = f"beyond {self.probed_to:,.0f}"
        if self.low is None:
            return f"{beyond} tokens"
        high = beyond if self.high is None else f"{self.high:,.0f}"
        if self.value is None:
            return f"{beyond} tokens (at least {self.low:,.0f})"
        return f"{self.value:,.0f} [{self.low:,.0f}, {high}] tokens"


class Result(ABC):
    """Shared manners of the result records; each record adds its own fields and `status`, `reason`."""

    __slots__ = ()

    if TYPE_CHECKING:
        # read-only in the frozen records; declared here for the methods below
        @property
        def status(self) -> Status: ...
        @property
        def reason(self) -> str: ...

    @abstractmethod
    def sentence(self) -> str:
        """The estimate with its interval and its numbers of answers and documents, for people."""

    @abstractmethod
    def table(self) -> pd.DataFrame:
        """The rows behind the estimate."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values without NaN, with `kind` and `sentence` beside the fields."""
        fields: dict[str, Any] = plain(self)
        return {"kind": type(self).__name__, "sentence": self.sentence(), **fields}
