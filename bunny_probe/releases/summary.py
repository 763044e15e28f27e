"""From a run to what a release keeps of an endpoint: the frame and its named numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bunny_probe.errors import RunError
from bunny_probe.measures import measure_all
from bunny_probe.releases.job import read_json, write_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RESULTS", "SUMMARY", "load_results", "load_summary", "summarise", "summary_of"]

RESULTS, SUMMARY = "results.parquet", "summary.json"
# Without these no number can be told; a release of an older version may lack others.
_NEEDED = ("probe_id", "endpoint_id", "model", "family", "length_tokens", "cluster", "outcome", "score")


def summarise(run_path: Path, folder: Path, *, fingerprint: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Write results.parquet and summary.json for the endpoint of that fingerprint in a run."""
    from bunny_probe.runs import frame

    everything = frame(run_path)
    own = everything[everything["endpoint_id"] == fingerprint].reset_index(drop=True)
    part = folder / (RESULTS + ".part")
    own.to_parquet(part, compression="zstd", index=False)
    part.replace(folder / RESULTS)
    summary = {**summary_of(own), **about}
    write_json(folder / SUMMARY, summary)
    return summary


def summary_of(frame: pd.DataFrame) -> dict[str, Any]:
    """The named numbers of one endpoint's observations, as JSON values. Pure."""
    models = sorted(str(name) for name in frame["model"].dropna().unique())
    return {
        "schema": 1,
        "endpoint_name": str(frame["endpoint"].iloc[0]) if len(frame) else "",
        "fingerprint": str(frame["endpoint_id"].iloc[0]) if len(frame) else "",
        "models": models,
        "simulated": any(name.startswith("phantom") for name in models),
        "observations": len(frame),
        "metrics": {name: value.to_json() for name, value in measure_all(frame).items()},
    }


def load_results(folder: Path) -> pd.DataFrame:
    """The frame that a release kept of an endpoint. Raises RunError where the file is damaged."""
    import pandas as pd
    from pyarrow.lib import ArrowException

    path = folder / RESULTS
    try:
        found = pd.read_parquet(path)
    except (OSError, ValueError, ArrowException) as error:
        raise _damaged(path, str(error)) from None
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise _damaged(path, f"it has no column {', '.join(missing)}")
    return found


def load_summary(folder: Path) -> dict[str, Any]:
    """The numbers that a release kept of an endpoint. Raises RunError where the file is damaged."""
    path = folder / SUMMARY
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(found, dict) or not isinstance(found.get("metrics"), dict):
        raise _damaged(path, "it holds no metrics")
    return found


def _damaged(path: Path, why: str) -> RunError:
    told = " ".join(why.split())[:200].rstrip(".")
    return RunError(f"{path} cannot be read ({told}): run the release again, with --anew")
