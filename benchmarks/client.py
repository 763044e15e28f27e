"""What the client costs and how true its times are, against peers measured in the same run.

    python benchmarks/client.py [--quick] [--json]

Each client runs in a process of its own against one server process that writes 64 streams of 64 tokens, one
event a write. Cost is CPU time a content event: ours all-in (parsing, token trace, run file flushed to disk),
the peers bare. Truth is the server's own record of when it read each request and wrote each token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bunny_probe.records import Attempt

STREAMS, TOKENS = 64, 64
HERE = Path(__file__).resolve().parent


# ── the clients, each in its own process ────────────────────────────────────────────────────────────


def _headers(ttft: float, gap: float) -> dict[str, str]:
    return {"X-Ttft": str(ttft), "X-Gap": str(gap), "X-Tokens": str(TOKENS)}


_PACE = _headers(0.05, 0.01)


def _body(name: str) -> dict[str, Any]:
    return {"model": "stream", "messages": [{"role": "user", "content": name}], "stream": True}


async def _aiohttp(url: str, rounds: int) -> None:
    """The floor: bytes are counted and thrown away."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(name: str) -> int:
            seen = 0
            async with session.post(f"{url}/chat/completions", json=_body(name), headers=_PACE) as r:
                async for chunk in r.content.iter_any():
                    seen += len(chunk)
            return seen

        await _rounds(one, rounds)


async def _httpx(url: str, rounds: int) -> None:
    """Lines of the stream, not even decoded."""
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=STREAMS)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def one(name: str) -> int:
            seen = 0
            request = client.stream("POST", f"{url}/chat/completions", json=_body(name), headers=_PACE)
            async with request as response:
                async for line in response.aiter_lines():
                    seen += bool(line)
            return seen

        await _rounds(one, rounds)


async def _openai(url: str, rounds: int) -> None:
    """The official SDK's stream of typed chunks."""
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60)

    async def one(name: str) -> int:
        seen = 0
        stream = await client.chat.completions.create(**_body(name), extra_headers=_PACE)  # type: ignore[call-overload]
        async for chunk in stream:
            seen += len(chunk.choices)
        return seen

    await _rounds(one, rounds)


async def _rounds(one: Callable[[str], Awaitable[int]], rounds: int) -> None:
    for number in range(rounds + 1):
        if number == 1:  # the first round warms connections and code
            _begin()
        seen = await asyncio.gather(*(one(f"{number}-{i}") for i in range(STREAMS)))
        assert min(seen) > 0
    _end(rounds * STREAMS * TOKENS)


async def _ours(url: str, rounds: int) -> None:
    """A whole run: scheduler, client, traces and the run file."""
    from bunny_probe.endpoints import EndpointSpec, open_endpoint
    from bunny_probe.records import Decoding, Expectation, Message, Probe, Recipe, Rendered, Trial
    from bunny_probe.runs import Store, run_trials

    def trials(number: int) -> list[Trial]:
        probes = [
            Probe("bench", "stream", Recipe(f"go {number} {i}", ""), Expectation("anchor"), None)
            for i in range(STREAMS)
        ]
        return [Trial(probe, Decoding(max_tokens=TOKENS, top_logprobs=None)) for probe in probes]

    def render(probe: Probe) -> Rendered:
        return Rendered((Message("user", probe.recipe.head),), 20, probe.id, "none")

    spec = EndpointSpec(url, "stream", headers=_PACE)
    with tempfile.TemporaryDirectory(dir=HERE) as folder, Store(Path(folder) / "run.db") as store:
        async with open_endpoint(spec) as endpoint:
            plans = [trials(number) for number in range(rounds + 1)]
            for number, plan in enumerate(plans):
                if number == 1:
                    _begin()
                summary = await run_trials(store, endpoint, plan, render, concurrency=STREAMS)
                assert summary.answered == STREAMS
                assert summary.completion_tokens == STREAMS * TOKENS
            _end(rounds * STREAMS * TOKENS, trace_bytes_per_token=_trace_bytes(store.path) / TOKENS)


def _trace_bytes(run: Path) -> float:
    """Mean size of a stored token trace."""
    with closing(sqlite3.connect(run)) as db:
        return float(db.execute("SELECT avg(length(trace)) FROM attempts").fetchone()[0])


_started = 0.0


def _begin() -> None:
    global _started
    _started = time.process_time()


def _end(events: int, **more: float) -> None:
    print(json.dumps({"us_per_event": (time.process_time() - _started) / events * 1e6, **more}))


async def _times(url: str, staggered: int) -> None:
    """Our times of 64 streams beside the server's: sent together, or one after the other."""
    from bunny_probe.endpoints import EndpointSpec, open_endpoint
    from bunny_probe.records import Decoding, Message

    gap = 0.02
    errors: list[float] = []
    lags: list[float] = []
    worst, valid = 0, True
    async with open_endpoint(EndpointSpec(url, "stream", headers=_headers(0.2, gap))) as endpoint:

        async def one(index: int) -> Attempt:
            if staggered:  # spread evenly over a gap, so that no two events are due together
                await asyncio.sleep(1.0 + index * gap * 1.015625)
            return await endpoint.attempt([Message("user", str(index))], Decoding(top_logprobs=None))

        for number in range(4):
            attempts = await asyncio.gather(*(one(i) for i in range(STREAMS)))
            truth = json.loads((await endpoint.http.get(url.removesuffix("/v1") + "/truth")).content)
            if number == 0:  # warms connections and code
                continue
            for index, attempt in enumerate(attempts):
                read, *written = truth[str(index)]
                lateness = [a - (w - read) for a, w in zip(attempt.trace.arrival, written, strict=True)]
                timing = attempt.timing
                assert timing is not None
                errors.append(lateness[0] / 1e6)
                lags += [value / 1e6 for value in lateness]
                worst, valid = max(worst, timing.client_lag or 0), valid and timing.valid
    print(
        json.dumps({"ttft_error_ms": errors, "event_lag_ms": lags, "worst_lag_ms": worst / 1e6, "valid": valid})
    )


_CLIENTS = {"aiohttp": _aiohttp, "httpx": _httpx, "openai": _openai, "ours": _ours, "times": _times}


# ── the comparison ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, str(HERE / "_stream_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def _run(client: str, url: str, argument: int) -> Any:
    command = [sys.executable, __file__, "--client", client, url, str(argument)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def measure(quick: bool) -> dict[str, Any]:
    rounds, repeats = (2, 2) if quick else (8, 5)
    with _server() as url:
        stored = 0.0
        costs: dict[str, list[float]] = {"aiohttp": [], "ours": [], "httpx": [], "openai": []}
        for _ in range(repeats):  # in turn, so that a disturbance meets all of them
            for client, found in costs.items():
                told = _run(client, url, rounds)
                found.append(told["us_per_event"])
                stored = told.get("trace_bytes_per_token", stored)
        together, apart = _run("times", url, 0), _run("times", url, 1)
    cost = {client: statistics.median(found) for client, found in costs.items()}
    values = {
        "CPU per event, ours over bare aiohttp": (cost["ours"] / cost["aiohttp"], 1.6, "at most"),
        "CPU per event, httpx streaming over ours": (cost["httpx"] / cost["ours"], 3.0, "at least"),
        "CPU per event, openai SDK over ours": (cost["openai"] / cost["ours"], 12.0, "at least"),
        "mean TTFT error, 64 streams together (ms)": (
            statistics.mean(together["ttft_error_ms"]),
            5.0,
            "at most",
        ),
        "p99 TTFT error, 64 streams together (ms)": (
            _quantile(together["ttft_error_ms"], 0.99),
            12.0,
            "at most",
        ),
        "p99 event lag, 64 streams staggered (ms)": (_quantile(apart["event_lag_ms"], 0.99), 1.5, "at most"),
    }
    return {
        "us_per_event": {client: {"median": cost[client], "all": costs[client]} for client in costs},
        "trace_bytes_per_token": stored,
        "events_per_repeat": rounds * STREAMS * TOKENS,
        "worst_client_lag_ms": {"together": together["worst_lag_ms"], "staggered": apart["worst_lag_ms"]},
        "bars": [
            {
                "name": name,
                "value": value,
                "limit": f"{word} {limit:g}",
                "holds": bool(value <= limit if word == "at most" else value >= limit),
            }
            for name, (value, limit, word) in values.items()
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute on two cores")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)  # a client process of this script
    options = parser.parse_args()
    if options.client:
        import uvloop

        name, url, argument = options.client
        uvloop.run(_CLIENTS[name](url, int(argument)))
        return 0
    result = measure(options.quick)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for client, cost in result["us_per_event"].items():
            bare = cost["median"] / result["us_per_event"]["aiohttp"]["median"]
            print(f"{client:10} {cost['median']:8.1f} µs CPU an event, {bare:5.2f} bare loops")
        print(f"a stored token trace: {result['trace_bytes_per_token']:.1f} bytes a token")
        for bar in result["bars"]:
            print(f"{'holds' if bar['holds'] else 'FAILS'}  {bar['name']}: {bar['value']:.2f} ({bar['limit']})")
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
