"""How fast the engine reads and writes on this CPU, beside its peers on the same file in the same run.

Peers: llama.cpp, by an interpreter that has `llama-cpp-python[server]` (`--peer PYTHON`; with cmake and a C++
compiler: `python -m venv peer && peer/bin/pip install 'llama-cpp-python[server]'`), and transformers in float32
with `--transformers`. Within a part runs take turns, and each figure is the best of its repeats. What the
machine can do is measured first: matrix products and reading of memory.

Parts can be measured one by one (`--only prompts`) and joined: `--keep FILE` adds a part to what the file
holds, and report and page show all that it holds then.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from _engine_forms import forms
from _engine_load import bunny, cold_start, first_tokens, llama
from _engine_report import as_served, bar, report, write_page
from _engine_runs import Run, best, limits, llama_peer, ours, prompt_of, transformers_peer
from bunny_engine.engine import EngineOptions
from bunny_engine.fetch import Source, resolve
from bunny_engine.loading import open_engine, open_model
from bunny_engine.types import SamplingParams
from bunny_engine.weights import open_reader

ENGINE, COMPILED, PEER, HF, LIMIT = "engine", "--compile", "llama.cpp", "transformers", "the machine allows"
Part = dict[str, Any]  # rows, bars, facts


def row(what: str, figures: dict[str, float]) -> dict[str, Any]:
    """One measured thing, by who did it."""
    return {"measured": what} | {name: figures.get(name, "") for name in (ENGINE, COMPILED, PEER, HF, LIMIT)}


def runners(options: argparse.Namespace, source: Source, context: int) -> dict[str, Run]:
    runs = {ENGINE: ours(open_model(source)[0]), COMPILED: ours(open_model(source, compiled=True)[0])}
    if options.peer:
        runs[PEER] = llama_peer(options.peer, source, options.threads, context + 64)
    if options.transformers:
        runs[HF] = transformers_peer(source)
    return runs


def prompts(options: argparse.Namespace, source: Source) -> Part:
    """Prompts of 512 and of 4,096 tokens, against what float16 products and attention take at least."""
    long, repeats = (1536, 2) if options.quick else (4096, 3)
    runs = runners(options, source, long)
    runs.pop(COMPILED)  # it reads prompts as the engine does
    can = limits(_config(source))
    short, longer = best(runs, 512, 1, repeats), best(runs, long, 16, 1 if options.quick else 2)
    layers, stored, attention = _work(source, long)
    allowed = (2 * layers * long / can["float16_gflops"] + attention / can["float32_gflops"]) / 1e9
    allowed += 15 * stored / can["read_gbs"] / 1e9
    most = can["float16_gflops"] * 1e9 / (2 * layers)
    rows = [
        row("prompt of 512, tok/s", {name: 512 / short[name][0] for name in runs} | {LIMIT: most}),
        row(
            f"prompt of {long:,} + 16 tokens, s", {name: sum(longer[name]) for name in runs} | {LIMIT: allowed}
        ),
    ]
    bars = []
    if PEER in runs:
        times = short[PEER][0] / short[ENGINE][0]
        bars = [
            bar("512-token prompt, times as fast as llama.cpp", times, 4.0),
            bar(
                f"{long:,} + 16 tokens, times as fast as llama.cpp",
                sum(longer[PEER]) / sum(longer[ENGINE]),
                3.0,
            ),
        ]
    if HF in runs:
        times = short[HF][0] / short[ENGINE][0]
        bars.append(bar("512-token prompt, times as fast as transformers", times, 1.0))
    return {"rows": rows, "bars": bars, "facts": {name: round(value, 1) for name, value in can.items()}}


def decode(options: argparse.Namespace, source: Source) -> Part:
    """Tokens after a context of 512, against how fast the float16 matrices can be read."""
    runs = runners(options, source, 512)
    can = limits(_config(source))
    found = best(runs, 512, 17 if options.quick else 49, 2 if options.quick else 4)
    answer = 16 if options.quick else 48
    _, stored, _ = _work(source, 512)
    figures = {name: answer / found[name][1] for name in runs} | {LIMIT: can["read_gbs"] * 1e9 / stored}
    bars = []
    if PEER in runs:
        bars = [
            bar("decode at 512, times as fast as llama.cpp", figures[ENGINE] / figures[PEER], 0.8),
            bar("  the same, --compile", figures[COMPILED] / figures[PEER], 1.0),
        ]
    if HF in runs:
        bars.append(bar("decode at 512, times as fast as transformers", figures[ENGINE] / figures[HF], 1.3))
    return {"rows": [row("decode at 512, tok/s", figures)], "bars": bars, "facts": {}}


def reuse(options: argparse.Namespace, source: Source) -> Part:
    """Three prompts that share all but their last 40 tokens, against three that share nothing."""
    tokens = 1024 if options.quick else 2048
    different, same = asyncio.run(_shared(source, tokens))
    return {
        "rows": [
            row(f"three different prompts of {tokens + 40:,} tokens, s", {ENGINE: different}),
            row("three that share all but 40 tokens, s", {ENGINE: same}),
        ],
        "bars": [bar("the same prefix three times, times as fast as three", different / same, 2.5)],
        "facts": {},
    }


def start(options: argparse.Namespace, source: Source) -> Part:
    """From the start of the process to the first 200 of /health and of a completion; files are warm."""
    body = {"model": source.name, "prompt": "The capital of France is", "max_tokens": 1}
    cold_start(body)  # warms the files
    starts = [cold_start(body) for _ in range(1 if options.quick else 3)]
    healthy, answered = min(h for h, _ in starts), min(a for _, a in starts)
    return {
        "rows": [
            row("cold start to /health, s", {ENGINE: healthy}),
            row("  to a completion, s", {ENGINE: answered}),
        ],
        "bars": [bar("cold start to the first completion, s", answered, 3.0, most=True)],
        "facts": {},
    }


def clients(options: argparse.Namespace, source: Source) -> Part:
    """Streaming clients that all ask at once: the time to the first token of the 95th of a hundred."""
    count, words, answer = (8 if options.quick else 20), 220, 32
    with bunny("--threads", str(options.threads)) as url:
        times = {ENGINE: asyncio.run(first_tokens(url, count, words, answer))}
    if options.peer:
        with llama(options.peer, source.path, options.threads, 2048) as url:
            times[PEER] = asyncio.run(first_tokens(url, count, words, answer))
    p95 = {name: each[math.ceil(0.95 * count) - 1] for name, each in times.items()}
    bars = []
    if PEER in p95:
        bars = [
            bar(f"{count} clients, P95 of first token, of llama.cpp's", p95[ENGINE] / p95[PEER], 0.5, most=True)
        ]
    return {"rows": [row(f"{count} clients, P95 of first token, s", p95)], "bars": bars, "facts": {}}


def weights(options: argparse.Namespace, source: Source) -> Part:
    """Ways to keep the weights: a table of its own."""
    rows = forms(source, 768 if options.quick else 3072)
    half = next(each for each in rows if each["weights"] == "half")
    for each in rows:
        each["tokens"] = 768 if options.quick else 3072
    change = abs(half["change, %"])
    return {
        "rows": rows,
        "bars": [bar("perplexity change of what is served by default, %", change, 0.05, most=True)],
        "facts": {},
    }


PARTS: dict[str, Callable[[argparse.Namespace, Source], Part]] = {
    "prompts": prompts, "decode": decode, "reuse": reuse, "start": start, "clients": clients, "forms": weights,
}  # fmt: skip


async def _shared(source: Source, tokens: int) -> tuple[float, float]:
    engine, _ = open_engine(source, options=lambda context: EngineOptions(context=context))

    async def ask(ids: list[int]) -> None:
        async for _ in engine.generate(ids, SamplingParams(max_tokens=1, temperature=0.0)):
            pass

    try:
        await ask(prompt_of(16, 99))
        times = []
        for prefixes in ((1, 2, 3), (4, 4, 4)):
            begun = time.perf_counter()
            for end, prefix in enumerate(prefixes):
                await ask(prompt_of(tokens, prefix) + prompt_of(40, 50 + end))
            times.append(time.perf_counter() - begun)
        return times[0], times[1]
    finally:
        engine.close()


def _config(source: Source) -> Any:
    reader = open_reader(source)
    try:
        return reader.config
    finally:
        reader.close()


def _work(source: Source, tokens: int) -> tuple[float, float, float]:
    """Weights of the layers, bytes of all matrices in float16, and operations of causal attention."""
    c = _config(source)
    sizes = {name: math.prod(shape) for name, shape in c.shapes().items() if len(shape) == 2}
    layers = sum(size for name, size in sizes.items() if name.startswith("layers."))
    return layers, 2 * sum(sizes.values()), 2 * c.layers * c.q_rows * tokens**2  # half of two products


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter prompts, fewer repeats and clients")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    here = sys.executable if importlib.util.find_spec("llama_cpp") else None
    parser.add_argument("--peer", default=here, help="an interpreter that has llama-cpp-python[server]")
    parser.add_argument("--transformers", action="store_true", help="measure transformers in float32, too")
    names = ", ".join(PARTS)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help=f"some of {names}; or none")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add what is measured to this file")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page")
    options = parser.parse_args()
    chosen = [] if options.only == "none" else options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only {', '.join(sorted(unknown))}: choose some of {names}, or none")
    as_served()
    torch.set_num_threads(options.threads)
    source = resolve()
    kept = options.keep is not None and options.keep.exists()
    found: dict[str, Part] = json.loads(options.keep.read_text("utf-8")) if kept else {}
    for name in chosen:
        load = os.getloadavg()[0]
        found[name] = PARTS[name](options, source) | {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": round(load, 2),
        }
        if options.keep is not None:
            options.keep.write_text(json.dumps(found, indent=1), "utf-8")
    tables = {
        "engine_cpu": [part for name, part in found.items() if name != "forms"],
        "engine_forms": [found["forms"]] if "forms" in found else [],
    }
    facts = {
        "model": source.name,
        "threads": options.threads,
        "bfloat16_in_hardware": bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
        "load before each part": "; ".join(f"{name} {part['load']}" for name, part in found.items()),
    }
    for part in found.values():
        facts |= part["facts"]
    for page, parts in tables.items():
        if options.write is not None and parts:
            rows, bars = [r for p in parts for r in p["rows"]], [b for p in parts for b in p["bars"]]
            write_page(options.write, page, _without_gaps(rows), bars, facts)
    shown = [part for name in ("engine_cpu", "engine_forms") for part in tables[name]]
    report(
        "engine on the CPU",
        _without_gaps([r for p in tables["engine_cpu"] or tables["engine_forms"] for r in p["rows"]]),
        [b for part in shown for b in part["bars"]],
        as_json=options.json,
        parts=found if options.json else ", ".join(found),
        **facts,
    )


def _without_gaps(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the columns in which nothing was measured."""
    empty = {name for name in rows[0] if all(each[name] == "" for each in rows)}
    return [{name: value for name, value in each.items() if name not in empty} for each in rows]


if __name__ == "__main__":
    main()
