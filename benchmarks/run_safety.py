"""What a run keeps under SIGKILL, what a budget lets through, and what long prompts cost in memory.

    python benchmarks/run_safety.py [--quick] [--json]

The judge is the phantom's own log of what it was asked and what it charged, never the run's books alone.
Killed between the last byte of an answer and its flush to disk, a client cannot know that answer: those few are
asked again, and are told apart here from answers that were on disk, of which none may be.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from bunny_probe.endpoints import EndpointSpec, open_endpoint
from bunny_probe.errors import BunnyError
from bunny_probe.phantom import Behaviour, Latency, Phantom, WordTokenizer, chat_tokens
from bunny_probe.phantom import Price as Charge
from bunny_probe.records import (
    Decoding,
    Expectation,
    Message,
    Probe,
    Recipe,
    Rendered,
    Trial,
    content_hash,
    to_json,
)
from bunny_probe.runs import Budget, Price, Retries, Store, run_sync, run_trials

_COUNTER = WordTokenizer()


def _plan(count: int, words: int = 20, max_tokens: int = 16) -> list[Trial]:
    decoding = Decoding(max_tokens=max_tokens, top_logprobs=None)
    heads = [f"{number} The access code for Town is KX-{number}. " for number in range(count)]
    # The tail of the recipe says how many words of filling it has; `_render` writes them.
    probes = [Probe("bench", "code", Recipe(head, str(words)), Expectation("anchor"), None) for head in heads]
    return [Trial(probe, decoding) for probe in probes]


def _render(probe: Probe) -> Rendered:
    filling = "quiet " * int(probe.recipe.tail)
    messages = (Message("user", f"{probe.recipe.head}{filling}What is the access code for Town?"),)
    tokens = chat_tokens(_COUNTER, [(m.role, m.content) for m in messages])
    return Rendered(messages, tokens, content_hash([to_json(m) for m in messages], length=64), "words")


async def _campaign(url: str, model: str, path: str, count: int, concurrency: int, words: int) -> None:
    async with open_endpoint(EndpointSpec(url, model)) as endpoint:
        with Store(path) as store:
            print("begun", flush=True)
            before = _peak_mib()
            await run_trials(store, endpoint, _plan(count, words), _render, concurrency=concurrency)
    print(json.dumps({"grown_mib": _peak_mib() - before}), flush=True)


def _peak_mib() -> float:
    """Peak memory of this process alone (`ru_maxrss` is inherited from the parent on Linux)."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def _start(phantom: Phantom, run: Path, count: int, concurrency: int, words: int = 20) -> subprocess.Popen[str]:
    arguments = [phantom.url, phantom.model, str(run), str(count), str(concurrency), str(words)]
    child = subprocess.Popen(
        [sys.executable, __file__, "--campaign", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    return child


def kills(folder: Path, count: int, times: int, concurrency: int = 8) -> dict[str, int]:
    """Kill a campaign `times` times at random moments, then let it end."""
    run, rng = folder / "killed.db", random.Random(1)
    with Phantom(Behaviour(latency=Latency(base=0.04, ttft_spread=0.5))) as phantom:
        durable: list[tuple[int, set[str]]] = []
        answers: set[str] = set()
        for left in range(times, 0, -1):
            child = _start(phantom, run, count, concurrency)
            # Spread the kills over the whole campaign.
            share = (count - len(answers)) / left / concurrency * 0.045
            time.sleep(rng.uniform(0, 2 * share))
            child.send_signal(signal.SIGKILL)
            child.communicate()
            with Store(run, write=False) as store:
                answers = {seen.prompt_hash for _, seen in store.observations() if seen.attempt.text}
            while phantom.stats.snapshot(prompts=False)["active"]:
                time.sleep(0.01)
            durable.append((len(phantom.stats.log), answers))
        _start(phantom, run, count, concurrency).communicate()
        log = sorted(phantom.stats.log, key=lambda item: item.number)
        books = phantom.stats.snapshot()
    again = sum(item.prompt_hash in answers for number, answers in durable for item in log[number:])
    with Store(run, write=False) as store:
        held = [seen.prompt_hash for _, seen in store.observations() if seen.attempt.text]
    return {
        "kills": times,
        "probes": count,
        "lost": count - len(set(held)),
        "duplicated": len(held) - len(set(held)),
        "asked again although on disk": again,
        "under way at a kill and asked again": books["prompts_answered_twice"],
    }


async def _within(phantom: Phantom, path: Path, plan: list[Trial], budget: Budget) -> bool:
    """Run a plan; whether something stopped it."""
    retries = Retries(3, base=0.001)
    async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
        with Store(path) as store:
            try:
                await run_trials(store, endpoint, plan, _render, concurrency=8, budget=budget, retries=retries)
            except BunnyError:
                return True
    return False


def budgets(folder: Path, campaigns: int) -> dict[str, Any]:
    """Random campaigns against a phantom that charges, with faults; the worst overspending in dollars."""
    worst, stopped = float("-inf"), 0
    faults = dict.fromkeys(("cut", "server-error", "usage-absent", "stream-error", "rate-limit:0"), 0.06)
    for seed in range(campaigns):
        rng = random.Random(seed)
        prompt, completion = rng.uniform(0, 3e-5), rng.uniform(1e-6, 1e-4)
        charge = Charge(prompt=prompt, completion=completion, report=rng.random() < 0.5)
        limit = rng.uniform(0, 0.03)
        budget = Budget(dollars=limit, price=Price(prompt * 1e6, completion * 1e6))
        plan = _plan(rng.randint(5, 40), rng.randint(1, 200), rng.randint(1, 40))
        path = folder / f"budget{seed}.db"
        with Phantom(Behaviour(price=charge, fault_rates=faults, seed=seed)) as phantom:
            stopped += run_sync(partial(_within, phantom, path, plan, budget))
            worst = max(worst, phantom.stats.cost - limit)
    return {"campaigns": campaigns, "stopped by their budget": stopped, "worst overspending ($)": worst}


def memory(folder: Path, count: int, words: int) -> dict[str, float]:
    """Growth of the client's peak memory with 64 streams of long prompts: a plan, and four times it."""
    grown = {}
    with Phantom(Behaviour(latency=Latency(base=0.2))) as phantom:
        for times in (1, 4):
            child = _start(phantom, folder / f"memory{times}.db", count * times, 64, words)
            grown[times] = json.loads(child.communicate()[0])["grown_mib"]
    return {"prompts": count, "grown_mib": grown[1], "four times the plan, grown_mib": grown[4]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute on two cores")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--campaign", nargs=6, help=argparse.SUPPRESS)  # a client process of this script
    options = parser.parse_args()
    if options.campaign:
        url, model, path, *numbers = options.campaign
        count, concurrency, words = map(int, numbers)
        run_sync(lambda: _campaign(url, model, path, count, concurrency, words))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result: dict[str, Any] = {
            "kills": kills(folder, 120, 8) if options.quick else kills(folder, 500, 100),
            "budgets": budgets(folder, 10 if options.quick else 50),
            "memory": memory(folder, 64, 20_000) if options.quick else memory(folder, 96, 131_000),
        }
    words = 20_000 if options.quick else 131_000
    # A prompt lives as text, as JSON and in the socket's buffer; a few more are rendered ahead.
    bound = 4 * (64 + 8) * 6 * words / 2**20 + 32
    values = [
        ("probes lost", result["kills"]["lost"], 0),
        ("observations duplicated", result["kills"]["duplicated"], 0),
        ("asked again although the answer was on disk", result["kills"]["asked again although on disk"], 0),
        ("worst overspending in dollars", result["budgets"]["worst overspending ($)"], 1e-12),
        ("MiB grown with 64 long prompts under way", result["memory"]["grown_mib"], bound),
        ("MiB grown with four times the plan", result["memory"]["four times the plan, grown_mib"], bound),
    ]
    result["bars"] = [
        {"name": name, "value": value, "limit": f"at most {limit:g}", "holds": bool(value <= limit)}
        for name, value, limit in values
    ]
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for part in ("kills", "budgets", "memory"):
            print(part, ", ".join(f"{key} {value:g}" for key, value in result[part].items()))
        for bar in result["bars"]:
            print(f"{'holds' if bar['holds'] else 'FAILS'}  {bar['name']}: {bar['value']:g} ({bar['limit']})")
    return 0 if all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
