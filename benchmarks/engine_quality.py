"""What each memory policy costs in quality and in bytes: perplexity of SmolLM2 on real prose.

The passages are slices of the Python reference (`pydoc_data.topics`, PSF licence), which every Python
carries. Each policy reads the same passage in the same chunks; the control is the dense memory of the same run.
A change is given per passage and for all of them together.
"""

from __future__ import annotations

import argparse
import math
import pydoc_data.topics
import time

import torch
from _engine_report import as_served, bar, report
from bunny_engine.fetch import resolve
from bunny_engine.loading import open_model
from bunny_engine.model import Model
from bunny_engine.policies import Policy
from bunny_engine.tokenizer import load_tokenizer

CHUNK = 256
POLICIES = {
    "full": Policy(),
    "bsr, 8 bits": Policy(name="bsr", bits=8),
    "bsr, 4 bits": Policy(name="bsr", bits=4),
    "bsr, 3 bits": Policy(name="bsr", bits=3),
    "window": Policy(name="window"),
}
# Largest change of perplexity that is claimed, in percent.
LIMITS = {"bsr, 8 bits": 0.05, "bsr, 4 bits": 0.3, "bsr, 3 bits": 2.5}


def passages(count: int, tokens: int) -> list[list[int]]:
    text = "\n\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    tokenizer = load_tokenizer(resolve())
    third = len(text) // 3
    return [
        tokenizer.encode(text[place * third : place * third + tokens * 8])[:tokens] for place in range(count)
    ]


@torch.inference_mode()
def read(model: Model, policy: Policy, ids: list[int]) -> tuple[float, int, int]:
    """Sum of negative log-likelihoods in nats, number of predicted tokens, bytes held at the end."""
    memory = policy.new(model, len(ids))
    loss, count = 0.0, 0
    for start in range(0, len(ids), CHUNK):
        piece = torch.tensor(ids[start : start + CHUNK])
        targets = torch.tensor(ids[start + 1 : start + 1 + len(piece)])
        scores = model.logits(model.chunk(piece, memory))[: len(targets)].log_softmax(-1)
        loss -= float(scores.gather(1, targets[:, None]).double().sum())
        count += len(targets)
    return loss, count, memory.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one passage of 2,304 tokens: under a minute")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens a passage")
    options = parser.parse_args()
    as_served()
    count, tokens = (1, 2304) if options.quick else (3, options.tokens)
    model, _ = open_model(resolve())
    texts = passages(count, tokens)
    losses: dict[str, list[float]] = {}
    rows, base_seconds, counts = [], 0.0, []
    for name, policy in POLICIES.items():
        begun = time.perf_counter()
        found = [read(model, policy, ids) for ids in texts]
        seconds = time.perf_counter() - begun
        base_seconds = base_seconds or seconds
        losses[name] = [loss for loss, _, _ in found]
        counts = [predicted for _, predicted, _ in found]
        each = [
            100 * math.expm1((loss - full) / predicted)
            for loss, full, predicted in zip(losses[name], losses["full"], counts, strict=True)
        ]
        rows.append(
            {
                "policy": name,
                "perplexity": math.exp(sum(losses[name]) / sum(counts)),
                "change, %": 100 * math.expm1((sum(losses[name]) - sum(losses["full"])) / sum(counts)),
                "by passage, %": " ".join(f"{change:+.3f}" for change in each),
                "MiB": found[0][2] / 2**20,
                "of full": found[0][2] / Policy().bytes_for(model.config, tokens, model.dtype),
                "time of full": seconds / base_seconds,
            }
        )
    changes = {row["policy"]: abs(float(row["change, %"])) for row in rows}  # type: ignore[arg-type]
    bars = [
        bar(f"|change of perplexity| of {name}, %", changes[name], limit, most=True)
        for name, limit in LIMITS.items()
    ]
    report(
        "engine quality",
        rows,
        bars,
        as_json=options.json,
        passages=count,
        tokens=tokens,
        dtype=str(model.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
    )


if __name__ == "__main__":
    main()
