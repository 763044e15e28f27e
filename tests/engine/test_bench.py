"""`bunny-engine bench`: its figures are those of the memories it measures, and it says where BSR loses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_models
import torch
from bunny_engine import bench, bench_locality
from bunny_engine.bench_notes import notes
from bunny_engine.bench_speed import filled, synthetic
from bunny_engine.cli import app
from bunny_engine.config import ModelConfig
from bunny_engine.fetch import Source
from bunny_engine.loading import open_model
from bunny_engine.memory import DenseMemory
from bunny_engine.policies import Policy
from typer.testing import CliRunner

SMOLLM2 = ModelConfig("llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, 1e-5, 1e5)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tiny_models.TinyModel:
    """A random Llama for 2,560 tokens."""
    root = tmp_path_factory.mktemp("long")
    return tiny_models.build(root, "llama", initializer_range=0.1, max_position_embeddings=2560)


@pytest.mark.parametrize(("bits", "at_8k", "at_64k"), [(8, 0.62, 0.56), (4, 0.42, 0.32)])
def test_sealed_memory_keeps_the_promised_share(bits: int, at_8k: float, at_64k: float) -> None:
    """In SmolLM2's shape with 16-bit dense blocks: what is allocated, against full, at 8K and 64K tokens."""
    model = synthetic(SMOLLM2, 65536, layers=1, dtype=torch.bfloat16)
    policy = Policy(name="bsr", bits=bits)
    with torch.inference_mode():
        for tokens, limit in ((8192, at_8k), (65536, at_64k)):
            memory = filled(model, policy, tokens, tokens)
            full = DenseMemory(model.config, tokens, model.dtype, model.device)
            assert memory.nbytes / full.nbytes <= limit
            predicted = policy.bytes_for(model.config, tokens, model.dtype)
            assert abs(predicted / memory.nbytes - 1) <= 0.05


def test_a_bench_tells_bytes_time_and_locality(
    long: tiny_models.TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JSON holds every policy at every length; predictions hold; the table ends with what was lost."""
    size = bench.Size(lengths=(2048, 8192), long=4096, blocks=(128, 512, 2048), steps=2, watched=4)
    monkeypatch.setattr(bench, "QUICK", size)
    path = tmp_path / "bench.json"
    done = CliRunner().invoke(app, ["bench", str(long.gguf), "--quick", "--json", str(path), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    found = json.loads(path.read_text())
    assert {row["length"] for row in found["forms"]} == {2048, 2560}
    for row in (*found["forms"], *found["blocks"], *found["long"]["rows"]):
        assert row["token_ms"] > 0
        assert row["prompt_ms"] > 0
        assert abs(row["predicted_bytes"] / row["bytes"] - 1) <= 0.05, row["name"]
    layers = found["locality"]["layers"]
    for row in layers:
        assert 0 <= row["first_4_tokens"] <= 1
        assert row["newest_3_blocks"] + row["blocks_between"] <= 1 + 1e-5
    assert len(layers) == 2
    top = found["locality"]["top"]
    assert all(row["covered"] <= row["best_possible"] + 1e-5 for row in top)
    assert "auto stores kv" in done.output
    lost = [
        row for row in found["forms"] if row["policy"] in ("bsr", "top-blocks") and row["token_of_full"] > 1
    ]
    assert any("Where BSR loses" in note for note in notes(found)) == bool(lost)
    assert any("busy" in note for note in notes({**found, "load": 9.0}))
    assert not any("busy" in note for note in notes({**found, "load": 0.1}))


def test_attention_by_block_adds_up_to_what_was_really_seen(long: tiny_models.TinyModel) -> None:
    """A random model's attention is flat, so each part of the context draws about its share of the tokens."""
    model = open_model(Source("long", long.gguf, "gguf"), device="cpu", dtype="float32")[0]
    ids = torch.randint(3, tiny_models.VOCAB, (2560,), generator=torch.Generator().manual_seed(0)).tolist()
    with torch.inference_mode():
        found = bench_locality.locality(model, ids, block=512, steps=4, most=(1, 2))
    assert found["blocks_between"] == 1
    assert found["mean"]["newest_3_blocks"] == pytest.approx(1535 / 2560, abs=0.1)
    assert found["mean"]["blocks_between"] == pytest.approx(512 / 2560, abs=0.1)
    assert [row["covered"] for row in found["top"]] == pytest.approx([1], abs=1e-5)  # of one block one


def test_where_nothing_can_be_written_is_said_at_once(tmp_path: Path) -> None:
    """Before minutes were spent measuring."""
    done = CliRunner().invoke(app, ["bench", "--json", str(tmp_path / "none" / "bench.json")])
    assert done.exit_code != 0
    assert "no folder" in str(done.exception)
