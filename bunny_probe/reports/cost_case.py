"""A cost case: a worksheet, the draws that its report rests on, and what a run told it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bunny_probe import cost
from bunny_probe.cost import Point
from bunny_probe.errors import WorksheetError, unknown_choice
from bunny_probe.resources import resource_dir

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.cost import Difference, Measured, Option, Worksheet

__all__ = ["Case", "open_case", "read_bundled", "run_frame"]


@dataclass(frozen=True, slots=True)
class Case:
    """A worksheet, the draws that everything below rests on, and what a run told it."""

    sheet: Worksheet
    point: Point
    found: Measured | None
    fed: tuple[str, ...]  # options that took measured inputs
    release: str
    seed: int
    level: float

    def pairs(self) -> list[tuple[Option, Option]]:
        """The first option against each other one."""
        first, *others = self.sheet.options
        return [(first, other) for other in others]

    def difference(self, first: Option, second: Option) -> Difference:
        return cost.difference(self.sheet, first, second, self.point, level=self.level)


def open_case(
    worksheet: str = "legal_assistant",
    *,
    endpoint: str = "",
    run_path: str = "",
    options: str = "",
    release: str = "",
    draws: int = 16_384,
    seed: int = 1,
    level: float = 0.9,
    **study: Any,
) -> Case:
    """Read a worksheet (a bundled name or a path) and, where an endpoint or a run is named, measure its inputs.

    `options` names those that the run speaks for, separated by commas; empty: every option that asks. The rest
    of the parameters are those of `open_study`. Raises WorksheetError and what `open_study` raises.
    """
    sheet = cost.read(read_bundled("cost", worksheet), file=worksheet)
    wanted = [name.strip() for name in options.split(",") if name.strip()]
    for name in wanted:
        sheet.option(name)
    found: Measured | None = None
    fed: list[str] = []
    frame = run_frame(endpoint, run_path, release, study)
    if frame is not None:
        names = sorted(str(name) for name in frame["endpoint"].dropna().unique())
        if not names:
            raise WorksheetError("the run holds no observation", file=run_path or endpoint)
        found = cost.measure(frame, names[0] if len(names) == 1 else endpoint)
        for option in sheet.options:
            asks = bool(option.awaits_latency) or any(item.measured for item in option.inputs().values())
            if asks and (option.key in wanted or not wanted):
                sheet = cost.feed(sheet, option.key, found)
                fed.append(option.key)
    return Case(sheet, cost.draw(sheet, draws, seed=seed), found, tuple(fed), release, seed, level)


def run_frame(endpoint: str, run_path: str, release: str, study: dict[str, Any]) -> pd.DataFrame | None:
    """The frame of a study at `endpoint`, else of the run file, else None."""
    if endpoint:
        from bunny_probe.reports.study import open_study

        return open_study(endpoint=endpoint, run_path=run_path, release=release, **study).frame
    if run_path:
        from bunny_probe.runs import frame

        return frame(Path(run_path))
    return None


def read_bundled(folder: str, name: str) -> str:
    """The text of a bundled file by its name, or of any file by its path."""
    shelf = resource_dir("data") / folder
    known = sorted(item.stem for item in shelf.glob("*.toml"))
    path = shelf / f"{name}.toml" if name in known else Path(name)
    if not path.is_file():
        raise WorksheetError(f"{unknown_choice('bundled file', name, known)} And no file at that path.")
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorksheetError(f"cannot be read as UTF-8 text: {error}", file=name) from error
