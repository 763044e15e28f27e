"""The phantom's own books, and the faults, limits and caches that hang on what came before."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from bunny_probe.phantom import Behaviour, Latency, Phantom, Price, prompt_hash


async def test_requests_and_answers_are_counted_by_prompt(ask: Any, request_body: Any):
    """Asked thrice, refused once, answered twice: the books say so, and who was answered twice."""
    with Phantom() as phantom:
        for fault in ("", "server-error", ""):
            await ask(phantom, request_body(), fault)
        await ask(phantom, request_body("Another prompt"), "cut")
        digest = prompt_hash([("user", request_body()["messages"][0]["content"])])
        counted = phantom.stats.prompts[digest]
        assert (counted.requests, counted.answered) == (3, 2)
        books = phantom.stats.snapshot()
        assert (books["requests"], books["answered"], books["prompts_answered_twice"]) == (4, 2, 1)
        assert books["statuses"] == {"200": 3, "500": 1}
        assert books["faults"] == {"cut:1": 1, "server-error:500": 1}
        assert books["kinds"] == {"hit": 2}
        over_http = json.loads((await ask(phantom, path="/phantom/stats?log=1")).body)
        assert {**over_http, "log": None} == {**books, "log": None}
        assert [entry["number"] for entry in over_http["log"]] == [0, 1, 2, 3]
        await ask(phantom, {}, path="/phantom/reset")
        assert phantom.stats.snapshot()["requests"] == 0


async def test_what_was_sent_is_charged_and_refusals_are_free(ask: Any, request_body: Any):
    """Prompt and sent tokens at the price; a cut stream pays for what it got; a 429 nothing."""
    with Phantom(Behaviour(price=Price(1e-6, 1e-3, report=True))) as phantom:
        raw = await ask(phantom, request_body())
        usage = raw.payloads[-1]["usage"]
        whole = usage["prompt_tokens"] * 1e-6 + 8e-3
        assert usage["cost"] == pytest.approx(whole)
        assert phantom.stats.cost == pytest.approx(whole)
        await ask(phantom, request_body(), "cut:3")
        await ask(phantom, request_body(), "rate-limit")
        assert phantom.stats.cost == pytest.approx(whole + usage["prompt_tokens"] * 1e-6 + 3e-3)
        await ask(phantom, request_body(stream=False))
        assert phantom.stats.log[-1].cost == pytest.approx(whole)


async def test_a_script_is_taken_in_order_and_then_nothing_goes_wrong(ask: Any, request_body: Any):
    """From the constructor, from the handle, and over HTTP."""
    with Phantom(script=["rate-limit", "none"]) as phantom:
        phantom.script("server-error:503")
        await ask(phantom, {"faults": ["unauthorised"]}, path="/phantom/script")
        statuses = [(await ask(phantom, request_body())).status for _ in range(5)]
        assert statuses == [429, 200, 503, 401, 200]
        refused = await ask(phantom, {"faults": ["unheard-of"]}, path="/phantom/script")
        assert refused.status == 400


async def test_each_prompts_first_requests_can_fail(ask: Any, request_body: Any):
    """A retry of the same prompt gets through, for every prompt, whatever the order."""
    with Phantom(Behaviour(each_prompt=("rate-limit:0", "server-error"))) as phantom:
        statuses = {name: [] for name in "ab"}
        for name in "abbaba":
            statuses[name].append((await ask(phantom, request_body(f"Prompt {name}"))).status)
        assert statuses == {"a": [429, 500, 200], "b": [429, 500, 200]}


async def test_faults_come_at_their_rate_and_hang_on_prompt_and_attempt(ask: Any, request_body: Any):
    """150 prompts: shares within four standard errors; the same again on another phantom of the same seed."""
    seen = []
    for _ in range(2):
        with Phantom(Behaviour(fault_rates={"rate-limit": 0.2, "server-error": 0.1})) as phantom:
            raws = await asyncio.gather(*(ask(phantom, request_body(f"Prompt {i}")) for i in range(150)))
            seen.append([raw.status for raw in raws])
    assert seen[0] == seen[1]
    for status, share in ((429, 0.2), (500, 0.1), (200, 0.7)):
        assert abs(seen[0].count(status) / 150 - share) < 4 * (share * (1 - share) / 150) ** 0.5


async def test_slots_queue_or_refuse(ask: Any, request_body: Any):
    """Two at a time: five requests take three turns, or three of them get a 429."""
    slow = Latency(base=0.1)
    with Phantom(
        [
            Behaviour("queue", latency=slow, slots=2),
            Behaviour("refuse", latency=slow, slots=2, over_slots="429"),
        ]
    ) as phantom:
        started = time.perf_counter()
        raws = await asyncio.gather(*(ask(phantom, request_body(model="queue")) for _ in range(5)))
        assert {raw.status for raw in raws} == {200}
        assert time.perf_counter() - started > 0.19
        raws = await asyncio.gather(*(ask(phantom, request_body(model="refuse")) for _ in range(5)))
        assert sorted(raw.status for raw in raws) == [200, 200, 429, 429, 429]
        assert phantom.stats.snapshot()["concurrency_peak"] == 5


async def test_a_rate_limit_says_when_to_come_back(ask: Any, request_body: Any):
    """A burst of two passes, the third is told to wait, and after the wait it passes."""
    with Phantom(Behaviour(requests_per_second=5, burst=2)) as phantom:
        raws = [await ask(phantom, request_body()) for _ in range(3)]
        assert [raw.status for raw in raws] == [200, 200, 429]
        assert raws[2].headers["retry-after"] == "1"
        await asyncio.sleep(int(raws[2].headers["retry-after-ms"]) / 1e3 + 0.02)
        assert (await ask(phantom, request_body())).status == 200


async def test_a_shared_prefix_is_cached_and_makes_the_start_faster(ask: Any, request_body: Any):
    """Whole blocks of equal leading tokens are told as cached, and only the rest costs time."""
    law = Latency(per_uncached_token=1e-4)
    with Phantom(Behaviour(prefix_cache_tokens=10_000, prefix_block=100, latency=law)) as phantom:
        document = "word " * 950
        first, second, other = [
            await ask(phantom, request_body(text))
            for text in (document + "\n\nOne?", document + "\n\nTwo?", "x" + document + "\n\nTwo?")
        ]
        cached = [
            raw.payloads[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]
            for raw in (first, second, other)
        ]
        assert cached == [0, 900, 0]
        log = phantom.stats.log
        assert log[1].due_ttft_s == pytest.approx(log[0].due_ttft_s - 900e-4, abs=1e-3)


async def test_events_keep_to_an_absolute_schedule(ask: Any, request_body: Any):
    """The whole of 32 streams of 20 tokens takes what the law says: lateness does not add up."""
    law = Latency(base=0.1, gap=0.02)
    with Phantom(Behaviour(latency=law, answer_tokens=20)) as phantom:
        raws = await asyncio.gather(*(ask(phantom, request_body(f"Prompt {i}")) for i in range(32)))
        assert all(raw.seconds >= 0.1 + 19 * 0.02 for raw in raws)
        books = phantom.stats.snapshot()
        assert books["completion_tokens"] == 32 * 20
        late = books["lateness_s"]
        assert late["events"] >= 32 * 20
        assert 0 <= late["p50"] <= late["p99"] <= late["max"]
        served = phantom.stats.log[0]
        assert served.due_ttft_s == pytest.approx(0.1)
        assert served.sent_ttft_s is not None
        assert served.sent_ttft_s >= 0.1


async def test_a_client_that_leaves_frees_its_place(ask: Any, request_body: Any):
    """Streaming or not, in the middle or before the start: nothing stays active."""
    with Phantom(Behaviour(latency=Latency(base=0.05, gap=0.5), slots=1)) as phantom:
        for stream in (True, False):
            raw = await ask(phantom, request_body(stream=stream), limit=0.15)
            assert raw.ended == "open"
        for _ in range(100):
            if phantom.stats.snapshot()["active"] == 0:
                break
            await asyncio.sleep(0.02)
        books = phantom.stats.snapshot()
        assert (books["active"], books["gone"], books["answered"]) == (0, 2, 0)


async def test_a_million_tokens_are_counted_found_and_answered(ask: Any, request_body: Any):
    """A prompt of 5 MB: the exact count, the planted code, and the other requests go on meanwhile."""
    filler = "The meeting took until noon and nobody had anything to add. " * 40_000
    prompt = (
        filler + "The access code for Oslo is KX-4410-T. " + filler + "\n\nWhat is the access code for Oslo?"
    )
    with Phantom() as phantom:
        big = asyncio.create_task(ask(phantom, request_body(prompt), limit=60))
        waits = []
        while not big.done():
            started = time.perf_counter()
            await ask(phantom, request_body("Short"))
            waits.append(time.perf_counter() - started)
        raw = await big
        assert raw.text == "KX-4410-T"
        assert raw.payloads[-1]["usage"]["prompt_tokens"] == 3 + 2 * 40_000 * 12 + 15 + 3 + 8
        assert len(waits) > 3
