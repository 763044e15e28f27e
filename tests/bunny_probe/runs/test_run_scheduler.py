"""Asking: nothing lost, nothing asked twice, retries that honour the server, and clean stops."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest
from raw_server import error_reply, serve
from trials import render, trials

from bunny_probe.endpoints import EndpointSpec, Timeouts, open_endpoint
from bunny_probe.errors import (
    EndpointError,
    EndpointUnreachable,
    LengthError,
    ModelNotFound,
    ProtocolError,
    Unauthorised,
)
from bunny_probe.phantom import Behaviour, Latency, Phantom
from bunny_probe.records import Outcome, Probe, Rendered, Trial
from bunny_probe.runs import Progress, Retries, RunSummary, Store, run_sync, run_trials

QUICK = Retries(attempts=3, base=0.01, cap=0.05)


async def ask(phantom_or_url: Phantom | str, path: Path, plan: list[Trial], **more: object) -> RunSummary:
    url = phantom_or_url if isinstance(phantom_or_url, str) else phantom_or_url.url
    model = "m" if isinstance(phantom_or_url, str) else phantom_or_url.model
    spec = EndpointSpec(url, more.pop("model", model), timeouts=Timeouts(5, 5, 5, 10))  # type: ignore[arg-type]
    async with open_endpoint(spec) as endpoint:
        with Store(path) as store:
            options = {"render": render, "retries": QUICK, **more}
            return await run_trials(store, endpoint, plan, **options)  # type: ignore[arg-type]


def counts(path: Path) -> dict[str, int]:
    with Store(path, write=False) as store:
        return store.counts()


async def test_each_trial_is_asked_once_and_answered(tmp_path: Path) -> None:
    """All trials come back answered with their own text; a second call asks nothing."""
    plan = trials(12, repeats=2)
    async with Phantom() as phantom:
        summary = await ask(phantom, tmp_path / "r", plan, concurrency=5)
        assert (summary.asked, summary.answered, summary.attempts) == (24, 24, 24)
        again = await ask(phantom, tmp_path / "r", plan, concurrency=5)
        assert (again.already, again.asked, again.attempts) == (24, 0, 0)
        assert phantom.stats.snapshot()["requests"] == 24
    with Store(tmp_path / "r", write=False) as store:
        for probe, seen in store.observations():
            assert seen.attempt.text == probe.expectation.answers[0]
            assert seen.attempt.usage.prompt_tokens == probe.length_tokens
            assert seen.intended_tokens == probe.length_tokens


async def test_transient_failures_are_asked_again_and_all_attempts_kept(tmp_path: Path) -> None:
    """A 429, a 500 and a cut stream are retried; the observation says how many attempts it took."""
    async with Phantom(script=["rate-limit", "server-error", "none", "cut", "none"]) as phantom:
        summary = await ask(phantom, tmp_path / "r", trials(2))
    assert (summary.answered, summary.attempts) == (2, 5)
    with Store(tmp_path / "r", write=False) as store:
        (first, one), (second, two) = store.observations()
        assert (one.attempts, two.attempts) == (3, 2)
        tried = store.attempts(first.id, one.endpoint, one.decoding.id, 0)
        assert [item.outcome for item in tried] == ["rate_limited", "server_error", "answered"]
        tried = store.attempts(second.id, two.endpoint, two.decoding.id, 0)
        assert [item.outcome for item in tried] == ["cut_stream", "answered"]


async def test_the_wait_that_the_server_names_is_kept(tmp_path: Path) -> None:
    """Retry-After holds everybody back, not only the one who got it."""
    async with Phantom(script=["rate-limit:0.4"]) as phantom:
        begun = time.perf_counter()
        await ask(phantom, tmp_path / "r", trials(3), concurrency=1)
        assert time.perf_counter() - begun >= 0.4
        arrivals = [item["arrived_ns"] for item in phantom.stats.snapshot(log=True)["log"]]
    assert sorted(arrivals)[1] - sorted(arrivals)[0] >= 400_000_000


async def test_a_failure_that_outlasts_its_retries_is_left_for_the_next_run(tmp_path: Path) -> None:
    """Retries are bounded; a transient failure is an observation of its own, and the next run asks again."""
    plan = trials(3)
    async with Phantom(script=["none", *["server-error"] * 3, "none"]) as phantom:
        summary = await ask(phantom, tmp_path / "r", plan)
        assert summary.outcomes == {Outcome.ANSWERED: 2, Outcome.SERVER_ERROR: 1}
        assert summary.open == 1
        second = await ask(phantom, tmp_path / "r", plan)
        assert (second.already, second.asked, second.answered) == (2, 1, 1)
    assert counts(tmp_path / "r") == {
        "trials": 3,
        "attempts": 6,
        "observations": 3,
        "unasked": 0,
        "answered": 3,
    }


async def test_a_final_refusal_is_not_asked_again_unless_wanted(tmp_path: Path) -> None:
    """A prompt that does not fit stays refused; naming the outcome asks once more."""
    plan = trials(4)
    async with Phantom(script=["none", "context"]) as phantom:
        await ask(phantom, tmp_path / "r", plan)
        assert (await ask(phantom, tmp_path / "r", plan)).asked == 0
        more = await ask(phantom, tmp_path / "r", plan, again=[Outcome.CONTEXT_REFUSED])
        assert (more.asked, more.answered) == (1, 1)


async def test_refused_optional_fields_cost_no_retry(tmp_path: Path) -> None:
    """Fields that the endpoint will not take are dropped even where a single attempt is allowed."""
    async with Phantom(Behaviour(refuse_fields=("logprobs", "top_logprobs", "stream_options"))) as phantom:
        summary = await ask(phantom, tmp_path / "r", trials(6), retries=Retries(attempts=1), concurrency=3)
    assert summary.answered == 6
    with Store(tmp_path / "r", write=False) as store:
        dropped = {seen.attempt.dropped_fields for _, seen in store.observations()}
    assert all("logprobs" in fields and "stream_options" in fields for fields in dropped)


async def test_a_prompt_that_cannot_be_built_is_noted_and_passed_over(tmp_path: Path) -> None:
    """A LengthError ends nothing: the trial is counted as unasked, and the next run tries again."""

    def picky(item: Probe) -> Rendered:
        if item.cluster == "doc1":
            raise LengthError("no sentence is short enough")
        return render(item)

    plan = trials(3)
    async with Phantom() as phantom:
        summary = await ask(phantom, tmp_path / "r", plan, render=picky)
        assert (summary.asked, summary.unasked, summary.open) == (2, 1, 1)
        with Store(tmp_path / "r", write=False) as store:
            assert store.unasked() == {plan[1].probe.id: "no sentence is short enough"}
        assert (await ask(phantom, tmp_path / "r", plan)).asked == 1
    assert counts(tmp_path / "r")["unasked"] == 0


async def test_another_error_of_the_renderer_stops_the_run(tmp_path: Path) -> None:
    """What is not a LengthError is a fault of ours and is not swallowed, nor wrapped."""

    def broken(item: Probe) -> Rendered:
        raise ZeroDivisionError("oh")

    async with Phantom() as phantom:
        with pytest.raises(ZeroDivisionError, match="oh"):
            await ask(phantom, tmp_path / "r", trials(3), render=broken, concurrency=2)


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_a_wrong_key_stops_at_once(tmp_path: Path, concurrency: int) -> None:
    """A refused key ends the run with its own error; the trials stay open."""
    async with Phantom(api_key="right") as phantom:
        with pytest.raises(Unauthorised, match="name the environment variable"):
            await ask(phantom, tmp_path / "r", trials(50), concurrency=concurrency)
        assert phantom.stats.snapshot()["requests"] <= concurrency
    assert counts(tmp_path / "r")["observations"] == 0


async def test_a_wrong_model_stops_at_once(tmp_path: Path) -> None:
    """An unknown model ends the run and is named."""
    async with Phantom() as phantom:
        with pytest.raises(ModelNotFound, match="nobody"):
            await ask(phantom, tmp_path / "r", trials(5), model="nobody")


async def test_nobody_there_stops_soon(tmp_path: Path) -> None:
    """After three attempts that reached nobody the run ends; what was tried is kept."""
    with pytest.raises(EndpointUnreachable, match="is the server up"):
        await ask("http://127.0.0.1:9/v1", tmp_path / "r", trials(50))
    assert counts(tmp_path / "r") == {"trials": 50, "attempts": 3, "observations": 0, "unasked": 0}


async def test_a_silent_endpoint_is_told_while_it_is_waited_for_and_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note says how many requests wait and for how long; two that took all their time end the run."""
    monkeypatch.setattr("bunny_probe.runs.reporting._SECONDS_BETWEEN_TICKS", 0.05)
    monkeypatch.setattr("bunny_probe.runs.reporting._WORTH_TELLING_S", 0.1)
    reports: list[Progress] = []
    async with serve([30.0]) as server:
        spec = EndpointSpec(server.url, "m", timeouts=Timeouts.of(0.3))
        async with open_endpoint(spec) as endpoint:
            with (
                Store(tmp_path / "r") as store,
                pytest.raises(
                    EndpointUnreachable, match=r"says nothing \(no first byte within 0.3 s, .*--timeout"
                ),
            ):
                await run_trials(store, endpoint, trials(9), render, retries=QUICK, progress=reports.append)
    assert len(server.seen) == 2
    assert "1 waiting, the oldest for 0 s" in {report.note for report in reports}
    assert counts(tmp_path / "r")["observations"] == 0


async def test_one_prompt_that_takes_too_long_is_tried_once_more(tmp_path: Path) -> None:
    """Five times its limit would be an hour; the rest is asked meanwhile, the next run asks it again."""
    async with Phantom(script=["none", "stall:30", "stall:30", "none"]) as phantom:
        spec = EndpointSpec(phantom.url, phantom.model, timeouts=Timeouts.of(0.5))
        async with open_endpoint(spec) as endpoint:
            with Store(tmp_path / "r") as store:
                summary = await run_trials(store, endpoint, trials(3), render, retries=Retries(base=0.01))
    assert summary.outcomes == {Outcome.ANSWERED: 2, Outcome.TIMEOUT: 1}
    assert (summary.attempts, summary.open) == (4, 1)


async def test_an_endpoint_that_only_fails_stops_the_run(tmp_path: Path) -> None:
    """Five trials in a row without anything but server errors end the run instead of burning all of it."""
    async with serve(error_reply(500, {"error": {"message": "boom"}})) as server:
        with pytest.raises(EndpointError, match="keeps failing: 5 probes in a row"):
            await ask(server.url, tmp_path / "r", trials(50))
        assert len(server.seen) == 15


async def test_an_endpoint_that_refuses_everything_stops_the_run(tmp_path: Path) -> None:
    """Three bad requests before any answer mean that all are bad: no campaign is burnt on them."""
    async with serve(error_reply(400, {"error": {"message": "no such thing"}})) as server:
        with pytest.raises(ProtocolError, match="refuses every request"):
            await ask(server.url, tmp_path / "r", trials(50))
        assert len(server.seen) == 3


async def test_a_server_that_goes_away_is_told_and_what_came_stays(tmp_path: Path) -> None:
    """A server that dies in the middle ends the run with an error; the answers before are kept."""
    plan = trials(60)
    phantom = Phantom(Behaviour(latency=Latency(base=0.02))).start()

    def stop(progress: Progress) -> None:
        if progress.done >= 10:
            phantom.stop()

    with pytest.raises(EndpointUnreachable):
        await ask(phantom, tmp_path / "r", plan, concurrency=2, progress=stop)
    assert 10 <= counts(tmp_path / "r")["answered"] < 60


async def test_cancelling_keeps_what_is_finished(tmp_path: Path) -> None:
    """A cancelled run has every finished answer on disk, and the next one asks only the rest."""
    plan = trials(30)
    async with Phantom(Behaviour(latency=Latency(base=0.05))) as phantom:
        some = asyncio.Event()

        def watch(progress: Progress) -> None:
            if progress.done >= 3:
                some.set()

        task = asyncio.create_task(ask(phantom, tmp_path / "r", plan, concurrency=3, progress=watch))
        await some.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        kept = counts(tmp_path / "r")
        assert 3 <= kept["answered"] < 30
        second = await ask(phantom, tmp_path / "r", plan, concurrency=8)
        assert (second.already, second.answered) == (kept["answered"], 30 - kept["answered"])


async def test_prompts_are_rendered_late(tmp_path: Path) -> None:
    """No more prompts are built ahead than the workers and a short queue can hold."""
    built: list[int] = []

    def counting(item: Probe) -> Rendered:
        built.append(1)
        return render(item)

    async with Phantom(Behaviour(latency=Latency(base=30.0))) as phantom:
        task = asyncio.create_task(ask(phantom, tmp_path / "r", trials(200), concurrency=8, render=counting))
        while phantom.stats.snapshot()["active"] < 8:  # noqa: ASYNC110 (the phantom has no event for it)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        assert 8 <= len(built) <= 8 + 4 + 4
        task.cancel()
        await asyncio.wait([task])


async def test_an_open_loop_keeps_its_schedule(tmp_path: Path) -> None:
    """Requests leave on the absolute schedule whatever the answers take, and remember when they were due."""
    moments = [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]
    async with Phantom(Behaviour(latency=Latency(base=0.3))) as phantom:
        summary = await ask(phantom, tmp_path / "r", trials(6), concurrency=6, schedule=moments)
        arrived = sorted(item["arrived_ns"] for item in phantom.stats.snapshot(log=True)["log"])
    assert summary.answered == 6
    assert arrived[-1] - arrived[0] < 300_000_000  # nobody waited for an answer
    with Store(tmp_path / "r", write=False) as store:
        late = [-(seen.attempt.timing.scheduled or 0) / 1e9 for _, seen in store.observations()]  # type: ignore[union-attr]
    assert all(0 <= seconds < 0.25 for seconds in late)


async def test_a_late_client_shows_in_the_scheduled_time(tmp_path: Path) -> None:
    """With too few workers the send is late, and the time since it was due says so (coordinated omission)."""
    async with Phantom(Behaviour(latency=Latency(base=0.2))) as phantom:
        await ask(phantom, tmp_path / "r", trials(3), concurrency=1, schedule=[0.0, 0.0, 0.0])
    with Store(tmp_path / "r", write=False) as store:
        late = sorted(-(seen.attempt.timing.scheduled or 0) / 1e9 for _, seen in store.observations())  # type: ignore[union-attr]
    assert late[1] >= 0.19
    assert late[2] >= 0.39


async def test_progress_ends_with_all_done(tmp_path: Path) -> None:
    """The last report has everything done, no time left, and the prompt tokens of the whole plan."""
    plan = trials(10)
    reports: list[Progress] = []
    async with Phantom() as phantom:
        await ask(phantom, tmp_path / "r", plan, progress=reports.append)
    tokens = sum(trial.probe.length_tokens or 0 for trial in plan)
    assert (reports[0].done, reports[0].eta_s) == (0, None)
    last = reports[-1]
    assert (last.done, last.total, last.failures, last.eta_s) == (10, 10, 0, 0.0)
    assert (last.tokens_done, last.tokens_total) == (tokens, tokens)


async def test_many_workers_and_few_trials_end(tmp_path: Path) -> None:
    """Fewer trials than workers, and none at all, come to an end."""
    async with Phantom() as phantom:
        assert (await ask(phantom, tmp_path / "r", trials(2), concurrency=64)).asked == 2
        assert (await ask(phantom, tmp_path / "s", [], concurrency=64)).asked == 0


def test_the_sync_call_works_with_and_without_a_running_loop(tmp_path: Path) -> None:
    """The same call runs from plain code and from inside a notebook's running loop."""
    with Phantom() as phantom:

        def plain(name: str) -> int:
            return run_sync(lambda: ask(phantom, tmp_path / name, trials(3))).answered

        async def notebook() -> int:
            return plain("b")

        assert plain("a") == 3
        assert asyncio.run(notebook()) == 3


def test_random_faults_lose_nothing(tmp_path: Path) -> None:
    """Under a mix of faults every trial ends answered, once each by the phantom's own books."""
    plan = trials(60)
    rates = {"rate-limit:0": 0.1, "server-error": 0.1, "cut": 0.1, "stream-error": 0.1, "close": 0.05}
    with Phantom(Behaviour(fault_rates=rates, seed=3)) as phantom:
        for _ in range(6):
            summary = run_sync(lambda: ask(phantom, tmp_path / "r", plan, concurrency=8, rng=random.Random(1)))
        books = phantom.stats.snapshot()
    assert summary.already + summary.answered == 60
    assert counts(tmp_path / "r")["answered"] == 60
    assert books["prompts_answered_twice"] == 0
    assert books["answered"] == 60


def test_a_run_keeps_what_its_client_was_worth(tmp_path: Path) -> None:
    """Each session of asking leaves its own lateness and how many times it spoiled, an interrupted one too."""
    with Phantom() as phantom:
        run_sync(lambda: ask(phantom, tmp_path / "r", trials(3)))
        run_sync(lambda: ask(phantom, tmp_path / "r", trials(5), concurrency=2))
        run_sync(lambda: ask(phantom, tmp_path / "r", trials(5)))  # nothing left to ask
    with Store(tmp_path / "r", write=False) as store:
        told = store.meta("client")
    assert [(item["attempts"], item["concurrency"]) for item in told] == [(3, 1), (2, 2)]
    assert all(item["worst_lag_s"] >= 0 and item["elapsed_s"] > 0 for item in told)
