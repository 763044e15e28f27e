"""What the tests of releases share: frames of known truth, filed runs, notebooks of a few words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bunny_probe.columns import COLUMNS
from bunny_probe.releases.index import Entry, Index, process_identity
from bunny_probe.releases.job import write_json
from bunny_probe.releases.places import folder_name
from bunny_probe.releases.summary import RESULTS, SUMMARY, summary_of


def observations(
    *,
    recall: float | dict[int, float] = 0.95,
    lengths: Sequence[int] = (1024, 32768),
    samples: int = 200,
    latency: float = 1.0,
    seed: int = 0,
    failed: int = 0,
    model: str = "phantom-test",
    cost: float | None = None,
) -> pd.DataFrame:
    """A frame as a run gives it: `samples` documents at each length, asked once, scored 0 or 1.

    The probes are the same whatever the seed; what was answered, and when, is drawn from it.
    """
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for length in lengths:
        rate = recall[length] if isinstance(recall, dict) else recall
        for i in range(samples):
            answered = i >= failed
            hit = bool(rng.random() < rate)
            seconds = float(latency * length / 1024 * rng.lognormal(0, 0.2))
            rows.append(
                {
                    "probe_id": f"p{length}-{i}", "endpoint": f"{model} at here", "endpoint_id": "f" * 20,
                    "model": model, "repeat": 0, "family": "length", "task": "single", "length_tokens": length,
                    "depth": 0.25, "cluster": f"d{length}-{i}", "decoding_id": "greedy", "scorer": "anchor",
                    "outcome": "answered" if answered else "timeout", "answered": answered,
                    "text": f"code {i if hit else -i}" if answered else "",
                    "score": float(hit) if answered else None,
                    "label": ("hit" if hit else "wrong_anchor") if answered else "not_scored", "chance": 0.0,
                    "ttft_s": seconds / 2 if answered else None, "latency_s": seconds if answered else None,
                    "timing_valid": True, "cost": cost,
                }
            )  # fmt: skip
    table = pd.DataFrame(rows)
    return pd.DataFrame({name: pd.array(table[name] if name in table else [None] * len(table), dtype=kind)
                         for name, (kind, _) in COLUMNS.items()})  # fmt: skip


def file_release(
    root: Path, release: str, frames: dict[str, pd.DataFrame], *, started: str, state: str = "done"
) -> Entry:
    """Put a finished release with these results into the index at `root`."""
    identity = f"{abs(hash((release, started))):x}"[:8]
    entry = Entry(
        id=identity, release=release, arguments=identity, folder=f"{folder_name(release)}/{identity}",
        state=state, started=started, at=started, endpoints=tuple(frames), notebooks=("diagnose",),
        process=process_identity(), simulated=True,
    )  # type: ignore[arg-type]  # fmt: skip
    for name, frame in frames.items():
        place = root / entry.folder / folder_name(name)
        place.mkdir(parents=True)
        frame.to_parquet(place / RESULTS, index=False)
        about = {"release": release, "endpoint": name, "suites": ["small"], "planned": len(frame),
                 "reported_models": {"phantom-test": len(frame)}}  # fmt: skip
        write_json(place / SUMMARY, {**summary_of(frame), **about})
    Index(root).append(entry)
    return entry


def notebook(path: Path, *cells: str, parameters: str = "release = ''\nrun_path = ''\nkey_env = ''") -> Path:
    """A notebook of a parameters cell and these cells."""

    def cell(number: int, source: str, tags: list[str]) -> dict[str, Any]:
        return {"cell_type": "code", "id": f"c{number}", "metadata": {"tags": tags} if tags else {},
                "source": source, "outputs": [], "execution_count": None}  # fmt: skip

    content = {
        "cells": [cell(0, parameters, ["parameters"]), *(cell(i, text, []) for i, text in enumerate(cells, 1))],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(content), "utf-8")
    return path
