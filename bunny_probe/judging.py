"""Scores by asking another model: a judge, a reward endpoint, the likelihood of the reference.

A pass of its own over a finished run, like `score_run`. The scorers stay pure; the asking is here. Scores
stand in the run under the scorer's own name, beside the probe's own score and never instead of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bunny_probe.endpoints import Endpoint, open_endpoint
from bunny_probe.endpoints.echo import echo
from bunny_probe.errors import BunnyError, ProtocolError, UsageError, unknown_choice
from bunny_probe.progress import Mode, progress
from bunny_probe.records import Decoding, Message, Observation, Outcome, Probe, Rendered, Score
from bunny_probe.scores import REMOTE_SCORERS
from bunny_probe.targets import Status, Target, reach, renderer

__all__ = ["judge_run"]

_TRIES = 3
_JUDGEMENT = 200  # answer tokens of one vote


@dataclass(slots=True)
class _Standing:
    done: int
    total: int
    failures: int = 0
    eta_s: float | None = None
    note: str = ""


def judge_run(
    run_path: Path,
    scorer: str,
    judge: Target,
    *,
    counted_by: Target,
    params: dict[str, Any] | None = None,
    concurrency: int = 4,
    mode: Mode = "auto",
    on_status: Status = lambda _: None,
) -> int:
    """Score what `scorer` ("judge", "reward", "likelihood") has not scored yet; gives how many.

    `judge`: the model that is asked. `counted_by`: the endpoint (or its tokenizer file) that counted the run's
    prompts, since they are written anew from their recipes; one that does not come out as it was sent is
    refused.
    Answered observations only; each score is durable as it comes, so an interrupted pass goes on.
    """
    from bunny_probe.runs import Store, run_sync

    if scorer not in REMOTE_SCORERS:
        raise UsageError(unknown_choice("scorer that asks a model", scorer, REMOTE_SCORERS))
    with (
        Store(run_path, create=False) as store,
        reach(judge, on_status) as spec,
        _counting(counted_by, on_status) as render,
    ):
        chosen = REMOTE_SCORERS[scorer].configured(
            {**({"model": spec.model} if scorer == "reward" else {}), **(params or {})}
        )
        pending = [
            (probe, seen)
            for probe, seen in store.observations(without_scorer=scorer)
            if seen.attempt.outcome is Outcome.ANSWERED
        ]

        async def work() -> None:
            gate, standing = asyncio.Semaphore(concurrency), _Standing(0, len(pending))
            with progress(f"{scorer}: {spec.name}", mode) as report:
                async with open_endpoint(spec) as endpoint:
                    call = _caller(scorer, endpoint)

                    async def one(probe: Probe, seen: Observation) -> None:
                        async with gate:
                            prompt = await asyncio.to_thread(_as_sent, render, probe, seen)
                            score: Score = await chosen(probe, seen, prompt.messages, call)
                            await asyncio.to_thread(store.save_scores, [(seen, score)])
                            standing.done += 1
                            standing.failures += score.value is None
                            report(standing)

                    async with asyncio.TaskGroup() as group:
                        for probe, seen in pending:
                            group.create_task(one(probe, seen))

        try:
            run_sync(work)
        except* BunnyError as errors:
            raise _first(errors) from None
        return len(pending)


@contextmanager
def _counting(counted_by: Target, on_status: Status) -> Iterator[Callable[[Probe], Rendered]]:
    with reach(counted_by, on_status) as spec, renderer(spec, counted_by.tokenizer) as render:
        yield render


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def _as_sent(render: Callable[[Probe], Rendered], probe: Probe, seen: Observation) -> Rendered:
    rendered = render(probe)
    if rendered.prompt_hash != seen.prompt_hash:
        raise UsageError(
            f"probe {probe.id} does not come out as it was sent: name the endpoint that counted the run"
        )
    return rendered


def _caller(scorer: str, endpoint: Endpoint) -> Any:
    return {"judge": _ask, "reward": _rate, "likelihood": _likelihood}[scorer](endpoint)


def _ask(endpoint: Endpoint) -> Any:
    async def ask(messages: Sequence[Message], *, seed: int) -> str | None:
        decoding = Decoding(max_tokens=_JUDGEMENT, temperature=0.7, seed=seed, top_logprobs=None)
        for attempt_number in range(_TRIES):
            attempt = await endpoint.attempt(messages, decoding)
            if attempt.outcome is Outcome.ANSWERED:
                return attempt.text
            if not attempt.outcome.transient:
                return None
            await asyncio.sleep(attempt.retry_after or 0.5 * 2**attempt_number)
        return None

    return ask


def _rate(endpoint: Endpoint) -> Any:
    root = endpoint.spec.url.removesuffix("/v1")

    async def rate(path: str, body: dict[str, Any]) -> Any:
        return await _post(endpoint, root + path, body)

    return rate


def _likelihood(endpoint: Endpoint) -> Any:
    async def likelihood(messages: Sequence[Message], continuation: str) -> list[float] | None:
        """The prompt is the messages' plain text, without a chat template."""
        before = "\n\n".join(message.content for message in messages) + "\n"
        echoed = await echo(endpoint, before + continuation)
        return None if echoed is None else echoed.within(len(before), len(before) + len(continuation))

    return likelihood


async def _post(endpoint: Endpoint, url: str, body: dict[str, Any]) -> Any:
    """The JSON that an untimed POST gives; None for a refusal, which is no score."""
    import httpx

    try:
        response = await endpoint.http.post(url, json=body)
        return response.json() if response.status_code == 200 else None
    except httpx.HTTPError:
        return None
    except ValueError:
        raise ProtocolError(f"{url} does not answer with JSON") from None
