"""Prompts that are read and answers that are written, timed: by the engine and by its peers, in turns."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from bunny_engine.config import ModelConfig
from bunny_engine.fetch import Source
from bunny_engine.linear import HalfLinear
from bunny_engine.memory import DenseMemory
from bunny_engine.model import Model
from bunny_engine.stored import Stored
from bunny_engine.weights import load

__all__ = ["CHUNK", "Run", "best", "limits", "llama_peer", "ours", "prompt_of", "transformers_peer"]

CHUNK = 256
Run = Callable[[list[int], int], tuple[float, float]]  # prompt, answer tokens → seconds to read, to write


def prompt_of(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(1000, 40_000), k=count)


def best(runs: dict[str, Run], count: int, answer: int, repeats: int) -> dict[str, tuple[float, float]]:
    """The least seconds to read and to write, by name; the runs take turns, so that a noisy minute hits all."""
    for run in runs.values():
        run(prompt_of(64, 0), 2)  # warm
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for seed in range(repeats):
        for name, run in runs.items():
            found[name].append(run(prompt_of(count, seed), answer))
            read, write = found[name][-1]
            said = f"{name}: {count:,} tokens {read:.2f} s, {answer - 1} more {write:.2f} s"
            print(said, file=sys.stderr, flush=True)
    return {name: (min(r for r, _ in times), min(w for _, w in times)) for name, times in found.items()}


def ours(model: Model) -> Run:
    with torch.inference_mode():
        model.prepare()

    @torch.inference_mode()
    def run(ids: list[int], answer: int) -> tuple[float, float]:
        begun = time.perf_counter()
        memory = DenseMemory(model.config, len(ids) + answer, model.dtype, model.device)
        for start in range(0, len(ids), CHUNK):
            hidden = model.chunk(torch.tensor(ids[start : start + CHUNK]), memory, every=False)
        token = int(model.logits(hidden[-1:]).argmax())
        read = time.perf_counter()
        for _ in range(answer - 1):
            token = int(model.tokens([token], [memory]).argmax())
        return read - begun, time.perf_counter() - read

    return run


def llama_peer(python: str, source: Source, threads: int, context: int) -> Run:
    script = Path(__file__).with_name("_llama_peer.py")
    command = [python, str(script), str(source.path), "--threads", str(threads), "--context", str(context)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    said, heard = process.stdin, process.stdout
    if heard.readline().strip() != "ready":
        raise RuntimeError(f"{python} could not load llama.cpp")

    def run(ids: list[int], answer: int) -> tuple[float, float]:
        said.write(json.dumps({"ids": ids, "answer": answer}) + "\n")
        said.flush()
        times = json.loads(heard.readline())
        return times["read"], times["write"]

    return run


def limits(c: ModelConfig) -> dict[str, float]:
    """GFLOP/s of a chunk times the largest matrix, in float32 and float16; GB/s of reading memory."""
    x, w = torch.randn(CHUNK, c.width), torch.randn(2 * c.ffn, c.width)
    half = HalfLinear(Stored.dense_of(w.half()), None, torch.float32)
    large = torch.ones(64 << 20)
    flops = 2 * CHUNK * c.width * 2 * c.ffn
    return {
        "float32_gflops": flops / _least(lambda: torch.nn.functional.linear(x, w)) / 1e9,
        "float16_gflops": flops / _least(lambda: half(x)) / 1e9,
        "read_gbs": large.nbytes / _least(large.sum) / 1e9,
    }


def _least(work: Callable[[], object], times: int = 20) -> float:
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def transformers_peer(source: Source) -> Run:
    import transformers

    checkpoint = load(source, torch.float32)
    c, tensors = checkpoint.config, {n: m.dense() for n, m in checkpoint.matrices.items()} | checkpoint.vectors
    config = transformers.LlamaConfig(
        vocab_size=c.vocab,
        hidden_size=c.width,
        intermediate_size=c.ffn,
        num_hidden_layers=c.layers,
        num_attention_heads=c.heads,
        num_key_value_heads=c.kv_heads,
        head_dim=c.head_dim,
        max_position_embeddings=c.context,
        rms_norm_eps=c.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_base},
        tie_word_embeddings=c.tied,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict(_hf_names(c, tensors), strict=False)
    model.tie_weights()

    @torch.inference_mode()
    def run(ids: list[int], answer: int) -> tuple[float, float]:
        begun = time.perf_counter()
        out = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
        read = time.perf_counter()
        for _ in range(answer - 1):
            token = out.logits[:, -1:].argmax(-1)
            out = model(token, past_key_values=out.past_key_values, use_cache=True)
        return read - begun, time.perf_counter() - read

    return run


def _hf_names(c: ModelConfig, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    state = {"model.embed_tokens.weight": tensors["embed"], "model.norm.weight": tensors["norm"]}
    for index in range(c.layers):
        mine, theirs = f"layers.{index}.", f"model.layers.{index}."
        q, k, v = tensors[mine + "qkv"].split([c.q_rows, c.kv_rows, c.kv_rows])
        gate, up = tensors[mine + "gate_up"].chunk(2)
        parts = {
            "self_attn.q_proj": q,
            "self_attn.k_proj": k,
            "self_attn.v_proj": v,
            "self_attn.o_proj": tensors[mine + "out"],
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": tensors[mine + "down"],
            "input_layernorm": tensors[mine + "attn_norm"],
            "post_attention_layernorm": tensors[mine + "mlp_norm"],
        }
        state |= {f"{theirs}{name}.weight": tensor for name, tensor in parts.items()}
    return state
