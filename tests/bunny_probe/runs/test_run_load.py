"""Estimates before sending, schedules, and the load table."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from trials import probe, render, trials

from bunny_probe.endpoints import EndpointSpec, open_endpoint
from bunny_probe.errors import UsageError
from bunny_probe.phantom import Behaviour, Latency, Phantom
from bunny_probe.records import Rendered, Trial
from bunny_probe.runs import Price, estimate
from bunny_probe.runs.load import load_table, quantile
from bunny_probe.runs.schedules import constant, poisson


def test_the_estimate_adds_up() -> None:
    """Calls, tokens, the worst dollars and the time are sums over the plan."""
    plan = trials(10, repeats=2, max_tokens=30)
    tokens = sum(trial.probe.length_tokens or 0 for trial in plan)
    told = estimate(plan, price=Price(2.0, 8.0), prefill_rate=100.0, decode_rate=10.0, concurrency=2)
    assert (told.calls, told.prompt_tokens, told.answer_tokens, told.estimated_prompts) == (20, tokens, 600, 0)
    assert told.dollars == pytest.approx((tokens * 2 + 600 * 8) / 1e6)
    assert told.seconds == pytest.approx((tokens / 100 + 600 / 10) / 2)
    assert told.longest_prompt == max(trial.probe.length_tokens or 0 for trial in plan)


def test_the_estimate_does_not_pretend() -> None:
    """Without price or speed there are no dollars and no time; unknown lengths are counted as guesses."""
    free = replace(probe(1), length_tokens=None, id="")
    told = estimate([Trial(free, trials(1)[0].decoding)])
    assert (told.dollars, told.seconds, told.estimated_prompts) == (None, None, 1)
    assert told.prompt_tokens > 0
    limited = estimate(trials(121), requests_per_minute=60)
    assert limited.seconds == 120.0


def test_schedules_are_absolute_and_have_their_rate() -> None:
    """Constant moments do not drift; Poisson ones have the mean and the spread of independent arrivals."""
    assert list(itertools.islice(constant(4.0), 5)) == [0.0, 0.25, 0.5, 0.75, 1.0]
    moments = np.array(list(itertools.islice(poisson(10.0, seed=1), 20_000)))
    gaps = np.diff(moments)
    assert gaps.mean() == pytest.approx(0.1, rel=0.03)
    assert gaps.std() == pytest.approx(0.1, rel=0.03)
    assert list(itertools.islice(poisson(10.0, 1), 5)) == list(moments[:5])
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UsageError):
            next(constant(wrong))


def test_quantiles_are_refused_without_enough_data() -> None:
    """P99 needs 368 values, P50 six; fewer give nothing, rather than the largest value under another name."""
    values = [float(i) for i in range(1000)]
    assert quantile(values[:300], 0.99).value is None
    assert quantile(values[:368], 0.99).value is not None
    assert quantile(values[:5], 0.5).value is None
    assert quantile([], 0.5).value is None


def test_quantile_intervals_cover_the_truth() -> None:
    """Over many samples the interval holds the true quantile at least as often as it says."""
    rng = random.Random(4)
    for q, n in ((0.5, 41), (0.95, 200)):
        truth = float(-np.log(1 - q))
        held = 0
        for _ in range(400):
            told = quantile([rng.expovariate(1.0) for _ in range(n)], q)
            assert told.low is not None
            assert told.high is not None
            held += told.low <= truth <= told.high
        assert held / 400 >= 0.93


async def test_the_load_table_measures_every_cell() -> None:
    """Each cell has its own requests, no warm-up among them, times near the phantom's law, no cache hits."""

    def prompt(tokens: int, number: int) -> Rendered:
        return render(probe(number, words=tokens))

    behaviour = Behaviour(latency=Latency(base=0.05, gap=0.002), answer_tokens=5, prefix_cache_tokens=10**6)
    async with Phantom(behaviour) as phantom:
        async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
            rows = await load_table(
                endpoint, prompt, lengths=(30, 60), concurrencies=(1, 4), requests=8, warm_up=1
            )
        books = phantom.stats.snapshot()
    assert [(row.prompt_tokens, row.concurrency) for row in rows] == [(30, 1), (30, 4), (60, 1), (60, 4)]
    assert books["requests"] == 4 * 9
    assert all(row.requests == 8 and row.errors == 0 for row in rows)
    assert all(row.ttft_mean is None or row.ttft_mean >= 0.05 for row in rows)
    # A machine that is busy with other things spoils times, which are then left out.
    assert all(row.latency["p50"].value is not None for row in rows if row.timed == row.requests)
    assert all(row.latency["p99"].value is None for row in rows)
    assert all(row.cached_share == 0.0 for row in rows)
    one, four = rows[0].answer_tokens_per_s, rows[1].answer_tokens_per_s
    assert one is not None
    assert four is not None
    assert four > one


async def test_errors_of_a_load_are_counted_and_not_timed() -> None:
    """Failed requests are in the error rate and in no latency."""

    def prompt(tokens: int, number: int) -> Rendered:
        return render(probe(number, words=tokens))

    async with Phantom(script=["server-error", "cut"]) as phantom:
        spec = EndpointSpec(phantom.url, phantom.model)
        async with open_endpoint(spec) as endpoint:
            (row,) = await load_table(
                endpoint, prompt, lengths=(10,), concurrencies=(1,), requests=10, warm_up=0
            )
    assert (row.errors, row.error_rate) == (2, 0.2)
    assert row.timed <= 8


async def test_an_open_loop_counts_the_wait_that_a_closed_one_hides() -> None:
    """Sent faster than one at a time is answered, requests queue; each counts from the moment it was due."""

    def prompt(tokens: int, number: int) -> Rendered:
        return render(probe(number, words=tokens))

    serial = Behaviour(latency=Latency(base=0.05), answer_tokens=1, slots=1)
    with Phantom(serial) as phantom:
        async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
            rows = await load_table(
                endpoint, prompt, lengths=(30,), concurrencies=(1,), rates=(100.0,), requests=8, warm_up=1
            )
    closed, opened = rows
    assert (closed.concurrency, closed.rate, opened.concurrency, opened.rate) == (1, None, None, 100.0)
    assert opened.requests == 8
    assert closed.latency_mean is not None
    assert opened.latency_mean is not None
    assert opened.latency_mean > 1.5 * closed.latency_mean
