"""Bytes and time of every memory policy and stored form by length, block sizes, and the bars on bytes.

The figures are those of `bunny-engine bench`; the bars are held against what is allocated with 16-bit dense
keys and values, in SmolLM2's shape, at 8,192 and at 65,536 tokens.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from _engine_report import as_served, bar, report, write_page
from bunny_engine.bench import BenchOptions, measure
from bunny_engine.bench_speed import filled, synthetic
from bunny_engine.config import ModelConfig
from bunny_engine.fetch import resolve
from bunny_engine.policies import Policy
from bunny_engine.weights import open_reader

BARS = {8: {8192: 0.62, 65_536: 0.56}, 4: {8192: 0.42, 65_536: 0.32}}  # bits → tokens → of full's bytes


@torch.inference_mode()
def bars_on_bytes(config: ModelConfig) -> list[dict[str, Any]]:
    """What is allocated for a full sequence, over what full allocates, and over what was predicted."""
    model = synthetic(config, 65_536, dtype=torch.bfloat16)
    found = []
    for bits, limits in BARS.items():
        policy = Policy(name="bsr", bits=bits)
        for tokens, limit in limits.items():
            held, full = (filled(model, each, tokens, tokens).nbytes for each in (policy, Policy()))
            predicted = policy.bytes_for(model.config, tokens, model.dtype)
            found.append(
                bar(f"bytes of bsr in {bits} bits over full at {tokens:,}", held / full, limit, most=True)
            )
            found.append(bar("  and off from the prediction", abs(predicted / held - 1), 0.05, most=True))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer lengths and turns")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--context", type=int, default=8192, help="the longest length")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    parser.add_argument(
        "--from", dest="drawn", type=Path, metavar="FILE", help="a bench's JSON, instead of a new one"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write what the bench found there, too")
    options = parser.parse_args()
    as_served()
    source = resolve()
    if options.drawn is not None:
        found = json.loads(options.drawn.read_text())
    else:
        found = measure(source, BenchOptions(quick=options.quick, context=options.context))
    if options.keep is not None:
        options.keep.write_text(json.dumps(found, indent=1))
    columns = {
        "tokens": "length", "policy": "name", "block": "block", "bytes of full": "bytes_of_full",
        "ms a token": "token_ms", "time of full": "token_of_full", "ms a prompt token": "prompt_ms",
        "prompt time of full": "prompt_of_full",
    }  # fmt: skip
    every = [*found["forms"], *found["blocks"][1:], *found["long"]["rows"]]
    rows = [
        {column: ("" if row[name] is None else row[name]) for column, name in columns.items()}
        | {"MiB": row["bytes"] / 2**20}
        for row in every
    ]
    for row in rows[-len(found["long"]["rows"]) :]:
        row["policy"] += f", random, {found['long']['layers']} layers"
    reader = open_reader(source)
    bars = bars_on_bytes(dataclasses.replace(reader.config, layers=2))
    reader.close()
    facts = {name: found.get(name, "not noted") for name in ("model", "dtype", "threads", "when", "load")}
    if options.write is not None:
        write_page(options.write, "engine_memory", rows, bars, facts | {"notes": " ".join(found["notes"])})
    report("engine memory", rows, bars, as_json=options.json, **facts)


if __name__ == "__main__":
    main()
