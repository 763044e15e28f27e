"""What the engine survives: mutated requests, mutated weight files, and a day's traffic in a few minutes.

A random model of two layers is served by `bunny-engine serve` in a process of its own. 10,000 mutated requests:
each is answered within its time, by a 2xx or a 4xx. 2,000 mutated files (GGUF, folders, conversions in the
cache): each is refused by name or gives finite numbers. 28,800 requests, one every three seconds for a day,
sent as fast as they are answered: streams, scores, several choices, shared prefixes, a third of the clients
leaving early; then nothing runs, nothing is held, and the process has not grown since its first third.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engine" / "server"))

import tiny_models
from _engine_report import bar, report

PATIENCE = 30.0  # seconds until an answer counts as a hang
ARCHITECTURES = ("llama", "qwen3", "gemma3")


@contextlib.contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[str, int]]:
    """URL and process id of a server of a tiny model."""
    from _engine_load import started

    ready = folder / "ready.json"
    command = [sys.executable, "-m", "bunny_engine.cli", "serve", "--port", "0", "--ready-file", str(ready)]
    with started([*command, "--threads", "1", *arguments]) as process:
        while not ready.exists():
            if process.poll() is not None:
                raise RuntimeError(f"bunny-engine ended with {process.returncode}")
            time.sleep(0.02)
        yield json.loads(ready.read_text())["url"], process.pid
        if process.poll() is not None:
            raise RuntimeError(f"the server died: {process.returncode}")


async def mutated_requests(url: str, count: int, clients: int = 8) -> Counter[str]:
    """Answers by kind: a status, "hang", or what the connection broke with."""
    from test_fuzz import SEEDS, mutated

    seen: Counter[str] = Counter()
    numbers = iter(range(count))

    async def work(client: httpx.AsyncClient) -> None:
        for number in numbers:
            rng = random.Random(number)
            path, seed = rng.choice(SEEDS)
            body = mutated(rng, seed)
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await client.post(url + path, content=body)
                seen[str(answer.status_code)] += 1
                if answer.status_code >= 500:
                    print(f"request {number}: {path} {body[:500]!r}: {answer.text[:300]}", file=sys.stderr)
            except TimeoutError:
                seen["hang"] += 1
                print(f"request {number} hangs: {path} {body[:500]!r}", file=sys.stderr)
            except httpx.HTTPError as fault:
                seen[type(fault).__name__] += 1

    async with httpx.AsyncClient(timeout=None) as client:
        await asyncio.gather(*(work(client) for _ in range(clients)))
    return seen


def mutated_weights(root: Path, count: int) -> Counter[str]:
    """Files by what became of them: refused, usable, hang, or a crash."""
    built = {name: tiny_models.build(root, name) for name in ARCHITECTURES}
    seen: Counter[str] = Counter()
    number = 0
    while number < count:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        worker = multiprocessing.get_context("spawn").Process(
            target=_load_all, args=(theirs, root, number, count)
        )
        worker.start()
        theirs.close()
        while number < count:
            try:
                verdict = ours.recv() if ours.poll(PATIENCE * 2) else "hang"
            except EOFError:
                verdict = f"crash {worker.exitcode}"
            seen[verdict] += 1
            number += 1
            if verdict not in ("refused", "usable"):
                print(f"file {number - 1}: {verdict}", file=sys.stderr)
            if verdict == "hang" or verdict.startswith("crash"):  # of the process: the next one goes on
                break
        worker.kill()
        worker.join()
    del built
    return seen


def _load_all(pipe: Connection, root: Path, start: int, stop: int) -> None:
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    import torch

    torch.set_num_threads(1)
    for number in range(start, stop):
        pipe.send(_load_one(root, number))


def _load_one(root: Path, number: int) -> str:
    import torch
    from bunny_engine.errors import EngineError
    from bunny_engine.fetch import Source
    from bunny_engine.loading import open_model
    from bunny_engine.memory import DenseMemory
    from bunny_engine.tokenizer import load_tokenizer

    rng = random.Random(number)
    name = rng.choice(ARCHITECTURES)
    place = root / f"file-{number}"
    kind = rng.choice(("gguf", "gguf", "hf", "conversion"))
    shutil.rmtree(root / "cache", ignore_errors=True)
    weights = rng.choice(("auto", "hybrid", "int8"))
    try:
        if kind == "gguf":
            place.mkdir()
            victim = place / "model.gguf"
            shutil.copy(root / f"{name}.gguf", victim)
            source = Source("m", victim, "gguf")
        else:
            shutil.copytree(root / f"{name}-folder", place)
            source = Source("m", place, "hf")
            victim = place / rng.choice(
                ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
            )
            if kind == "conversion":
                folder = open_model(source, device="cpu", weights=weights)[1].folder
                load_tokenizer(source)
                victim = rng.choice(
                    sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))
                )
        _mutate(victim, rng)
        model, _ = open_model(source, device="cpu", weights=weights)
        load_tokenizer(source).encode("hello world <|im_end|>")
        memory = DenseMemory(model.config, 8, model.dtype, model.device)
        with torch.inference_mode():
            model.prepare()
            ids = torch.tensor([3, 4, 5, 6]) % model.config.vocab
            logits = model.logits(model.chunk(ids, memory))
        return "usable" if bool(logits.isfinite().all()) else "numbers that are not finite"
    except EngineError:
        return "refused"
    except Exception as fault:
        print(f"file {number}: {type(fault).__name__}: {fault}", file=sys.stderr)
        return f"unforeseen {type(fault).__name__}"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _mutate(path: Path, rng: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    path.unlink()  # a conversion may be mapped by the model that was made of it
    front = min(len(raw), 6000 if rng.random() < 0.7 else len(raw))  # most of them where the structure is
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(min(front, len(raw)))
        match rng.randrange(4):
            case 0:
                raw[at] ^= 1 << rng.randrange(8)
            case 1:
                raw[at] = rng.choice(b'\x00\xff"{}[],0129-eE')
            case 2:
                raw[at : at + 8] = rng.choice((2**63, 2**64 - 1, 2**32, 2**40, 0)).to_bytes(8, "little")
            case _:
                raw[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
    path.write_bytes(raw[: rng.randrange(len(raw))] if rng.random() < 0.1 else raw)


async def soak(url: str, pid: int, count: int, clients: int = 24) -> dict[str, Any]:
    """Send a day's traffic; the process's resident memory is noted at every hundredth part."""
    sizes: list[float] = []
    seen: Counter[str] = Counter()
    numbers = iter(range(count))

    async def work(client: httpx.AsyncClient) -> None:
        for number in numbers:
            if number % (count // 100) == 0:
                sizes.append(_resident(pid))
            try:
                async with asyncio.timeout(PATIENCE):
                    seen[await _one(client, url, random.Random(number))] += 1
            except TimeoutError:
                seen["hang"] += 1
            except httpx.HTTPError as fault:
                seen[type(fault).__name__] += 1

    async with httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=clients)) as client:
        await asyncio.gather(*(work(client) for _ in range(clients)))
        for _ in range(100):
            text = (await client.get(url + "/metrics")).text
            left = {
                name: float(re.search(rf"^bunny_engine_{name} (\S+)", text, re.M)[1])  # type: ignore[index]
                for name in ("running", "waiting", "resident_bytes")
            }
            if not any(left.values()):
                break
            await asyncio.sleep(0.1)
    third = len(sizes) // 3
    return {
        "seen": seen,
        "left": left,
        "early": max(sizes[:third]),
        "late": max(sizes[-third:]),
        "last": sizes[-1],
    }


async def _one(client: httpx.AsyncClient, url: str, rng: random.Random) -> str:
    """One request of a mixed day: what became of it."""
    shared = "hello world " * 8 * rng.randrange(1, 4)
    text = shared + "".join(rng.choices("abcdefgh wxyz", k=rng.randrange(1, 30)))
    body: dict[str, Any] = {
        "model": "tiny",
        "max_tokens": rng.randrange(1, 24),
        "temperature": rng.choice((0, 1)),
    }
    path = rng.choice(("/v1/chat/completions", "/v1/completions", "/v1/completions", "/v1/score", "/tokenize"))
    if path == "/v1/score":
        body = {"model": "tiny", "text_1": shared, "text_2": [text, "world"]}
    elif path == "/tokenize":
        body = {"prompt": text}
    elif path == "/v1/chat/completions":
        body |= {"messages": [{"role": "user", "content": text}], "n": rng.choice((1, 1, 3)), "logprobs": True}
    else:
        body |= {"prompt": text * rng.choice((1, 1, 1, 20)), "echo": rng.random() < 0.3, "logprobs": 2}
    body |= {"stream": rng.random() < 0.5} if path.startswith(("/v1/chat", "/v1/comp")) else {}
    leaves = rng.random() < 1 / 3
    async with client.stream("POST", url + path, json=body) as response:
        if leaves:
            async for _ in response.aiter_raw():
                return "left early"
        await response.aread()
        return str(response.status_code)


def _resident(pid: int) -> float:
    """MiB of a process's resident memory."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--part", choices=("requests", "weights", "soak"), help="only this part")
    options = parser.parse_args()
    share = 20 if options.quick else 1
    rows: list[dict[str, Any]] = []
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(root / "xdg")
        model = str(tiny_models.build(root / "served", "llama").folder) if options.part != "weights" else ""
        limits = ("--context", "200", "--prefix-mib", "4", "--cache-mib", "8", "--slots", "8", "--queue", "64")
        alias = ("--alias", "tiny")
        if options.part in (None, "requests"):
            count = 10_000 // share
            with serving(root, "--model", model, *limits, *alias) as (url, _):
                seen = asyncio.run(mutated_requests(url, count))
            bad = sum(n for what, n in seen.items() if not re.fullmatch("[24]..", what))
            rows.append({"what": "mutated requests", "count": count, "became": _said(seen)})
            bars.append(bar("mutated requests not answered by a 2xx or a 4xx", bad, 0, most=True))
        if options.part in (None, "weights"):
            count = 2_000 // share
            seen = mutated_weights(root, count)
            bad = sum(n for what, n in seen.items() if what not in ("refused", "usable"))
            rows.append({"what": "mutated weight files", "count": count, "became": _said(seen)})
            bars.append(bar("mutated weight files neither refused nor usable", bad, 0, most=True))
        if options.part in (None, "soak"):
            count = 28_800 // share
            with serving(root, "--model", model, *limits, *alias) as (url, pid):
                found = asyncio.run(soak(url, pid, count))
            bad = sum(n for what, n in found["seen"].items() if not re.fullmatch("[24]..|left early", what))
            rows.append({"what": "requests of a day", "count": count, "became": _said(found["seen"])})
            sizes = f"{found['early']:.1f} MiB at most in the first third, {found['late']:.1f} in the last"
            rows.append({"what": "resident memory", "count": 100, "became": sizes})
            bars.append(bar("requests of a day that failed or hung", bad, 0, most=True))
            bars.append(
                bar("left running, waiting or held afterwards", sum(found["left"].values()), 0, most=True)
            )
            bars.append(
                bar("memory in the last third, of the first", found["late"] / found["early"], 1.05, most=True)
            )
    report("what the engine survives", rows, bars, as_json=options.json)


def _said(seen: Counter[str]) -> str:
    return ", ".join(f"{what}: {count:,}" for what, count in sorted(seen.items()))


if __name__ == "__main__":
    main()
