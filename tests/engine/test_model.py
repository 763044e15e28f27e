"""The forward pass against transformers, on small random models in float32."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from bunny_engine.errors import UnsupportedModel
from bunny_engine.fetch import Source
from bunny_engine.loading import open_model
from bunny_engine.memory import DenseMemory
from bunny_engine.model import Model
from bunny_engine.rope import frequencies
from hypothesis import given, settings
from hypothesis import strategies as st

TOLERANCE = 1e-4


def opened(path: Path) -> Model:
    kind = "hf" if path.is_dir() else "gguf"
    return open_model(Source(path.stem, path, kind), device="cpu", dtype="float32")[0]


def run(model: Model, ids: list[int], cuts: list[int]) -> torch.Tensor:
    """Logits of every position, the prompt cut into chunks before the positions `cuts`."""
    memory = DenseMemory(model.config, len(ids), model.dtype, model.device)
    bounds = [0, *cuts, len(ids)]
    with torch.inference_mode():
        hidden = [model.chunk(torch.tensor(ids[a:b]), memory) for a, b in pairwise(bounds)]
        return model.logits(torch.cat(hidden))


def expected(reference: Any, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = reference(torch.tensor([ids])).logits[0]
        return logits


def some_ids(count: int, seed: int = 0) -> list[int]:
    return torch.randint(0, tiny_models.VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("source", ["folder", "gguf"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
def test_logits_equal_those_of_transformers(tmp_path: Path, architecture: str, source: str) -> None:
    """Grouped queries, biases, head norms: GGUF (Q and K permuted) and safetensors give the same logits."""
    tiny = tiny_models.build(tmp_path, architecture, seed=3, tie_word_embeddings=architecture != "qwen2")
    ids = some_ids(70)
    ours = run(opened(getattr(tiny, source)), ids, [32])
    torch.testing.assert_close(ours, expected(tiny.reference, ids), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"),
    [(4, 4, 16), (4, 1, 16), (8, 2, 32), (1, 1, 64)],
    ids=lambda value: str(value),
)
def test_every_grouping_of_heads(tmp_path: Path, heads: int, kv_heads: int, head_dim: int) -> None:
    """Multi-head, multi-query and grouped-query attention, also where heads · head_dim is not the width."""
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim}
    tiny = tiny_models.build(tmp_path, "llama", seed=heads, **sizes)
    ids = some_ids(50)
    want = expected(tiny.reference, ids)
    for path in (tiny.folder, tiny.gguf):
        torch.testing.assert_close(run(opened(path), ids, [7, 30]), want, atol=TOLERANCE, rtol=0)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_cut_into_chunks_gives_the_same_logits(tiny: tiny_models.TinyModel, data: st.DataObject) -> None:
    """However a prompt is cut, its logits are transformers' within the tolerance."""
    count = data.draw(st.integers(2, 90))
    ids = some_ids(count, seed=count)
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=8)))
    torch.testing.assert_close(
        run(_shared(tiny), ids, cuts), expected(tiny.reference, ids), atol=TOLERANCE, rtol=0
    )


def test_a_prompts_last_row_is_that_of_all_its_rows(tiny: tiny_models.TinyModel) -> None:
    """Where one row is asked for, the others end before it: it and the memory stay what they are."""
    model, ids = _shared(tiny), some_ids(40, seed=6)
    memories = [DenseMemory(model.config, 40, model.dtype, model.device) for _ in range(2)]
    with torch.inference_mode():
        whole = model.chunk(torch.tensor(ids), memories[0])
        last = model.chunk(torch.tensor(ids), memories[1], every=False)
    torch.testing.assert_close(last, whole[-1:], atol=TOLERANCE, rtol=0)
    for mine, theirs in zip(memories[0].export(0, 40), memories[1].export(0, 40), strict=True):
        assert torch.equal(mine, theirs)


@settings(max_examples=15, deadline=None)
@given(prompt=st.integers(1, 60), answer=st.integers(1, 12), adopted=st.integers(0, 59))
def test_decode_and_adopted_prefixes_give_the_same_logits(
    tiny: tiny_models.TinyModel, prompt: int, answer: int, adopted: int
) -> None:
    """One token at a time, after a prefix that another sequence computed: still transformers' logits."""
    model = _shared(tiny)
    ids = some_ids(prompt + answer, seed=prompt)
    adopted = min(adopted, prompt - 1)
    want = expected(tiny.reference, ids)
    with torch.inference_mode():
        first = DenseMemory(model.config, prompt, model.dtype, model.device)
        model.chunk(torch.tensor(ids[:prompt]), first)
        second = DenseMemory(model.config, len(ids), model.dtype, model.device)
        if adopted:
            second.adopt(first.export(0, adopted))
        model.chunk(torch.tensor(ids[adopted:prompt]), second)
        for at in range(prompt, len(ids)):
            logits = model.tokens([ids[at]], [second])[0]
            torch.testing.assert_close(logits, want[at], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_sliding_windows_hold_at_decode_and_after_an_adopted_prefix(tmp_path: Path, source: str) -> None:
    """Gemma's local layers see their window and no more, token by token and across a prefix that was reused."""
    tiny = tiny_models.build(tmp_path, "gemma3", seed=5)
    model, ids = opened(getattr(tiny, source)), some_ids(90, seed=4)
    want = expected(tiny.reference, ids)
    with torch.inference_mode():
        first = DenseMemory(model.config, 64, model.dtype, model.device)
        model.chunk(torch.tensor(ids[:64]), first)
        second = DenseMemory(model.config, len(ids), model.dtype, model.device)
        second.adopt(first.export(0, 32))
        model.chunk(torch.tensor(ids[32:50]), second)
        for at in range(50, len(ids)):
            logits = model.tokens([ids[at]], [second])[0]
            torch.testing.assert_close(logits, want[at], atol=TOLERANCE, rtol=0)


def test_gemma_with_other_scales(tmp_path: Path) -> None:
    """Queries divided by another number than √head_dim, and stretched global RoPE: transformers' logits."""
    ropes = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
    }
    tiny = tiny_models.build(tmp_path, "gemma3", seed=6, query_pre_attn_scalar=9, rope_parameters=ropes)
    ids = some_ids(60)
    ours = run(opened(tiny.folder), ids, [40])
    torch.testing.assert_close(ours, expected(tiny.reference, ids), atol=TOLERANCE, rtol=0)


def test_llama3_scaling_follows_transformers(tmp_path: Path) -> None:
    """Stretched RoPE wavelengths give transformers' logits, far beyond the original context too."""
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    tiny = tiny_models.build(tmp_path, "llama", rope_parameters=rope)
    ids = some_ids(200)
    ours = run(opened(tiny.folder), ids, [64, 128])
    torch.testing.assert_close(ours, expected(tiny.reference, ids), atol=TOLERANCE, rtol=0)


def test_unknown_rope_scaling_is_refused() -> None:
    """A scaling that is not implemented is named, never ignored."""
    with pytest.raises(UnsupportedModel, match="yarn"):
        frequencies(16, 1e4, {"rope_type": "yarn", "factor": 4.0})


def test_a_padded_row_never_touches_a_live_one(tiny: tiny_models.TinyModel) -> None:
    """Decode pads its tile: the live row's bits are those it has beside any other sequence."""
    model = _shared(tiny)
    ids = some_ids(20)
    rows = []
    with torch.inference_mode():
        for mates in range(model.tile):
            memories = []
            for seed in range(mates + 1):
                memory = DenseMemory(model.config, 40, model.dtype, model.device)
                model.chunk(torch.tensor(ids if seed == 0 else some_ids(11 + seed, seed)), memory)
                memories.append(memory)
            rows.append(model.tokens([5] + [9] * mates, memories)[0])
    assert all(torch.equal(row, rows[0]) for row in rows)


def _shared(tiny: tiny_models.TinyModel) -> Model:
    if tiny.folder not in _MODELS:
        _MODELS[tiny.folder] = opened(tiny.gguf)
    return _MODELS[tiny.folder]


_MODELS: dict[Path, Model] = {}
