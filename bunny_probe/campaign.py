"""The one place that joins suite, families, endpoint, run and scorers.

    load_plan(suite) ──▶ Plan ──observe(target, run file)──▶ observations ──score_run──▶ scores

Scoring is a pass of its own over the run, so that an old run can be scored anew.
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bunny_probe.bounds import Bounds, find_price, look_ahead
from bunny_probe.bundled_engine import bundled_engine
from bunny_probe.endpoints import EndpointSpec, Timeouts, open_endpoint
from bunny_probe.endpoints.proxies import proxy_for
from bunny_probe.errors import ModelNotFound, RunError, UsageError
from bunny_probe.progress import Mode, progress
from bunny_probe.records import Probe, Rendered, Trial
from bunny_probe.suites import Suite, load

if TYPE_CHECKING:
    from bunny_probe.runs import RunSummary
    from bunny_probe.text import Counter

__all__ = [
    "ENGINE",
    "SETTLED_VARIABLE",
    "Observed",
    "Plan",
    "PlanRow",
    "Target",
    "load_plan",
    "observe",
    "reach",
    "renderer",
    "score_run",
    "trial_keys",
]

ENGINE = "engine"  # the name of the bundled engine where a URL is asked for
# A run file that is only read: several notebooks draw from it side by side, and none asks or writes.
SETTLED_VARIABLE = "BUNNY_PROBE_SETTLED"
_NO_BOUNDS = Bounds()
_HASTY_S = 120.0
Status = Callable[[str], None]


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


# ── whom to ask ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint as a person names it, before it is reached."""

    endpoint: str = ENGINE  # a URL, or "engine"
    model: str = ""  # empty: the only one that it serves
    dialect: str = "openai-chat"
    key_env: str | None = None  # the NAME of the environment variable that holds the key
    headers: Mapping[str, str] = field(default_factory=dict)
    tokenizer: str | None = None  # a tokenizer.json; None: the endpoint's own /tokenize
    engine_options: tuple[str, ...] = ()  # further options of `bunny-engine serve`
    options: Mapping[str, Any] = field(default_factory=dict)  # further fields of each request's body
    reasoning_tokens: int = 0  # room for a reasoning model's thoughts, on top of each answer's limit
    allow_insecure: bool = False
    timeout: float | None = None  # seconds to the first byte of an answer; None: what fits a long prompt

    @property
    def place(self) -> str | None:
        """What stands for the bundled engine's changing address in identities: its name and its options."""
        return " ".join((ENGINE, *self.engine_options)) if self.endpoint == ENGINE else None

    def check(self) -> None:
        """Raises UsageError for what it names and cannot be used: URL, dialect, headers, the variable of a key,
        the tokenizer's file. Asks nobody."""
        from bunny_probe.endpoints.auth import auth_headers

        self.check_tokenizer()
        if self.endpoint == ENGINE:
            self.spec(url="http://127.0.0.1")
        else:
            auth_headers(self.spec())

    def check_tokenizer(self) -> None:
        """The same of the tokenizer's file alone, which is missed only when there is something to ask."""
        if self.tokenizer is not None and not Path(self.tokenizer).is_file():
            raise UsageError(f"no tokenizer file at {self.tokenizer}")

    def spec(self, url: str | None = None, model: str | None = None) -> EndpointSpec:
        """As the client wants it; `url` and `model` where they are known only once it runs."""
        return EndpointSpec(
            url=url or self.endpoint,
            model=model or self.model or "unnamed",
            dialect=self.dialect,
            key_env=self.key_env if url is None else None,
            headers=self.headers if url is None else {},
            options=self.options,
            reasoning_tokens=self.reasoning_tokens,
            allow_insecure=self.allow_insecure,
            place=self.place,
            timeouts=Timeouts() if self.timeout is None else Timeouts.of(self.timeout),
        )

    def hasty(self, spec: EndpointSpec) -> EndpointSpec:
        """`spec` for questions of a few words: who cannot answer these in two minutes is not there."""
        return spec if self.timeout is not None else replace(spec, timeouts=Timeouts.of(_HASTY_S))


@contextmanager
def reach(target: Target, on_status: Status = lambda _: None) -> Iterator[EndpointSpec]:
    """The endpoint, ready to be asked; the bundled engine is started for as long as the block lasts.

    Raises EndpointError when it cannot be used, with one line that says what to do.
    """
    target.check()
    if target.endpoint == ENGINE:
        with bundled_engine(
            target.model or None, arguments=target.engine_options, on_status=on_status
        ) as engine:
            yield target.spec(url=engine.url, model=engine.model)
        return
    yield _checked(target, on_status)


def _checked(target: Target, on_status: Status) -> EndpointSpec:
    from bunny_probe.runs import run_sync

    spec = target.spec()

    async def check() -> EndpointSpec:
        async with open_endpoint(target.hasty(spec)) as endpoint:
            if target.model:
                await endpoint.check()
                return spec
            served = await endpoint.models()
        if len(served) != 1:
            raise ModelNotFound(f"name a model: {spec.host} serves {', '.join(served) or 'none that it lists'}")
        return replace(spec, model=served[0])

    on_status(f"checking {spec.host}")
    return run_sync(check)


@contextmanager
def renderer(spec: EndpointSpec, tokenizer: str | None = None) -> Iterator[Callable[[Probe], Rendered]]:
    """A function that writes a probe's prompt at its exact length, counted as the endpoint counts.

    `tokenizer`: a tokenizer.json file; None asks the endpoint's `/tokenize`.
    """
    from bunny_probe.endpoints.auth import auth_headers
    from bunny_probe.text import EndpointCounter, FileCounter, render

    counter: Counter
    if tokenizer is not None:
        counter = FileCounter(tokenizer)
        yield lambda probe: render(probe, counter)
        return
    import httpx

    # By the same way as the requests themselves: a proxy of the environment is not for loopback.
    client = httpx.Client(
        timeout=min(120.0, spec.timeouts.first_byte), trust_env=False, proxy=proxy_for(spec.url, spec.proxy)
    )
    remote = EndpointCounter(spec.url, spec.model, auth=lambda: auth_headers(spec), client=client)
    try:
        yield lambda probe: render(probe, remote)
    finally:
        remote.close()


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
