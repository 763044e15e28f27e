"""The engine measured on itself: what each memory policy costs, and where the model's attention goes.

`measure` gives one JSON object, `show` prints it; the engine's notebook reads the former.
"""

from __future__ import annotations

import os
import platform
import pydoc_data.topics
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from bunny_engine.bench_locality import locality
from bunny_engine.bench_notes import notes
from bunny_engine.bench_speed import costs, synthetic
from bunny_engine.errors import OptionError
from bunny_engine.fetch import Source
from bunny_engine.loading import DeviceName, DtypeName, open_model
from bunny_engine.model import Model
from bunny_engine.policies import Policy
from bunny_engine.tokenizer import load_tokenizer

__all__ = ["BenchOptions", "Size", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured. Lengths in tokens."""

    lengths: tuple[int, ...]
    long: int  # of the synthetic model
    blocks: tuple[int, ...]
    steps: int  # timed turns
    watched: int  # tokens whose attention is looked at


QUICK = Size(lengths=(4096,), long=32768, blocks=(128, 512, 1024), steps=2, watched=8)
WHOLE = Size(
    lengths=(1024, 2048, 4096, 8192), long=65536, blocks=(128, 256, 512, 1024, 2048), steps=12, watched=48
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    device: DeviceName = "auto"
    dtype: DtypeName = "auto"
    quick: bool = False
    context: int | None = None  # longest length that is measured; None: 8,192, or 4,096 when quick


@torch.inference_mode()
def measure(
    source: Source, options: BenchOptions, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Everything, as one JSON object. Raises what opening a model does, OptionError for too short a context."""
    size = QUICK if options.quick else WHOLE
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    model, _ = open_model(source, device=options.device, dtype=options.dtype)
    model.prepare()
    longest = min(options.context or size.lengths[-1], model.config.context)
    if longest < 1024:
        raise OptionError(f"--context {longest}: a bench needs at least 1,024 tokens")
    lengths = sorted({longest, *(length for length in size.lengths if length < longest)})
    every = every_form(512)
    forms = [
        row for length in lengths for row in costs(model, every, length, steps=size.steps, progress=progress)
    ]
    sweep = [Policy(), *(Policy(name="bsr", block=block) for block in size.blocks if 4 * block <= longest)]
    blocks = costs(model, sweep, longest, steps=size.steps, progress=progress)
    progress("attention by block")
    seen = locality(model, prose(source, longest), steps=size.watched)
    far = synthetic(model.config, size.long)
    long = costs(far, every, size.long, steps=size.steps, progress=progress)
    found = {
        "model": source.name,
        "device": str(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "machine": _machine(model),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": load,  # processes that wanted a core in the minute before: what else ran
        "quick": options.quick,
        "stored_form": Policy(name="bsr").stored_form(model.config),
        "forms": forms,
        "blocks": blocks,
        "locality": seen,
        "long": {"layers": far.config.layers, "dtype": "float32", "rows": long},
    }
    return {**found, "notes": notes(found)}


def every_form(block: int) -> list[Policy]:
    """The control, then each policy with each form that it can store."""
    forms = [("kv", 16), ("kv", 8), ("kv", 4), ("kv", 3), ("x", 16), ("x", 8)]
    sealing = [Policy(name="bsr", block=block, form=form, bits=bits) for form, bits in forms]
    return [Policy(), *sealing, Policy(name="top-blocks", block=block), Policy(name="window", block=block)]


def prose(source: Source, tokens: int) -> list[int]:
    """Real text in the model's tokens: the Python reference, which every Python carries (PSF licence)."""
    topics = pydoc_data.topics.topics
    text = "\n\n".join(topics[name] for name in sorted(topics))
    return load_tokenizer(source).encode(text[: tokens * 8])[:tokens]


def _machine(model: Model) -> str:
    if model.device.type == "cuda":
        return torch.cuda.get_device_name(model.device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
