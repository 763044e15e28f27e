"""How fast the engine reads and writes on this CPU, beside its peers on the same file in the same run.

Peers: llama.cpp, by an interpreter that has `llama-cpp-python[server]` (`--peer PYTHON`; with cmake and a C++
compiler: `python -m venv peer && peer/bin/pip install 'llama-cpp-python[server]'`), and transformers in float32
with `--transformers`. Runs take turns, and each figure is the best of its repeats. What the machine can do is
measured first: matrix products and reading of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import math
import pydoc_data.topics
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _engine_load import bunny, cold_start, first_tokens, llama
from _engine_report import as_served, bar, report
from bunny_engine.config import ModelConfig
from bunny_engine.engine import EngineOptions
from bunny_engine.fetch import Source, resolve
from bunny_engine.linear import HalfLinear
from bunny_engine.loading import open_engine, open_model
from bunny_engine.memory import DenseMemory
from bunny_engine.model import Model
from bunny_engine.stored import Stored
from bunny_engine.tokenizer import load_tokenizer
from bunny_engine.types import SamplingParams
from bunny_engine.weights import load

CHUNK = 256
FOUR = "half,mlp=int4,attn=int4"  # for a Q4_0 or Q4_1 file: its own numbers
Run = Callable[[list[int], int], tuple[float, float]]  # prompt, answer tokens → seconds to read, to write


def prompt_of(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(1000, 40_000), k=count)


def best(runs: dict[str, Run], count: int, answer: int, repeats: int) -> dict[str, tuple[float, float]]:
    """The least seconds to read and to write, by name; the runs take turns, so that a noisy minute hits all."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for seed in range(repeats):
        for name, run in runs.items():
            found[name].append(run(prompt_of(count, seed), answer))
            read, write = found[name][-1]
            print(
                f"{name}: {count:,} tokens {read:.2f} s, {answer - 1} more {write:.2f} s",
                file=sys.stderr,
                flush=True,
            )
    return {name: (min(r for r, _ in times), min(w for _, w in times)) for name, times in found.items()}


def ours(model: Model) -> Run:
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


def limits(c: ModelConfig) -> dict[str, float]:
    """GFLOP/s of a chunk times the largest matrix, in float32 and float16; GB/s of reading memory."""
    x, w = torch.randn(CHUNK, c.width), torch.randn(2 * c.ffn, c.width)
    half = HalfLinear(Stored.dense_of(w.half()), None, torch.float32)
    large = torch.ones(64 << 20)
    flops = 2 * CHUNK * c.width * 2 * c.ffn
    return {
        "float32_gflops": flops / least(lambda: torch.nn.functional.linear(x, w)) / 1e9,
        "float16_gflops": flops / least(lambda: half(x)) / 1e9,
        "read_gbs": large.nbytes / least(large.sum) / 1e9,
    }


def least(work: Callable[[], object], times: int = 20) -> float:
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


@torch.inference_mode()
def perplexity(model: Model, ids: list[int]) -> float:
    """Mean negative log-likelihood in nats."""
    memory, loss = DenseMemory(model.config, len(ids), model.dtype, model.device), 0.0
    for start in range(0, len(ids), CHUNK):
        targets = torch.tensor(ids[start + 1 : start + CHUNK + 1])
        hidden = model.chunk(torch.tensor(ids[start : start + CHUNK]), memory)
        scores = model.logits(hidden[: len(targets)])
        loss += float(torch.nn.functional.cross_entropy(scores, targets, reduction="sum"))
    return loss / (len(ids) - 1)


@torch.inference_mode()
def written(model: Model, ids: list[int], prompt: int) -> float:
    """Mean negative log-likelihood in nats of what follows the prompt, written token by token."""
    memory, loss = DenseMemory(model.config, len(ids), model.dtype, model.device), 0.0
    logits = model.logits(model.chunk(torch.tensor(ids[:prompt]), memory))[-1:]
    for token in ids[prompt:]:
        loss += float(torch.nn.functional.cross_entropy(logits, torch.tensor([token])))
        logits = model.tokens([token], [memory])
    return loss / (len(ids) - prompt)


def forms(source: Source, tokens: int) -> list[dict[str, Any]]:
    """What each way to keep the weights takes and costs: bits, bytes, perplexity, speed."""
    text = "\n\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    ids = load_tokenizer(source).encode(text[: tokens * 8])[:tokens]
    rows, base, base_written = [], 0.0, 0.0
    for name in ("native", "half", "bf16", "int8", "int6", "int4", "hybrid", FOUR):
        model, checkpoint = open_model(source, weights=name)
        run = ours(model)  # prepares the model
        nats = perplexity(model, ids)
        base = base or nats
        decoded = written(model, ids[: CHUNK + tokens // 8], CHUNK)
        base_written = base_written or decoded
        read, write = best({name: run}, 512, 9, 3)[name]
        size = sum(matrix.nbytes for matrix in checkpoint.matrices.values())
        count = sum(math.prod(matrix.shape) for matrix in checkpoint.matrices.values())
        rows.append(
            {
                "weights": name,
                "bits a weight": 8 * size / count,
                "MB on disk": size / 1e6,
                "perplexity": math.exp(nats),
                "change, %": 100 * math.expm1(nats - base),
                "at decode, %": 100 * math.expm1(decoded - base_written),
                "512 tokens, tok/s": 512 / read,
                "decode at 512, tok/s": 8 / write,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter prompts, fewer repeats and clients")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    here = sys.executable if importlib.util.find_spec("llama_cpp") else None
    parser.add_argument("--peer", default=here, help="an interpreter that has llama-cpp-python[server]")
    parser.add_argument("--transformers", action="store_true", help="measure transformers in float32, too")
    parser.add_argument("--forms", action="store_true", help="only the table of ways to keep the weights")
    options = parser.parse_args()
    as_served()
    torch.set_num_threads(options.threads)
    source = resolve()
    if options.forms:
        rows = forms(source, 768 if options.quick else 3072)
        half = next(row for row in rows if row["weights"] == "half")
        bars = [
            bar("perplexity change of what is served by default, %", abs(half["change, %"]), 0.05, most=True)
        ]
        report("ways to keep the weights", rows, bars, as_json=options.json, threads=options.threads)
    long, repeats, clients = (1536, 2, 8) if options.quick else (4096, 3, 20)
    model, checkpoint = open_model(source)
    c = model.config
    limit = limits(c)
    runs: dict[str, Run] = {
        "engine": ours(model),
        "engine, int4 layers": ours(open_model(source, weights=FOUR)[0]),
    }
    if options.peer:
        runs["llama.cpp"] = llama_peer(options.peer, source, options.threads, long + 64)
    if options.transformers:
        runs["transformers"] = transformers_peer(source)
    for run in runs.values():
        run(prompt_of(64, 0), 2)  # warm
    short = best(runs, 512, 17, repeats)
    longer = best(runs, long, 16, 1 if options.quick else 2)
    layers = sum(math.prod(m.shape) for name, m in checkpoint.matrices.items() if name.startswith("layers."))
    stored = sum(matrix.nbytes for matrix in checkpoint.matrices.values())
    attention = 2 * c.layers * c.q_rows * long**2  # causal: half of two products
    rows: list[dict[str, Any]] = [
        {
            "server": "what this machine allows",
            "512 tokens, tok/s": limit["float16_gflops"] * 1e9 / (2 * layers),
            f"{long:,} + 16, s": (
                2 * layers * long / limit["float16_gflops"] + attention / limit["float32_gflops"]
            )
            / 1e9
            + 16 * stored / limit["read_gbs"] / 1e9,
            "decode at 512, tok/s": limit["read_gbs"] * 1e9 / stored,
        }
    ]
    for name in runs:
        rows.append(
            {
                "server": name,
                "512 tokens, tok/s": 512 / short[name][0],
                f"{long:,} + 16, s": sum(longer[name]),
                "decode at 512, tok/s": 16 / short[name][1],
            }
        )
    different, same = asyncio.run(reuse(source, 1024 if options.quick else 2048))
    body = {"model": source.name, "prompt": "The capital of France is", "max_tokens": 1}
    starts = [cold_start(body) for _ in range(1 if options.quick else 3)]
    bars = [
        bar("the same prefix three times, times as fast as three", different / same, 2.5),
        bar("cold start to the first completion, s", min(answered for _, answered in starts), 3.0, most=True),
    ]
    facts: dict[str, Any] = {name: round(value, 1) for name, value in limit.items()}
    if options.peer:
        mine, peer = short["engine"], short["llama.cpp"]
        bars += [
            bar("512-token prompt, times as fast as llama.cpp", peer[0] / mine[0], 4.0),
            bar(
                f"{long:,} + 16 tokens, times as fast as llama.cpp",
                sum(longer["llama.cpp"]) / sum(longer["engine"]),
                3.0,
            ),
            bar("decode at 512, times as fast as llama.cpp", peer[1] / mine[1], 0.8),
            bar("the same, int4 layers", peer[1] / short["engine, int4 layers"][1], 0.8),
        ]
        with bunny("--threads", str(options.threads)) as url:
            us = asyncio.run(first_tokens(url, clients, 220, 32))
        with llama(options.peer, source.path, options.threads, 2048) as url:
            them = asyncio.run(first_tokens(url, clients, 220, 32))
        p95 = [times[math.ceil(0.95 * clients) - 1] for times in (us, them)]
        facts |= {"p95_first_token_s": [round(value, 2) for value in p95]}
        bars.append(
            bar(f"{clients} clients, P95 of first token, of llama.cpp's", p95[0] / p95[1], 0.5, most=True)
        )
    else:
        rows.append({**dict.fromkeys(rows[0], "not measured"), "server": "llama.cpp (name it with --peer)"})
    if "transformers" in runs:
        theirs = short["transformers"]
        bars.append(bar("512-token prompt, times as fast as transformers", theirs[0] / short["engine"][0], 1.0))
        bars.append(bar("decode at 512, times as fast as transformers", theirs[1] / short["engine"][1], 1.3))
    report(
        "engine on the CPU",
        rows,
        bars,
        as_json=options.json,
        threads=options.threads,
        bfloat16_in_hardware=bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
        cold_health_s=round(min(healthy for healthy, _ in starts), 2),
        **facts,
    )


if __name__ == "__main__":
    main()
