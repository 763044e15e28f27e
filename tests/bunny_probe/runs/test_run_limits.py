"""Budget, rates, backoff and the estimate of the time left."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials import render, trials

from bunny_probe.endpoints import EndpointSpec, open_endpoint
from bunny_probe.errors import BudgetSpent, BunnyError, UsageError
from bunny_probe.phantom import Behaviour, Latency, Phantom
from bunny_probe.phantom import Price as Charge
from bunny_probe.records import Attempt, Message, Outcome, Timing, Usage
from bunny_probe.runs import Budget, Price, Retries, Store, run_sync, run_trials
from bunny_probe.runs.limits import Limits
from bunny_probe.runs.pace import Pace

# ── budget ──────────────────────────────────────────────────────────────────────────────────────────


def campaign(phantom: Phantom, path: Path, budget: Budget, rng: random.Random) -> int:
    """Answers that came; the budget may end it."""
    plan = trials(rng.randint(5, 25), words=rng.randint(1, 200), max_tokens=rng.randint(1, 40))

    async def go() -> int:
        async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
            with Store(path) as store:
                retries, concurrency = Retries(3, base=0.001), rng.choice([1, 3, 8])
                with suppress(BunnyError):
                    await run_trials(
                        store, endpoint, plan, render, concurrency=concurrency, budget=budget, retries=retries
                    )
                return store.counts().get("answered", 0)

    return run_sync(go)


@pytest.mark.parametrize("seed", range(8))
def test_no_campaign_overspends(tmp_path: Path, seed: int) -> None:
    """Whatever limit is set and whatever goes wrong, the phantom's books stay within it, to the last call."""
    rng = random.Random(seed)
    dear = Charge(prompt=rng.uniform(0, 3e-5), completion=rng.uniform(1e-6, 1e-4), report=rng.random() < 0.5)
    faults = {"cut": 0.1, "server-error": 0.1, "usage-absent": 0.1, "stream-error": 0.1} if seed % 2 else {}
    with Phantom(Behaviour(price=dear, fault_rates=faults, seed=seed)) as phantom:
        price = Price(dear.prompt * 1e6, dear.completion * 1e6)
        limit = [
            Budget(dollars=rng.uniform(0, 0.02), price=price),
            Budget(tokens=rng.randint(0, 3000)),
            Budget(calls=rng.randint(0, 12)),
        ][seed % 3]
        campaign(phantom, tmp_path / "r", limit, rng)
        books = phantom.stats.snapshot()
    assert limit.dollars is None or books["cost"] <= limit.dollars + 1e-12
    assert limit.tokens is None or books["prompt_tokens"] + books["completion_tokens"] <= limit.tokens
    assert limit.calls is None or books["requests"] <= limit.calls


def test_a_budget_that_suffices_stops_nothing(tmp_path: Path) -> None:
    """Worst cases under way are waited for, not refused: a budget just above the need lets all through."""
    plan = trials(20, max_tokens=8)
    need = sum((trial.probe.length_tokens or 0) + 8 for trial in plan)

    async def go(phantom: Phantom, tokens: int, name: str) -> int:
        async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
            with Store(tmp_path / name) as store:
                budget = Budget(tokens=tokens)
                summary = await run_trials(store, endpoint, plan, render, concurrency=8, budget=budget)
                assert budget.spent_tokens == summary.prompt_tokens + summary.completion_tokens
                return summary.answered

    with Phantom(Behaviour(answer_tokens=8)) as phantom:
        slack = 800  # the last few prompts' worst cases must fit beside each other
        assert run_sync(lambda: go(phantom, need + slack, "a")) == 20
        with pytest.raises(BudgetSpent, match=r"of 400 tokens.*raise the budget and run again"):
            run_sync(lambda: go(phantom, 400, "b"))


def test_a_budget_must_be_one() -> None:
    """Dollars need a price; negative and endless limits are refused."""
    with pytest.raises(UsageError, match="needs a price"):
        Budget(dollars=1.0)
    for wrong in ({"calls": -1}, {"tokens": float("inf")}, {"dollars": float("nan"), "price": Price(1, 1)}):
        with pytest.raises(UsageError, match="budget in"):
            Budget(**wrong)  # type: ignore[arg-type]


_ANSWERED = Attempt(Outcome.ANSWERED, "", status=200, timing=Timing(0.0, connected=-1))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60), st.booleans(), st.booleans()), max_size=40),
    st.integers(0, 3000),
)
def test_the_ledger_never_exceeds_its_limit(steps: list[tuple[int, int, bool, bool]], limit: int) -> None:
    """In any order of reserving and settling, spent plus reserved stays within the limit, while the server
    counts no more than the worst case."""
    budget = Budget(tokens=limit)
    rendered = render(trials(1, words=5)[0].probe)
    held = []
    for max_tokens, used, settle_first, known in steps:
        if settle_first and held:
            reservation = held.pop(0)
            usage = Usage(rendered.intended_tokens, min(used, reservation.completion_tokens), source="usage")
            attempt = replace(_ANSWERED, usage=usage if known else Usage())
            budget.settle(reservation, attempt, rendered)
        reservation = budget.reserve(rendered, max_tokens)
        if reservation is not None:
            held.append(reservation)
        assert budget.spent_tokens + sum(r.prompt_tokens + r.completion_tokens for r in held) <= limit


def test_worst_cases_shrink_once_the_server_has_confirmed_the_counter() -> None:
    """Bytes bound a prompt until a usage has come; then the planned count does, times the worst ratio seen."""
    budget = Budget(tokens=10_000)
    rendered = replace(render(trials(1)[0].probe), messages=(Message("user", "漢" * 100),), intended_tokens=110)
    first = budget.reserve(rendered, 1)
    assert first is not None
    assert first.prompt_tokens >= 300
    budget.settle(first, replace(_ANSWERED, usage=Usage(121, 1, source="usage")), rendered)
    second = budget.reserve(rendered, 1)
    assert second is not None
    assert second.prompt_tokens == 121


# ── rates ───────────────────────────────────────────────────────────────────────────────────────────


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    async def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-6)
        await _real_sleep(0)


_real_sleep = asyncio.sleep


@pytest.mark.parametrize(("requests", "tokens"), [(7, None), (None, 500), (5, 300)])
async def test_no_minute_holds_more_than_the_rate(
    monkeypatch: pytest.MonkeyPatch, requests: int | None, tokens: int | None
) -> None:
    """In every window of 60 s, not on average, requests and tokens stay within their limits."""
    clock, rng = Clock(), random.Random(1)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    limits = Limits(3, requests_per_minute=requests, tokens_per_minute=tokens, clock=lambda: clock.now)
    sent: list[tuple[float, int]] = []
    for _ in range(60):
        size = rng.randint(1, 120)
        granted = await limits.acquire(size)
        sent.append((granted, size))
        limits.release(granted, _ANSWERED)
        clock.now += rng.uniform(0, 5)
    for at, _ in sent:
        window = [size for when, size in sent if at <= when < at + 60]
        assert requests is None or len(window) <= requests
        assert tokens is None or sum(window) <= tokens


async def test_429_halves_the_concurrency_once_a_round() -> None:
    """Eight refusals of one round halve once; answers bring it back step by step, never above the limit."""
    limits = Limits(8)
    refused = Attempt(Outcome.RATE_LIMITED, "", status=429)
    for _ in range(2):
        granted = [await limits.acquire(1) for _ in range(int(limits.window))]
        for moment in granted:
            limits.release(moment, refused)
    assert limits.window == 2.0
    for _ in range(100):
        limits.release(await limits.acquire(1), _ANSWERED)
    assert limits.window == 8.0
    assert limits.in_flight == 0


async def test_concurrency_is_never_exceeded(tmp_path: Path) -> None:
    """A phantom with few slots that answers 429 is served completely, and sees no more than was allowed."""
    behaviour = Behaviour(slots=3, over_slots="429", latency=Latency(base=0.02))
    async with Phantom(behaviour) as phantom:
        async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
            with Store(tmp_path / "r") as store:
                retries = Retries(attempts=10, base=0.02, cap=0.1)
                summary = await run_trials(store, endpoint, trials(40), render, concurrency=6, retries=retries)
        assert phantom.stats.snapshot()["concurrency_peak"] <= 6
    assert summary.answered == 40


@given(st.integers(1, 12), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 500)))
def test_waits_are_bounded_and_never_shorter_than_asked(made: int, luck: float, named: float | None) -> None:
    """A wait lies within its bounds, is at least what the server named, and ends with the last attempt."""
    rng = random.Random()
    rng.random = lambda: luck  # type: ignore[method-assign]
    retries = Retries(attempts=8, base=0.5, cap=30, patience=100)
    wait = retries.delay(Attempt(Outcome.SERVER_ERROR, "", retry_after=named), made, rng)
    if made >= 8 or (named is not None and named > 100):
        assert wait is None
    elif named is not None:
        assert wait is not None
        assert named <= wait <= named * 1.1 + 1e-9
    else:
        assert wait is not None
        assert min(30, 0.5 * 2 ** (made - 1)) / 2 <= wait <= 30
    assert retries.delay(Attempt(Outcome.CONTEXT_REFUSED, ""), 1, rng) is None


# ── pace ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_estimate_follows_tokens_not_counts() -> None:
    """After the short half of a campaign the estimate is the long half's time, not the short one's."""
    short, long = trials(20, words=100), trials(20, words=4000)
    plan = [*short, *long]

    def seconds(prompt: int) -> float:
        return 0.05 + prompt / 2000 + (prompt / 4000) ** 2

    pace = Pace(plan)
    rng = random.Random(2)
    elapsed = 0.0
    for trial in [*short, *long[:2]]:
        prompt = trial.probe.length_tokens or 0
        first = seconds(prompt) * rng.uniform(0.95, 1.05)
        end = first + 8 * 0.02
        elapsed += end
        timing = Timing(0.0, first_content=int(first * 1e9), end=int(end * 1e9))
        pace.measured(
            trial, Attempt(Outcome.ANSWERED, "", timing=timing, usage=Usage(prompt, 8, source="usage"))
        )
        pace.settled(trial)
    truth = sum(seconds(trial.probe.length_tokens or 0) + 0.16 for trial in long[2:])
    told = pace.left(elapsed, 0.0)
    assert told is not None
    assert abs(told - truth) / truth < 0.15
    by_count = elapsed / 22 * 18
    assert by_count < 0.5 * truth


def test_the_estimate_knows_concurrency_and_its_own_ignorance() -> None:
    """Nothing measured: None. Four at a time: a quarter of the summed service time. Nothing left: 0."""
    plan = trials(8)
    pace = Pace(plan)
    assert pace.left(1.0, 0.0) is None
    for trial in plan[:4]:
        timing = Timing(0.0, first_content=10**9, end=10**9)
        usage = Usage(trial.probe.length_tokens, 4, source="usage")
        pace.measured(trial, Attempt(Outcome.ANSWERED, "", timing=timing, usage=usage))
        pace.settled(trial)
    assert pace.left(1.0, 0.0) == pytest.approx(1.0, rel=0.05)
    for trial in plan[4:]:
        pace.settled(trial)
    assert pace.left(1.0, 0.0) == 0.0
