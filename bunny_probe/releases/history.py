"""What the folders of past releases hold, and how two of them compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bunny_probe.errors import UsageError
from bunny_probe.measures import amount, corrected, differ, measures, verdict
from bunny_probe.releases.index import Entry, Index
from bunny_probe.releases.job import REPORT
from bunny_probe.releases.places import folder_name
from bunny_probe.releases.summary import RESULTS, SUMMARY, load_results, load_summary

__all__ = ["compare_releases", "reports_of", "summaries_of"]


def summaries_of(root: Path, entry: Entry) -> dict[str, dict[str, Any]]:
    """Endpoint → summary.json, for those that were asked. Raises RunError for a damaged one."""
    found = {}
    for endpoint in entry.endpoints:
        folder = root / entry.folder / folder_name(endpoint)
        if (folder / SUMMARY).exists():
            found[endpoint] = load_summary(folder)
    return found


def reports_of(root: Path, entry: Entry) -> list[Path]:
    """Every report that was written, also those of notebooks that failed later on."""
    places = [
        root / entry.folder / folder_name(endpoint) / notebook / REPORT
        for endpoint in entry.endpoints
        for notebook in entry.notebooks
    ]
    return [path for path in places if path.exists()]


def compare_releases(
    index: Index, first: str, second: str, *, endpoint: str = "", margin: float = 0.05
) -> dict[str, Any]:
    """Every number of both, paired on the same probes, with a verdict each; JSON values.

    Raises UsageError when the two share no endpoint.
    """
    from bunny_probe.fits import Compare

    old, new = index.of(first), index.of(second)
    shared = [name for name in new.endpoints if name in old.endpoints and endpoint in ("", name)]
    parts = {}
    for name in shared:
        places = [index.root / entry.folder / folder_name(name) for entry in (old, new)]
        if not all((place / RESULTS).exists() for place in places):
            continue
        before, after = (load_results(place) for place in places)
        fit = Compare(margin=margin)(before, after)
        moves = [differ(measure, before, after) for measure in measures(after)]
        p = corrected(moves)
        parts[name] = {
            "sentence": fit.sentence(),
            "compare": fit.to_json(),
            "metrics": [
                {
                    **move.to_json(),
                    "title": move.after.title,
                    "verdict": verdict(move, margin=margin, p=p.get(move.measure)),
                    "p_corrected": p.get(move.measure),
                    "before_text": move.before.text(),
                    "after_text": move.after.text(),
                    "difference_text": amount(move.value, move.after.unit, signed=True),
                }
                for move in moves
            ],
        }
    if not parts:
        ours, theirs = ", ".join(old.endpoints), ", ".join(new.endpoints)
        raise UsageError(
            f"{old.release} and {new.release} share no endpoint with results: {ours} against {theirs}; name "
            "them alike with --endpoint NAME=URL"
        )
    return {"first": old.release, "second": new.release, "margin": margin, "endpoints": parts}
