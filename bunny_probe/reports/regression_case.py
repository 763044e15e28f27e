"""What the regression report is drawn from: a release beside earlier ones, and the verdict on each number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bunny_probe import fits
from bunny_probe.errors import UsageError
from bunny_probe.measures import (
    Difference,
    Measured,
    Verdict,
    corrected,
    differ,
    measure_all,
    measure_named,
    measures,
    verdict,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Against", "Moved", "Regression", "open_regression"]


@dataclass(frozen=True, slots=True)
class Moved:
    """One number's move with its verdict."""

    difference: Difference
    verdict: Verdict
    p: float | None  # corrected among the questions of its kind


@dataclass(frozen=True, slots=True)
class Against:
    """This release beside another one."""

    role: str  # "previous release" or "baseline"
    release: str  # as typed; "" where it was not named
    frame: pd.DataFrame
    moves: tuple[Moved, ...]
    compared: fits.CompareFit

    @property
    def name(self) -> str:
        return f"{self.role} {self.release}".rstrip()

    def named(self, word: Verdict) -> list[Moved]:
        return [move for move in self.moves if move.verdict == word]


@dataclass(frozen=True, slots=True)
class Regression:
    release: str
    endpoint: str  # for people
    frame: pd.DataFrame
    values: dict[str, Measured]
    against: tuple[Against, ...]
    margin: float
    level: float


def open_regression(
    run_path: str,
    *,
    previous_path: str = "",
    baseline_path: str = "",
    release: str = "",
    previous: str = "",
    baseline: str = "",
    only: str = "",
    margin: float = 0.05,
    level: float = 0.95,
) -> Regression:
    """Read and compare the runs (run files, or the results.parquet of a release). Nothing is asked.

    `only`: the endpoint's name, where a file holds several. Raises UsageError for a path that is not there.
    """
    if not run_path:
        raise UsageError("run_path is empty: name a run file, or the results.parquet of a release")
    current = _frame(run_path, only)
    if current.empty:
        raise UsageError(f"{run_path} holds no observation")
    against = []
    for role, name, path in (
        ("previous release", previous, previous_path),
        ("baseline", baseline, baseline_path),
    ):
        if path:
            frame = _frame(path, only)
            moves = _moves(frame, current, margin, level)
            against.append(
                Against(role, name, frame, moves, fits.Compare(margin=margin, level=level)(frame, current))
            )
    return Regression(
        release=release,
        endpoint=str(current["endpoint"].iloc[0]),
        frame=current,
        values=measure_all(current, level=level),
        against=tuple(against),
        margin=margin,
        level=level,
    )


def _frame(path: str, only: str) -> pd.DataFrame:
    import pandas as pd

    place = Path(path)
    if not place.is_file():
        raise UsageError(f"no run at {path}")
    if place.suffix == ".parquet":
        try:
            found = pd.read_parquet(place)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read ({error}): build that release again with --anew") from None
    else:
        from bunny_probe.runs import frame

        found = frame(place)
    if only:
        found = found[found["endpoint"] == only]
    if found["endpoint_id"].nunique() > 1:
        names = ", ".join(sorted(found["endpoint"].dropna().unique()))
        raise UsageError(f"{path} holds several endpoints, set `only` to one of: {names}")
    return found.reset_index(drop=True)


def _moves(before: pd.DataFrame, after: pd.DataFrame, margin: float, level: float) -> tuple[Moved, ...]:
    names = dict.fromkeys(item.name for frame in (after, before) for item in measures(frame))
    found = [differ(measure_named(name), before, after, level=level) for name in names]
    found = [item for item in found if item.value is not None or item.before.value is not None]
    p = corrected(found)
    return tuple(
        Moved(item, verdict(item, margin=margin, p=p.get(item.measure)), p.get(item.measure)) for item in found
    )
