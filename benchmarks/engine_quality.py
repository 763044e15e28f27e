"""What each memory policy costs in quality and in bytes: perplexity of SmolLM2 on real prose.

The passages are slices of the Python reference (`pydoc_data.topics`, PSF licence), which every Python
carries. Each policy reads the same passage in the same chunks; the control is the dense memory of the same run.
A change is given per passage and for all of them together. Then the forms in 16 bits must write, greedily, what
full writes.
"""

from __future__ import annotations

import argparse
import json
import math
import pydoc_data.topics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from _engine_report import as_served, bar, report, write_page
from bunny_engine.fetch import resolve
from bunny_engine.loading import open_model
from bunny_engine.memory_choice import Tally
from bunny_engine.model import Model
from bunny_engine.policies import Policy
from bunny_engine.tokenizer import load_tokenizer

CHUNK = 256
POLICIES = {
    "full": Policy(),
    "bsr, K and V, 8 bits": Policy(name="bsr", form="kv", bits=8),
    "bsr, X, 8 bits": Policy(name="bsr", form="x", bits=8),
    "bsr, K and V, 4 bits": Policy(name="bsr", form="kv", bits=4),
    "bsr, K and V, 3 bits": Policy(name="bsr", form="kv", bits=3),
    "top-blocks, 1": Policy(name="top-blocks", most=1),
    "window": Policy(name="window"),
    "bsr, K and V, 16 bits": Policy(name="bsr", form="kv", bits=16),
    "bsr, X, 16 bits": Policy(name="bsr", form="x", bits=16),
}
# Largest change of perplexity that is claimed, in percent.
LIMITS = {
    "bsr, K and V, 8 bits": 0.05,
    "bsr, X, 8 bits": 0.05,
    "bsr, K and V, 4 bits": 0.3,
    "bsr, K and V, 3 bits": 2.5,
}
EXACT = ("bsr, K and V, 16 bits", "bsr, X, 16 bits")  # must write what full writes
TOLERANCE = 0.05  # of a logit, in nats: float16 keeps 11 bits


def passages(count: int, tokens: int) -> list[list[int]]:
    text = "\n\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    tokenizer = load_tokenizer(resolve())
    third = len(text) // 3
    return [
        tokenizer.encode(text[place * third : place * third + tokens * 8])[:tokens] for place in range(count)
    ]


@torch.inference_mode()
def read(model: Model, policy: Policy, ids: list[int]) -> tuple[float, int, int, float | None]:
    """Sum of negative log-likelihoods in nats, number of predicted tokens, bytes held at the end, and the share
    of attention that was covered, where blocks were left out.
    """
    tally = Tally()
    memory = policy.new(model, len(ids), tally)
    loss, count = 0.0, 0
    for start in range(0, len(ids), CHUNK):
        piece = torch.tensor(ids[start : start + CHUNK])
        targets = torch.tensor(ids[start + 1 : start + 1 + len(piece)])
        scores = model.logits(model.chunk(piece, memory))[: len(targets)].log_softmax(-1)
        loss -= float(scores.gather(1, targets[:, None]).double().sum())
        count += len(targets)
    return loss, count, memory.nbytes, tally.share


@torch.inference_mode()
def write(model: Model, policy: Policy, ids: list[int], answer: int) -> tuple[list[int], torch.Tensor]:
    """The greedy answer to a prompt, and the logits that each of its tokens was taken from."""
    memory = policy.new(model, len(ids) + answer)
    for start in range(0, len(ids), CHUNK):
        hidden = model.chunk(torch.tensor(ids[start : start + CHUNK]), memory)
    logits = [model.logits(hidden[-1:])]
    while len(logits) < answer:
        logits.append(model.tokens([int(logits[-1].argmax())], [memory]))
    rows = torch.cat(logits)
    return rows.argmax(1).tolist(), rows


def exactness(
    model: Model, ids: list[int], answer: int, options: argparse.Namespace, kept: dict[str, Any], started: float
) -> list[dict[str, Any]]:
    """Bars: the forms in 16 bits write the text that full writes, from the same logits within a tolerance."""
    bars, written = [], kept.setdefault("written", {})
    for name in ("full", *EXACT):
        if name not in written:
            tokens, rows = write(model, POLICIES[name], ids, answer)
            written[name] = {"tokens": tokens, "logits": rows.tolist()}
            keep(options, kept, started)
    want, wanted = written["full"]["tokens"], torch.tensor(written["full"]["logits"])
    for name in EXACT:
        got, logits = written[name]["tokens"], torch.tensor(written[name]["logits"])
        same = next((place for place, (a, b) in enumerate(zip(want, got, strict=True)) if a != b), answer)
        off = float((logits[: same + 1] - wanted[: same + 1]).abs().max())
        bars.append(bar(f"{name}: same greedy tokens as full at {len(ids):,}, of {answer}", same, answer))
        bars.append(bar(f"{name}: largest difference of a logit at {len(ids):,}", off, TOLERANCE, most=True))
    return bars


def keep(options: argparse.Namespace, kept: dict[str, Any], started: float) -> None:
    """Write down what was measured, so that a long run can be had in pieces."""
    if options.keep is None:
        return
    options.keep.write_text(json.dumps(kept))
    if options.minutes is not None and time.monotonic() - started > 60 * options.minutes:
        sys.exit(75)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one passage of 2,304 tokens: a minute or two")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens a passage")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep what was measured there, and go on from it"
    )
    parser.add_argument("--minutes", type=float, help="with --keep: stop after so many minutes, with status 75")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    options = parser.parse_args()
    as_served()
    count, tokens = (1, 2304) if options.quick else (3, options.tokens)
    prompt, answer = (2304, 8) if options.quick else (6000, 24)
    model, _ = open_model(resolve())
    model.prepare()
    texts = passages(count, tokens)
    started = time.monotonic()
    kept = json.loads(options.keep.read_text()) if options.keep and options.keep.is_file() else {}
    losses: dict[str, list[float]] = {}
    rows: list[dict[str, Any]] = []
    counts: list[int] = []
    for name, policy in POLICIES.items():
        if name in EXACT:  # a finer measure than perplexity is taken of them
            continue
        done = kept.setdefault(name, {"found": [], "seconds": 0.0})
        for ids in texts[len(done["found"]) :]:
            begun = time.perf_counter()
            done["found"].append(read(model, policy, ids))
            done["seconds"] += time.perf_counter() - begun
            keep(options, kept, started)
        found, seconds = kept[name]["found"], kept[name]["seconds"]
        losses[name] = [loss for loss, *_ in found]
        counts = [predicted for _, predicted, *_ in found]
        each = [
            100 * math.expm1((loss - full) / predicted)
            for loss, full, predicted in zip(losses[name], losses["full"], counts, strict=True)
        ]
        shares = [share for *_, share in found if share is not None]
        rows.append(
            {
                "policy": name,
                "perplexity": math.exp(sum(losses[name]) / sum(counts)),
                "change, %": 100 * math.expm1((sum(losses[name]) - sum(losses["full"])) / sum(counts)),
                "by passage, %": " ".join(f"{change:+.3f}" for change in each),
                "MiB": found[0][2] / 2**20,
                "of full": found[0][2] / Policy().bytes_for(model.config, tokens, model.dtype),
                "attention covered": sum(shares) / len(shares) if shares else "",
            }
        )
        print(f"{name}: {rows[-1]['change, %']:+.3f} %, {seconds:.0f} s", file=sys.stderr)
    changes = {row["policy"]: abs(row["change, %"]) for row in rows}
    bars = [
        bar(f"|change of perplexity| of {name}, %", changes[name], limit, most=True)
        for name, limit in LIMITS.items()
    ]
    if "exactness" not in kept:
        kept["exactness"] = exactness(model, passages(1, prompt)[0], answer, options, kept, started)
    bars += kept["exactness"]
    facts = {
        "passages": count,
        "tokens": tokens,
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
    }
    if options.write is not None:
        write_page(options.write, "engine_quality", rows, bars, facts)
    report("engine quality", rows, bars, as_json=options.json, **facts)


if __name__ == "__main__":
    main()
