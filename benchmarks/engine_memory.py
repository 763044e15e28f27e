"""Bytes and time of every memory policy and stored form by length, block sizes, and the bars on bytes.

The figures are those of `bunny-engine bench`; the bars are held against what is allocated with 16-bit dense
keys and values, in SmolLM2's shape, at 8,192 and at 65,536 tokens. With --keep the run can be had in pieces:
each is measured once, and what other processes took of the cores meanwhile is noted with it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from _engine_report import as_served, bar, report, write_page
from bunny_engine.bench import every_form, prose
from bunny_engine.bench_locality import locality
from bunny_engine.bench_notes import notes
from bunny_engine.bench_speed import costs, filled, synthetic
from bunny_engine.config import ModelConfig
from bunny_engine.fetch import Source, resolve
from bunny_engine.loading import open_model
from bunny_engine.policies import Policy

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


@torch.inference_mode()
def measured(source: Source, options: argparse.Namespace) -> dict[str, Any]:
    """The object that `bunny_engine.bench.measure` gives, a piece at a time."""
    started = time.monotonic()
    model, _ = open_model(source)
    model.prepare()
    quick, longest = options.quick, options.context
    steps, far, sizes = (2, 32_768, (128, 512, 1024)) if quick else (6, 65_536, (128, 256, 512, 1024, 2048))
    every = every_form(512)
    sweep = [Policy(), *(Policy(name="bsr", block=block) for block in sizes if 4 * block <= longest)]
    stretched = synthetic(model.config, far)
    work: dict[str, Callable[[], Any]] = {
        f"forms {length}": lambda length=length: costs(model, every, length, steps=steps)  # type: ignore[misc]
        for length in sorted({2048, longest})
    }
    work["blocks"] = lambda: costs(model, sweep, longest, steps=steps)
    work["locality"] = lambda: locality(model, prose(source, longest), steps=8 if quick else 48)
    work["long"] = lambda: costs(stretched, every, far, steps=steps)
    kept = json.loads(options.keep.read_text()) if options.keep and options.keep.is_file() else {}
    for name in [name for name in work if name not in kept]:
        before = busy()
        found = work[name]()
        others, when = others_share(before), datetime.now(UTC).isoformat(timespec="seconds")
        kept[name] = {"found": found, "others": others, "when": when}
        print(f"{name}: other processes took {others:.0%} of the cores", file=sys.stderr)
        if options.keep is not None:
            options.keep.write_text(json.dumps(kept))
            if options.minutes is not None and time.monotonic() - started > 60 * options.minutes:
                sys.exit(75)
    found = {
        "model": source.name,
        "device": str(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "when": max(piece["when"] for piece in kept.values()),
        "cores that others took": f"{max(piece['others'] for piece in kept.values()):.0%} at most",
        "stored_form": Policy(name="bsr").stored_form(model.config),
        "forms": [row for name in work if name.startswith("forms") for row in kept[name]["found"]],
        "blocks": kept["blocks"]["found"],
        "locality": kept["locality"]["found"],
        "long": {"layers": stretched.config.layers, "rows": kept["long"]["found"]},
    }
    return {**found, "config": model.config, "notes": notes(found)}


def busy() -> tuple[float, float, float]:
    """Seconds by now: of all cores at work, of this process at work, of the clock."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (
        (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"),
        time.process_time(),
        time.monotonic(),
    )


def others_share(before: tuple[float, float, float]) -> float:
    """What other processes took of all cores since then."""
    everything, mine, clock = (now - then for now, then in zip(busy(), before, strict=True))
    return max(0.0, everything - mine) / (clock * (os.cpu_count() or 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer lengths and turns")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--context", type=int, default=8192, help="the longest length")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep what was measured there, and go on from it"
    )
    parser.add_argument("--minutes", type=float, help="with --keep: stop after so many minutes, with status 75")
    options = parser.parse_args()
    as_served()
    found = measured(resolve(), options)
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
    bars = bars_on_bytes(dataclasses.replace(found["config"], layers=2))
    facts = {name: found[name] for name in ("model", "dtype", "threads", "when", "cores that others took")}
    if options.write is not None:
        said = " ".join(found["notes"]).rstrip(".")  # the page's line ends with a point of its own
        write_page(options.write, "engine_memory", rows, bars, facts | {"notes": said})
    report("engine memory", rows, bars, as_json=options.json, **facts)


if __name__ == "__main__":
    main()
