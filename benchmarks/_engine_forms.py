"""What each way to keep the weights takes and costs: bits, bytes, perplexity, speed."""

from __future__ import annotations

import math
import pydoc_data.topics
from typing import Any

import torch
from _engine_runs import CHUNK, best, ours
from bunny_engine.fetch import Source
from bunny_engine.loading import FOUR_BITS, open_model
from bunny_engine.memory import DenseMemory
from bunny_engine.model import Model
from bunny_engine.tokenizer import load_tokenizer

__all__ = ["forms"]

FORMS = ("native", "half", "bf16", "int8", "int6", "int4", "hybrid", FOUR_BITS)


def forms(source: Source, tokens: int) -> list[dict[str, Any]]:
    """A row a form, and one where --compile reads fewer bytes: all on one passage, against the first."""
    text = "\n\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    ids = load_tokenizer(source).encode(text[: tokens * 8])[:tokens]
    rows: list[dict[str, Any]] = []
    base: tuple[float, float] | None = None
    for name, compiled in [*((name, False) for name in FORMS), ("int8", True), (FOUR_BITS, True)]:
        model, checkpoint = open_model(source, weights=name, compiled=compiled)
        run = ours(model)  # prepares the model
        nats, decoded = _read(model, ids), _written(model, ids[: CHUNK + tokens // 8], CHUNK)
        base = base or (nats, decoded)
        label = f"{name}, --compile" if compiled else name
        read, write = best({label: run}, 512, 9, 3)[label]
        size = sum(matrix.nbytes for matrix in checkpoint.matrices.values())
        count = sum(math.prod(matrix.shape) for matrix in checkpoint.matrices.values())
        rows.append(
            {
                "weights": label,
                "bits a weight": 8 * size / count,
                "MB on disk": size / 1e6,
                "perplexity": math.exp(nats),
                "change, %": 100 * math.expm1(nats - base[0]),
                "at decode, %": 100 * math.expm1(decoded - base[1]),
                "512 tokens, tok/s": 512 / read,
                "decode at 512, tok/s": 8 / write,
            }
        )
    return rows


@torch.inference_mode()
def _read(model: Model, ids: list[int]) -> float:
    """Mean negative log-likelihood in nats of a prompt."""
    memory, loss = DenseMemory(model.config, len(ids), model.dtype, model.device), 0.0
    for start in range(0, len(ids), CHUNK):
        targets = torch.tensor(ids[start + 1 : start + CHUNK + 1])
        hidden = model.chunk(torch.tensor(ids[start : start + CHUNK]), memory)
        scores = model.logits(hidden[: len(targets)])
        loss += float(torch.nn.functional.cross_entropy(scores, targets, reduction="sum"))
    return loss / (len(ids) - 1)


@torch.inference_mode()
def _written(model: Model, ids: list[int], prompt: int) -> float:
    """The same of what follows the prompt, written token by token."""
    memory, loss = DenseMemory(model.config, len(ids), model.dtype, model.device), 0.0
    logits = model.logits(model.chunk(torch.tensor(ids[:prompt]), memory))[-1:]
    for token in ids[prompt:]:
        loss += float(torch.nn.functional.cross_entropy(logits, torch.tensor([token])))
        logits = model.tokens([token], [memory])
    return loss / (len(ids) - prompt)
