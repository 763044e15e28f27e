"""How fast the engine reads and writes on this CPU, beside its peers on the same weights in the same run.

Peers: transformers (SDPA attention, float32, the same dequantised weights), always; llama.cpp, on the GGUF file
itself, where `llama-cpp-python` is installed. Each figure is the best of its repeats. The limit of the machine
is measured first: matrix products of the model's largest shape.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _engine_report import as_served, bar, report
from bunny_engine.config import ModelConfig
from bunny_engine.engine import EngineOptions
from bunny_engine.fetch import Source, resolve
from bunny_engine.loading import open_engine, open_model
from bunny_engine.memory import DenseMemory
from bunny_engine.model import Model
from bunny_engine.types import SamplingParams
from bunny_engine.weights import load

CHUNK = 256
Run = Callable[[list[int], int], tuple[float, float]]  # prompt, answer tokens → seconds to read, to write


def prompt_of(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(1000, 40_000), k=count)


def best(run: Run, count: int, answer: int, repeats: int) -> tuple[float, float]:
    found = [run(prompt_of(count, seed), answer) for seed in range(repeats)]
    return min(read for read, _ in found), min(write for _, write in found)


def ours(source: Source) -> Run:
    model: Model = open_model(source)[0]
    with torch.inference_mode():
        model.prepare()

    @torch.inference_mode()
    def run(ids: list[int], answer: int) -> tuple[float, float]:
        begun = time.perf_counter()
        memory = DenseMemory(model.config, len(ids) + answer, model.dtype, model.device)
        for start in range(0, len(ids), CHUNK):
            hidden = model.chunk(torch.tensor(ids[start : start + CHUNK]), memory)
        token = int(model.logits(hidden[-1:]).argmax())
        read = time.perf_counter()
        for _ in range(answer - 1):
            token = int(model.tokens([token], [memory]).argmax())
        return read - begun, time.perf_counter() - read

    return run


def transformers_peer(source: Source) -> Run:
    import transformers

    checkpoint = load(source, torch.float32)
    c, tensors = checkpoint.config, checkpoint.tensors
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


def llama_peer(source: Source, threads: int, context: int) -> Run:
    from llama_cpp import Llama

    model = Llama(str(source.path), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)

    def run(ids: list[int], answer: int) -> tuple[float, float]:
        model.reset()
        begun = time.perf_counter()
        model.eval(ids)
        token = model.sample(temp=0.0)
        read = time.perf_counter()
        for _ in range(answer - 1):
            model.eval([token])
            token = model.sample(temp=0.0)
        return read - begun, time.perf_counter() - read

    return run


async def reuse(source: Source, tokens: int) -> tuple[float, float]:
    """Seconds for three prompts of `tokens` + 40, and for three that share all but the last 40 tokens."""
    engine, _ = open_engine(source, options=lambda context: EngineOptions(context=context))

    async def ask(ids: list[int]) -> None:
        async for _ in engine.generate(ids, SamplingParams(max_tokens=1, temperature=0.0)):
            pass

    try:
        await ask(prompt_of(16, 99))
        times = []
        for prefixes in ((1, 2, 3), (4, 4, 4)):
            begun = time.perf_counter()
            for end, prefix in enumerate(prefixes):
                await ask(prompt_of(tokens, prefix) + prompt_of(40, 50 + end))
            times.append(time.perf_counter() - begun)
        return times[0], times[1]
    finally:
        engine.close()


def cold_start() -> float:
    """Seconds from the start of the process to the first 200 of /health, weights in the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "bunny_engine.cli", "serve", "--port", "0", "--ready-file", str(ready)]
        begun = time.perf_counter()
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                while not ready.exists() and process.poll() is None:
                    time.sleep(0.005)
                urllib.request.urlopen(json.loads(ready.read_text())["url"] + "/health", timeout=30).close()
                return time.perf_counter() - begun
            finally:
                process.terminate()


def matmul_limit() -> float:
    """GFLOP/s of float32 products in the model's largest shape."""
    x, w = torch.randn(512, 576), torch.randn(3072, 576)
    seconds = []
    for _ in range(20):
        begun = time.perf_counter()
        torch.nn.functional.linear(x, w)
        seconds.append(time.perf_counter() - begun)
    return 2 * 512 * 576 * 3072 / min(seconds) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter prompts, fewer repeats: under a minute")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    as_served()
    torch.set_num_threads(options.threads)
    source = resolve()
    long, repeats = (1536, 2) if options.quick else (4096, 3)
    limit = matmul_limit()
    runs: dict[str, Run] = {"engine": ours(source), "transformers": transformers_peer(source)}
    if importlib.util.find_spec("llama_cpp"):
        runs["llama.cpp"] = llama_peer(source, options.threads, long + 64)
    rows: list[dict[str, Any]] = []
    total: dict[str, dict[str, float]] = {}
    for name, run in runs.items():
        run(prompt_of(64, 0), 2)  # warm
        read, write = best(run, 512, 17, repeats)
        long_read, long_write = best(run, long, 16, 1 if options.quick else 2)
        total[name] = {"512": read, "decode": write / 16, "long": long_read + long_write}
        flops = 2 * 106.2e6 * 512 / read / 1e9  # products with the layers' weights alone
        rows.append(
            {
                "server": name,
                "512 tokens, tok/s": 512 / read,
                "of matmul limit": flops / limit,
                "decode at 512, tok/s": 16 / write,
                f"{long:,} + 16, s": long_read + long_write,
            }
        )
    if "llama.cpp" not in runs:
        rows.append({**dict.fromkeys(rows[0], "not measured"), "server": "llama.cpp (not installed)"})
    different, same = asyncio.run(reuse(source, 1024 if options.quick else 2048))
    start = min(cold_start() for _ in range(1 if options.quick else 3))
    # In float32 both peers read a prompt at the machine's speed of matrix products: a tie is what can be had.
    bars = [
        bar(
            "512-token prompt, times as fast as transformers",
            total["transformers"]["512"] / total["engine"]["512"],
            0.9,
        ),
        bar(
            f"{long:,} + 16 tokens, times as fast as transformers",
            total["transformers"]["long"] / total["engine"]["long"],
            0.9,
        ),
        bar(
            "decode, times as fast as transformers",
            total["transformers"]["decode"] / total["engine"]["decode"],
            1.3,
        ),
        bar(
            "the same prefix three times, times as fast as three",
            different / same,
            2.5,
        ),
        bar("cold start, s", start, 3.0, most=True),
    ]
    if "llama.cpp" in runs:
        peer, mine = total["llama.cpp"], total["engine"]
        bars += [
            bar("512-token prompt, times as fast as llama.cpp", peer["512"] / mine["512"], 4.0),
            bar(f"{long:,} + 16 tokens, times as fast as llama.cpp", peer["long"] / mine["long"], 3.0),
            bar("decode, times as fast as llama.cpp", peer["decode"] / mine["decode"], 0.8),
        ]
    report(
        "engine on the CPU",
        rows,
        bars,
        as_json=options.json,
        threads=options.threads,
        matmul_gflops=round(limit, 1),
        bfloat16_in_hardware=bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    )


if __name__ == "__main__":
    main()
