"""The one place that joins suite, families, endpoint, run and scorers.

    load_plan(suite) ──▶ Plan ──observe(target, run file)──▶ observations ──score_run──▶ scores

Scoring is a pass of its own over the run, so that an old run can be scored anew.
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bunny_probe.bounds import Bounds, find_price, look_ahead
from bunny_probe.endpoints import EndpointSpec, open_endpoint
from bunny_probe.errors import RunError
from bunny_probe.progress import Mode, progress
from bunny_probe.records import Trial
from bunny_probe.suites import Suite, load
from bunny_probe.targets import Status, Target, reach, renderer

if TYPE_CHECKING:
    from bunny_probe.runs import RunSummary

__all__ = [
    "SETTLED_VARIABLE",
    "Observed",
    "Plan",
    "PlanRow",
    "load_plan",
    "observe",
    "score_run",
    "trial_keys",
]

# A run file that is only read: several notebooks draw from it side by side, and none asks or writes.
SETTLED_VARIABLE = "BUNNY_PROBE_SETTLED"
_NO_BOUNDS = Bounds()


# ── what is asked ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PlanRow:
    """What a suite asks at one (family, task, length). Tokens are sums over the row's trials."""

    family: str
    task: str
    length_tokens: int | None  # None: natural length, known only when rendered
    trials: int
    documents: int
    prompt_tokens: int | None
    answer_tokens: int  # at most


@dataclass(frozen=True, slots=True)
class Plan:
    """A suite and every trial it asks for, in the order to ask them."""

    suite: Suite
    trials: tuple[Trial, ...]

    def rows(self) -> list[PlanRow]:
        trials: Tally[tuple[str, str, int | None]] = Tally()
        answers: Tally[tuple[str, str, int | None]] = Tally()
        documents: dict[tuple[str, str, int | None], set[str]] = {}
        for trial in self.trials:
            probe = trial.probe
            key = (probe.family, probe.task, probe.length_tokens)
            trials[key] += 1
            answers[key] += trial.decoding.max_tokens
            documents.setdefault(key, set()).add(probe.cluster or probe.id)
        return [
            PlanRow(
                family=family,
                task=task,
                length_tokens=length,
                trials=count,
                documents=len(documents[family, task, length]),
                prompt_tokens=None if length is None else length * count,
                answer_tokens=answers[family, task, length],
            )
            for (family, task, length), count in trials.items()
        ]


def load_plan(suite: str | Path) -> Plan:
    """The plan of a suite, by the name of a bundled one or by path. Raises SuiteError naming every fault."""
    from bunny_probe.families import plan

    loaded = load(suite)
    return Plan(loaded, tuple(plan(loaded)))


def trial_keys(plan: Plan) -> set[tuple[str, str, int]]:
    """(probe id, decoding id, repeat) of every trial: what picks a plan's rows out of a frame."""
    return {(trial.probe.id, trial.decoding.id, trial.repeat) for trial in plan.trials}


# ── asking and scoring ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Observed:
    """Who was asked and what came of it."""

    endpoint: str  # for people
    fingerprint: str
    summary: RunSummary | None  # None: everything was in the run already


def observe(
    plan: Plan,
    target: Target,
    run_path: Path,
    *,
    concurrency: int = 1,
    bounds: Bounds = _NO_BOUNDS,
    mode: Mode = "auto",
    on_status: Status = lambda _: None,
) -> Observed:
    """Ask whatever of `plan` the run does not hold yet, with a progress bar; blocks until done.

    A run that holds everything is left alone and the endpoint is not contacted; one that `SETTLED_VARIABLE`
    names is only read, whatever it lacks. Works under a running event loop too. An interrupt keeps what came.
    What should be known before anything is paid for goes to `on_status` first.
    Raises EndpointError, BudgetSpent, RunError.
    """
    from bunny_probe.runs import Store, run_sync, run_trials

    finished = _finished(plan, target, run_path)
    if finished is None and _settled(run_path):
        raise RunError(
            f"{run_path} holds no answer of {target.endpoint} to {plan.suite.name}, and is only read"
        )
    if finished is not None:
        on_status(f"all {len(plan.trials):,} trials are in {run_path}; nothing to ask")
        return finished
    with (
        Store(run_path) as store,
        reach(target, on_status) as spec,
        renderer(spec, target.tokenizer) as render,
        progress(f"asking {spec.name}", mode) as report,
    ):
        store.save_suite(plan.suite.name, plan.suite.file.read_text("utf-8"))

        async def ask() -> RunSummary:
            async with open_endpoint(spec) as endpoint:
                price = await find_price(endpoint, bounds.price)
                for line in await look_ahead(endpoint, store.pending(plan.trials, spec.fingerprint), price):
                    on_status(line)
                return await run_trials(
                    store,
                    endpoint,
                    plan.trials,
                    render,
                    concurrency=concurrency,
                    budget=bounds.budget(price),
                    requests_per_minute=bounds.requests_per_minute,
                    tokens_per_minute=bounds.tokens_per_minute,
                    schedule=bounds.schedule(),
                    progress=report,
                )

        summary = run_sync(ask)
        return Observed(spec.name, spec.fingerprint, summary)


def _finished(plan: Plan, target: Target, run_path: Path) -> Observed | None:
    """The endpoint in the run that `target` means, when it has answered everything; else None."""
    from bunny_probe.runs import Store

    if not run_path.is_file():
        return None
    with Store(run_path, write=False) as store:
        for fingerprint, known in store.endpoints().items():
            spec = known["spec"]
            same_place = (
                spec["place"] == target.place
                if target.place
                else spec["url"] == EndpointSpec(url=target.endpoint, model="x").url
            )
            same_model = target.model in ("", known["model"])
            same_request = (
                spec["dialect"] == target.dialect
                and spec["options"] == dict(target.options)
                and spec.get("reasoning_tokens", 0) == target.reasoning_tokens
            )
            if same_place and same_model and same_request:
                pending: Sequence[Trial] = store.pending(plan.trials, fingerprint)
                if pending and _settled(run_path):  # any observation will do, a failure too
                    unseen = store.pending(plan.trials, fingerprint, again=())
                    pending = unseen if len(unseen) == len(plan.trials) else ()
                if not pending:
                    return Observed(known["name"], fingerprint, None)
    return None


def _settled(run_path: Path) -> bool:
    named = os.environ.get(SETTLED_VARIABLE)
    return bool(named) and Path(str(named)).resolve() == run_path.resolve()


def score_run(run_path: Path, *, anew: bool = False, batch: int = 500) -> int:
    """Score what is not scored yet with each probe's own scorer (`anew`: everything). Gives how many.

    A run that `SETTLED_VARIABLE` names is left alone. Raises RunError for what is no run.
    """
    from bunny_probe.runs import Store
    from bunny_probe.scores import score

    count = 0
    if _settled(run_path):
        return count
    with Store(run_path, create=False) as store:
        observations = store.observations(without_scorer=None if anew else "")
        while group := list(islice(observations, batch)):
            store.save_scores([(observation, score(probe, observation)) for probe, observation in group])
            count += len(group)
    return count
