"""Weights on disk: what is damaged is told, what is sound is converted once."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import tiny_models
import torch
from bunny_engine.errors import DamagedWeights, EngineError, UnsupportedModel, WeightsError
from bunny_engine.fetch import Source
from bunny_engine.gguf_file import GgufFile
from bunny_engine.loading import open_engine, open_model
from bunny_engine.memory import DenseMemory
from bunny_engine.model import Model
from bunny_engine.recipe import Recipe
from bunny_engine.tokenizer import load_tokenizer
from bunny_engine.types import SamplingParams
from bunny_engine.weights import Checkpoint, load
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def usable(source: Source) -> None:
    """Load all of a model and run it; raises WeightsError, or the numbers are finite."""
    model, _ = open_model(source, device="cpu", dtype="float32")
    load_tokenizer(source).encode("hello world")
    memory = DenseMemory(model.config, 8, model.dtype, model.device)
    with torch.inference_mode():
        logits = model.logits(model.chunk(torch.tensor([3, 4, 5, 6]), memory))
    assert bool(logits.isfinite().all())


def test_a_conversion_is_made_once_and_mapped(tiny: tiny_models.TinyModel) -> None:
    """The second load reads the converted file: same tensors, same creation time, nothing written."""
    source = Source("tiny", tiny.gguf, "gguf")
    first = load(source, torch.float32)
    written = {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    second = load(source, torch.float32)
    assert first.created == second.created
    assert all(torch.equal(first.vectors[name], second.vectors[name]) for name in first.vectors)
    assert written == {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}


def test_another_content_under_the_same_name_is_converted_anew(tmp_path: Path) -> None:
    """The key is the content: a replaced file never serves the old weights."""
    path = tmp_path / "model.gguf"
    for seed in (1, 2):
        built = tiny_models.build(tmp_path / str(seed), "llama", seed=seed)
        shutil.copy(built.gguf, path)
        loaded = load(Source("model", path, "gguf"), torch.float32)
        torch.testing.assert_close(
            loaded.matrices["embed"].dense(), built.reference.model.embed_tokens.weight.detach()
        )


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_1"])
def test_quantised_tensors_are_read_as_gguf_defines_them(tmp_path: Path, kind: str) -> None:
    """A quantised matrix is, number for number, what the gguf package dequantises."""
    stored = gguf.GGMLQuantizationType[kind]
    weight = np.random.default_rng(0).normal(size=(40, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    packed = gguf.quants.quantize(weight, stored)
    writer.add_tensor("w", packed, raw_dtype=stored)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    with GgufFile(tmp_path / "one.gguf") as file:
        found = file.read("w")
    assert np.array_equal(found, gguf.quants.dequantize(packed, stored).astype(np.float32))


def test_a_truncated_gguf_is_told(tiny: tiny_models.TinyModel, tmp_path: Path) -> None:
    """Cut anywhere, the file is refused as damaged."""
    whole = tiny.gguf.read_bytes()
    cuts = [0, 3, 4, 20, 31, 100, 1000, len(whole) // 2, len(whole) - 1]
    cuts += random.Random(0).sample(range(len(whole)), 40)
    for cut in cuts:
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[:cut])
        with pytest.raises(DamagedWeights):
            GgufFile(path)


def test_mutated_gguf_files_never_crash(tiny: tiny_models.TinyModel, tmp_path: Path) -> None:
    """Hundreds of random mutations: a WeightsError, or a model whose numbers are finite."""
    whole, rng, refused = tiny.gguf.read_bytes(), random.Random(1), 0
    with GgufFile(tiny.gguf) as file:
        data = min(info.offset for info in file.tensors.values())
    for trial in range(300):
        mutated = bytearray(whole)
        end = data if trial % 4 else len(whole)  # most of them where the structure is
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(end)
            mutated[at] = rng.choice([rng.randrange(256), 0, 255, mutated[at] ^ (1 << rng.randrange(8))])
        if trial % 10 == 0:
            at = rng.randrange(data)
            mutated[at : at + 8] = struct.pack("<Q", rng.choice([2**63, 2**64 - 1, 2**32, 2**40, 0]))
        path = tmp_path / "mutated.gguf"
        path.write_bytes(mutated)
        try:
            usable(Source(f"mutated-{trial}", path, "gguf"))
        except WeightsError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), "missing"),
        (lambda t: t["model.layers.0.self_attn.k_proj.weight"].resize_(64, 64), "shape"),
        (lambda t: t["model.layers.1.self_attn.q_proj.weight"][3, 3].fill_(float("nan")), "not finite"),
        (lambda t: t["model.norm.weight"][0].fill_(float("inf")), "not finite"),
        (lambda t: t["model.layers.0.mlp.down_proj.weight"][0, 0].fill_(3e6), "among values"),
    ],
    ids=["missing", "shape", "nan", "inf", "outlier"],
)
def test_implausible_safetensors_are_told(
    tiny: tiny_models.TinyModel, tmp_path: Path, change, told: str
) -> None:
    """A missing tensor, a wrong shape, a number that is none or drowns the rest: each is named."""
    folder = tmp_path / "folder"
    shutil.copytree(tiny.folder, folder)
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(DamagedWeights, match=told):
        usable(Source("folder", folder, "hf"))


def test_mutated_folders_never_crash(tiny: tiny_models.TinyModel, tmp_path: Path) -> None:
    """Random mutations of each file of a folder: an EngineError, or a model whose numbers are finite."""
    rng, refused = random.Random(2), 0
    files = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for trial in range(160):
        folder = tmp_path / f"{trial}"
        shutil.copytree(tiny.folder, folder)
        path = folder / files[trial % len(files)]
        mutated = bytearray(path.read_bytes())
        for _ in range(rng.choice([1, 2, 6])):
            mutated[rng.randrange(min(len(mutated), 4000))] = rng.choice(b'\x00\xff"{}[],0129-eE')
        path.write_bytes(mutated[: rng.randrange(len(mutated))] if trial % 5 == 0 else mutated)
        try:
            usable(Source(f"folder-{trial}", folder, "hf"))
        except EngineError:
            refused += 1
        shutil.rmtree(folder)
    assert refused > 40


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("architectures", ["MambaForCausalLM"], UnsupportedModel),
        ("rope_parameters", {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}, UnsupportedModel),
        ("num_key_value_heads", 3, DamagedWeights),
        ("num_hidden_layers", 10**9, DamagedWeights),
        ("vocab_size", "many", DamagedWeights),
        ("attention_bias", True, UnsupportedModel),
        ("hidden_act", "gelu", UnsupportedModel),
    ],
)
def test_configurations_that_cannot_run_are_refused(
    tiny: tiny_models.TinyModel, tmp_path: Path, key: str, value: object, error: type[WeightsError]
) -> None:
    """A feature that is not implemented is refused by name, never ignored."""
    folder = tmp_path / "folder"
    shutil.copytree(tiny.folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(error):
        usable(Source("folder", folder, "hf"))


def test_a_damaged_conversion_is_told(tiny: tiny_models.TinyModel) -> None:
    """A cut file in the cache says which file to delete."""
    loaded = load(Source("victim", tiny.gguf, "gguf"), torch.float32)
    path = loaded.folder / "weights-float32.safetensors"
    del loaded
    whole = path.read_bytes()
    path.unlink()
    path.write_bytes(whole[:-10])
    with pytest.raises(DamagedWeights, match="delete it"):
        load(Source("victim", tiny.gguf, "gguf"), torch.float32)


@pytest.mark.parametrize(
    "weights", ["native", "half", "bf16", "int8", "int6", "int4", "hybrid", "int8,layers.0.down=int4"]
)
def test_every_form_runs_and_is_mapped_the_second_time(tiny: tiny_models.TinyModel, weights: str) -> None:
    """A model in any form gives the logits of its dequantised matrices; the conversion is written once."""
    source = Source("tiny", tiny.gguf, "gguf")
    model, checkpoint = open_model(source, device="cpu", weights=weights)
    written = {path: path.stat().st_mtime_ns for path in checkpoint.folder.iterdir()}
    said: list[str] = []
    again, _ = open_model(source, device="cpu", weights=weights, progress=said.append)
    assert written == {path: path.stat().st_mtime_ns for path in checkpoint.folder.iterdir()}
    assert not any("converting" in line for line in said)
    assert any("layers 0" in line for line in said)
    plain = Model(checkpoint.config, {**checkpoint.vectors, **dense(checkpoint)})
    ids = torch.arange(3, 15)
    logits = []
    for each in (model, again, plain):
        memory = DenseMemory(each.config, 16, each.dtype, each.device)
        with torch.inference_mode():
            logits.append(each.logits(each.chunk(ids, memory)))
    assert torch.equal(logits[0], logits[1])
    assert float((logits[0] - logits[2]).abs().max() / logits[2].abs().max()) < 5e-3


def dense(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return {name: matrix.dense() for name, matrix in checkpoint.matrices.items()}


def test_a_table_and_its_forms_never_mix(tiny: tiny_models.TinyModel) -> None:
    """A conversion that another table's name was given to is refused, not used."""
    source = Source("mixed", tiny.gguf, "gguf")
    folder = load(source, torch.float32, Recipe.parse("int8")).folder
    load(source, torch.float32, Recipe.parse("int4"))
    (folder / "weights-int4.safetensors").replace(folder / "weights-int8.safetensors")
    with pytest.raises(DamagedWeights, match="delete it"):
        load(source, torch.float32, Recipe.parse("int8"))


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("final_logit_softcapping", 30.0, UnsupportedModel),
        ("hidden_activation", "relu", UnsupportedModel),
        ("use_bidirectional_attention", True, UnsupportedModel),
        ("layer_types", ["full_attention", "sliding_attention", "sliding_attention"] * 2, UnsupportedModel),
        ("layer_types", 7, UnsupportedModel),
        ("sliding_window", "wide", DamagedWeights),
        ("query_pre_attn_scalar", 0, DamagedWeights),
        ("sliding_window_pattern", 0, DamagedWeights),
        ("rope_parameters", {"full_attention": {"rope_theta": "far"}}, DamagedWeights),
    ],
)
def test_gemma_configurations_that_cannot_run_are_refused(
    tmp_path: Path, key: str, value: object, error: type[WeightsError]
) -> None:
    """A variant of Gemma that is not implemented, or a number that is none, is refused by name."""
    folder = tiny_models.build(tmp_path, "gemma3").folder
    config = json.loads((folder / "config.json").read_text())
    if key == "sliding_window_pattern":
        del config["layer_types"], config["_sliding_window_pattern"]
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(error):
        usable(Source("folder", folder, "hf"))


@pytest.mark.parametrize(
    ("name", "weights"), [("layers.1.down", "native"), ("layers.0.qkv", "half"), ("embed", "half")]
)
def test_weights_that_give_no_numbers_are_told_before_the_first_request(
    tiny: tiny_models.TinyModel, name: str, weights: str
) -> None:
    """A conversion that rotted into NaN fails the engine's start by name; nobody waits for an answer."""
    source = Source("rotten", tiny.gguf, "gguf")
    form = {"native": "float32", "half": "float16"}[weights]
    path = load(source, torch.float32, Recipe.parse(weights)).folder / f"weights-{form}.safetensors"
    with safe_open(path, framework="pt") as file:
        about, tensors = file.metadata(), {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    tensors[name][3, 3] = float("nan")
    path.unlink()
    save_file(tensors, path, metadata=about)
    engine, _ = open_engine(source, device="cpu", weights=weights)
    with pytest.raises(DamagedWeights, match="not finite"):
        engine.wait()
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(anext(engine.generate([5], SamplingParams(max_tokens=1))))
    engine.close()
