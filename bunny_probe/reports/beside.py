"""Other models that were asked the same: from the study's own run file, and from run files named beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.reports.study import Study

__all__ = ["beside", "run_paths"]


def beside(study: Study, others: str = "") -> dict[str, pd.DataFrame]:
    """Name → observations of the study's probes, the study's own endpoint first.

    `others`: paths of further run files, parted by commas. Names are model names where these tell the
    endpoints apart. Raises RunError for a file that is not a run.
    """

    from bunny_probe.runs import frame

    probes = set(study.frame["probe_id"])
    found: dict[tuple[str, str], pd.DataFrame] = {}
    for path in run_paths(study, others):
        everything = frame(path)
        everything = everything[everything["probe_id"].isin(probes)]
        for endpoint, part in everything.groupby("endpoint", observed=True):
            found.setdefault((str(endpoint), str(part["model"].iloc[0])), part.reset_index(drop=True))
    own = [key for key in found if key[0] == study.endpoint]
    order = [*own, *(key for key in found if key not in own)]
    models = [model for _, model in order]
    return {
        model if models.count(model) == 1 else endpoint: found[endpoint, model] for endpoint, model in order
    }


def run_paths(study: Study, others: str = "") -> list[Path]:
    """The study's run file and those named beside it, each once."""
    named = (Path(item.strip()) for item in others.split(",") if item.strip())
    return list(dict.fromkeys([study.run_path, *named]))
