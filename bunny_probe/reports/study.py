"""A study: one endpoint's answers to one suite, as a notebook holds it.

`open_study` asks whatever has not been asked yet and reads the run; a finished run is only read, so an old
report can be drawn again without its endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bunny_probe.campaign import Plan, load_plan, observe, score_run, trial_keys
from bunny_probe.targets import Target

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Study", "gather", "open_study"]


@dataclass(frozen=True, slots=True)
class Study:
    frame: pd.DataFrame  # the suite's observations at this endpoint, columns.COLUMNS
    endpoint: str  # for people: model at host
    suite: str
    description: str  # of the suite
    release: str
    run_path: Path
    planned: int  # trials of the suite

    @property
    def missing(self) -> int:
        """Trials without an observation."""
        return self.planned - len(self.frame)

    def family(self, name: str) -> pd.DataFrame:
        """The observations of one family."""
        return self.frame[self.frame["family"] == name]


def open_study(
    *,
    endpoint: str = "engine",
    model: str = "",
    suite: str = "diagnose-quick",
    run_path: str = "",
    release: str = "",
    key_env: str = "",
    dialect: str = "openai-chat",
    tokenizer: str = "",
    concurrency: int = 1,
) -> Study:
    """Ask what is missing, score it, and hold the result. Parameters are those of `bunny-probe diagnose`.

    Raises what a campaign raises: SuiteError, EndpointError, RunError; what was gathered stays in the run.
    """
    plan = load_plan(suite)
    path = Path(run_path or f"reports/{plan.suite.name}.db")
    target = Target(
        endpoint=endpoint,
        model=model,
        dialect=dialect,
        key_env=key_env or None,
        tokenizer=tokenizer or None,
    )
    return gather(plan, target, path, release=release, concurrency=concurrency)


def gather(plan: Plan, target: Target, path: Path, *, release: str = "", concurrency: int = 1) -> Study:
    """Ask the target what the run at `path` lacks of the plan, score it, and hold the plan's part of it."""
    from bunny_probe.runs import frame

    outcome = observe(plan, target, path, concurrency=concurrency)
    score_run(path)
    everything, keys = frame(path), trial_keys(plan)
    asked = zip(everything["probe_id"], everything["decoding_id"], everything["repeat"], strict=True)
    wanted = np.fromiter((key in keys for key in asked), dtype=bool, count=len(everything))
    return Study(
        frame=everything[(everything["endpoint_id"] == outcome.fingerprint) & wanted].reset_index(drop=True),
        endpoint=outcome.endpoint,
        suite=plan.suite.name,
        description=plan.suite.description,
        release=release,
        run_path=path,
        planned=len(plan.trials),
    )
