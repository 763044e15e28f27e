"""Finds the effective window by asking where it tells most: `bunny-probe window`.

    tried ──fits.WindowSearch──▶ next length, with its reason ──▶ ask it ──▶ scores ──▶ tried …

Every step is stored in the run before it is asked, so the search goes on after a kill, and anyone can read
later why each length was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bunny_probe.endpoints import open_endpoint
from bunny_probe.errors import RunError
from bunny_probe.fits.adaptive import NextLength, Tried, WindowSearch
from bunny_probe.progress import Mode, progress
from bunny_probe.records import Trial
from bunny_probe.suites import Entry
from bunny_probe.targets import Status, Target, reach, renderer

if TYPE_CHECKING:
    from bunny_probe.runs import RunSummary, Store

__all__ = ["Step", "search_window"]

_META = "window_search"


@dataclass(frozen=True, slots=True)
class Step:
    """One choice of the search."""

    length: int  # prompt tokens, or tokens from the fact to the prompt's end
    samples: int  # documents asked at this length in this step
    first: int  # number of the first of them, so that no document is asked twice
    reason: str
    information: float  # expected nats about the window


def search_window(
    target: Target,
    run_path: Path,
    search: WindowSearch,
    *,
    domain: str = "contract",
    language: str = "en",
    seed: int = 0,
    concurrency: int = 1,
    mode: Mode = "auto",
    on_status: Status = lambda _: None,
    on_step: Callable[[NextLength], None] = lambda _: None,
) -> NextLength:
    """Ask single facts at chosen lengths until the window is narrow enough or the budget is spent.

    With `search.prompt` all prompts have that length and facts are asked at chosen depths.

    Resumable: the same run file and the same settings go on where they stopped; with another budget, width or
    number of repeats too, which only say how far to go. Raises EndpointError when the endpoint cannot be used,
    RunError when the run holds another search or a step brings no scored answer.
    """
    from bunny_probe.runs import Store, run_sync, run_trials

    plan = _Plan(search.prompt, language, domain, seed)
    settings = {"search": asdict(search), "domain": domain, "language": language, "seed": seed}
    with (
        Store(run_path) as store,
        reach(target, on_status) as spec,
        renderer(spec, target.tokenizer) as render,
    ):
        kept = store.meta(_META)
        if kept is not None:
            others = _differing(kept["settings"], settings)
            if kept["endpoint"] != spec.fingerprint:
                others.append("endpoint")
            if others:
                raise RunError(
                    f"{run_path} holds a search with another {', '.join(others)}: name another run file"
                )
        steps = [Step(**step) for step in (kept or {"steps": []})["steps"]]

        async def ask(trials: Sequence[Trial]) -> RunSummary:
            with progress(f"asking {spec.name}", mode) as report:
                async with open_endpoint(spec) as endpoint:
                    return await run_trials(
                        store, endpoint, trials, render, concurrency=concurrency, progress=report
                    )

        if steps:  # what a kill left open
            every = [trial for step in steps for trial in plan.trials(step)]
            run_sync(lambda: ask(every))
        while True:
            tried = _tried(store, steps, spec.fingerprint, plan)
            chosen = search(tried)
            on_step(chosen)
            if chosen.length is None:
                return chosen
            first = sum(step.samples for step in steps if step.length == chosen.length)
            step = Step(chosen.length, chosen.repeats, first, chosen.reason, chosen.information)
            steps.append(step)
            store.set_meta(
                _META,
                {
                    "settings": settings,
                    "endpoint": spec.fingerprint,
                    "steps": [asdict(item) for item in steps],
                },
            )
            trials = plan.trials(step)
            summary = run_sync(lambda asked=trials: ask(asked))  # type: ignore[misc]
            if summary.answered == 0:
                outcomes = ", ".join(f"{count} {name}" for name, count in summary.outcomes.items())
                raise RunError(f"no answer at {chosen.length:,} tokens ({outcomes or 'nothing was asked'})")


_HOW_FAR = {"budget", "width", "repeats"}  # of a search: they change no prompt


def _differing(kept: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Names of the settings in which two searches ask different prompts."""
    flat = [{**{k: v for k, v in s.items() if k != "search"}, **s["search"]} for s in (kept, wanted)]
    return [name for name in flat[1] if name not in _HOW_FAR and flat[0].get(name) != flat[1][name]]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a step asks."""

    prompt: int | None  # tokens of every prompt; None: each step has its own length
    language: str
    domain: str
    seed: int

    def trials(self, step: Step) -> list[Trial]:
        from bunny_probe.families import plan
        from bunny_probe.suites import Suite

        depths = () if self.prompt is None else (round(1 - step.length / self.prompt, 6),)
        entry = Entry(
            family="length" if self.prompt is None else "position",
            task="single",
            lengths=(self.prompt or step.length,),
            depths=depths,
            languages=(self.language,),
            domains=(self.domain,),
            samples=step.first + step.samples,
            seed=self.seed,
            where="window search",
        )
        return plan(Suite("window", "", Path(), (entry,)))[step.first :]


def _tried(store: Store, steps: Sequence[Step], fingerprint: str, plan: _Plan) -> list[Tried]:
    """Hits and scored answers by length. A failure is no answer: it adds to neither."""
    from bunny_probe.scores import score

    wanted = {(t.probe.id, t.decoding.id): step.length for step in steps for t in plan.trials(step)}
    hits: dict[int, list[float]] = {}
    scored = []
    for probe, observation in store.observations():
        length = wanted.get((probe.id, observation.decoding.id))
        if length is None or observation.endpoint != fingerprint:
            continue
        judged = score(probe, observation)
        scored.append((observation, judged))
        if judged.value is not None:
            hits.setdefault(length, []).append(judged.value)
    store.save_scores(scored)
    return [Tried(length, sum(values), len(values)) for length, values in sorted(hits.items())]
