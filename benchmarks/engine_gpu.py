"""The GPU path: card and roofline first, then each figure over it. Without a card it says "not measured".

The roofline is what this card does here, not what its maker says: bytes a second of a large copy, and
bfloat16 operations a second of a large product. Attention kernels are bound by the former: a row gives the
bytes that its memory holds, how long one pass over them takes, and the share of the roofline that is. The peer
is PyTorch's own attention over dense keys and values of the same length.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _engine_report import report, write_page
from bunny_engine.bench_speed import filled, synthetic
from bunny_engine.config import ModelConfig
from bunny_engine.memory import Memory
from bunny_engine.model import Model
from bunny_engine.policies import Policy

NOT = "not measured"
# Llama 3.1 8B's attention, two layers of it: what the kernel sees does not depend on how many there are.
SHAPE = ModelConfig("llama", 32, 4096, 32, 8, 128, 14336, 128_256, 131_072, 1e-5, 5e5)
LAYERS = 2
POLICIES = {
    "full": Policy(),
    "bsr, 16 bits": Policy(name="bsr", form="kv", bits=16),
    "bsr, 8 bits": Policy(name="bsr", form="kv", bits=8),
    "bsr, 4 bits": Policy(name="bsr", form="kv", bits=4),
}
COLUMNS = ("what", "tokens", "sequences", "MiB read", "µs", "GB/s", "of roofline", "time of the peer")


def timed(call: Callable[[], object], turns: int) -> float:
    """Seconds of one call: the median over turns, by the device's own clock."""
    for _ in range(3):
        call()
    seconds = []
    for _ in range(turns):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3)
    return sorted(seconds)[len(seconds) // 2]


def roofline(turns: int) -> tuple[float, float]:
    """Bytes a second of a copy of 2 GiB, read and written, and bfloat16 operations a second of a product."""
    source = torch.empty(1 << 30, dtype=torch.bfloat16, device="cuda")
    target = torch.empty_like(source)
    bandwidth = 2 * source.nbytes / timed(lambda: target.copy_(source), turns)
    a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    return bandwidth, 2 * 8192**3 / timed(lambda: a @ b, turns)


def attention(
    model: Model, policy: Policy, length: int, sequences: int, bandwidth: float, turns: int
) -> dict[str, Any]:
    """One layer's attention of one token of each sequence, against PyTorch's own over dense keys."""
    from bunny_engine.kernels.batch import Batch
    from bunny_engine.kernels.decode import shape_of

    c = model.config
    memories: list[Memory] = [filled(model, policy, length, length + 64) for _ in range(sequences)]
    cos, sin = model.angles(0, 0, length + 64)
    batch = Batch(c, shape_of(policy, length + 64, sequences), cos.contiguous(), sin.contiguous(), model.device)
    batch.seat([seat for memory in memories if (seat := memory.seat()) is not None])
    q, k, v = (
        torch.randn(sequences, heads, c.head_dim, dtype=model.dtype, device=model.device)
        for heads in (c.heads, c.kv_heads, c.kv_heads)
    )
    seconds = timed(lambda: batch.attend(0, q, k, v), turns)
    keys, values = (
        torch.randn(sequences, c.kv_heads, length, c.head_dim, dtype=model.dtype, device=model.device)
        for _ in range(2)
    )
    peer = timed(
        lambda: torch.nn.functional.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True),
        turns,
    )
    read = sum(memory.nbytes for memory in memories) / c.layers
    return dict(
        zip(
            COLUMNS,
            (
                f"attention, {policy.name} {policy.bits if policy.seals else 16} bits", length, sequences,
                read / 2**20, 1e6 * seconds, read / seconds / 1e9, read / seconds / bandwidth, seconds / peer,
            ),
            strict=True,
        )
    )  # fmt: skip


def step(
    model: Model, policy: Policy, length: int, sequences: int, bandwidth: float, turns: int
) -> dict[str, Any]:
    """A whole decode step of the two layers, replayed from its graph; the peer is the step without kernels."""
    from bunny_engine.kernels.decode import attach

    memories = [filled(model, policy, length, length + 512) for _ in range(sequences)]
    ids = [1] * sequences
    alone = timed(lambda: model.tokens(ids, memories), turns)
    attach(model, policy, length + 512)
    seconds = timed(lambda: model.tokens(ids, memories), turns)
    model.decoder = None
    weights = sum(math.prod(shape) for shape in model.config.shapes().values()) * model.dtype.itemsize
    read = weights + sum(memory.nbytes for memory in memories)
    return dict(
        zip(
            COLUMNS,
            (
                f"step from a graph, {policy.name}", length, sequences, read / 2**20, 1e6 * seconds,
                read / seconds / 1e9, read / seconds / bandwidth, seconds / alone,
            ),
            strict=True,
        )
    )  # fmt: skip


@torch.inference_mode()
def measured(quick: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    turns = 10 if quick else 50
    bandwidth, operations = roofline(turns)
    facts = {
        "card": torch.cuda.get_device_name(),
        "roofline": f"{bandwidth / 1e9:,.0f} GB/s, {operations / 1e12:,.0f} TFLOP/s in bfloat16",
        "torch": torch.__version__,
    }
    model = synthetic(SHAPE, 131_072, layers=LAYERS, dtype=torch.bfloat16, device=torch.device("cuda"))
    sizes = [(8192, 1), (8192, 8)] if quick else [(8192, 1), (8192, 8), (32_768, 1), (32_768, 8), (65_536, 4)]
    rows = [
        attention(model, policy, length, sequences, bandwidth, turns)
        for length, sequences in sizes
        for policy in POLICIES.values()
    ]
    rows += [
        step(model, POLICIES[name], 8192, sequences, bandwidth, turns)
        for name in ("full", "bsr, 8 bits")
        for sequences in ((1, 8) if quick else (1, 8, 32))
    ]
    return rows, facts


def compiled() -> list[dict[str, Any]]:
    """Whether each kernel compiles for compute capability 9.0: needs Triton, and no card."""
    import triton
    from bunny_engine.kernels import attend
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    tables = dict.fromkeys(("k_at", "v_at", "rooms", "lengths", "live"), "*i64")
    shape = {"KV_HEADS": 8, "GROUP": 4, "ROWS": 16, "PARTS": 19, "PRECISION": "ieee"}
    outputs = {"out": "*fp32", "lse": "*fp32", "layer": "i32", "scale": "fp32"}
    stored = {"table": "*i64", "starts": "*i64", "counts": "*i64", "cos": "*fp32", "sin": "*fp32"}
    found = []
    for number in ("bf16", "fp16"):
        new = {"keys": f"*{number}", "values": f"*{number}", "layer": "i32"}
        wanted: list[tuple[Any, dict[str, str], dict[str, Any]]] = [
            (attend.append, tables | new, {"KV_HEADS": 8, "DH": 128}),
            (attend.attend_dense, tables | outputs | {"q": f"*{number}"},
             shape | {"DH": 128, "TILE": 64, "SPLIT": 256}),
        ]  # fmt: skip
        for bits in (4, 8, 16):
            sizes = {"HALF": 64, "BLOCK": 512, "BITS": bits, "V_GROUPS": 2, "MOST": 13, "FIRST": 6}
            wanted.append((attend.attend_stored, stored | outputs | {"q": f"*{number}"}, shape | sizes))
        for kernel, signature, constants in wanted:
            names = kernel.arg_names
            source = ASTSource(
                fn=kernel,
                signature={name: signature.get(name, "constexpr") for name in names},
                constexprs={(names.index(name),): value for name, value in constants.items()},
            )
            binary = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
            found.append(
                {
                    "kernel": kernel.__name__,
                    "numbers": number,
                    "bits": constants.get("BITS", ""),
                    "bytes": len(binary),
                }
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and turns")
    parser.add_argument("--json", action="store_true", help="print JSON for a program")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    parser.add_argument(
        "--compile", action="store_true", help="only compile the kernels, for which no card is needed"
    )
    options = parser.parse_args()
    if options.compile:
        report("kernels compiled for sm_90", compiled(), [], as_json=options.json)
    if torch.cuda.is_available():
        rows, facts = measured(options.quick)
    else:
        names = [f"attention, {name}" for name in POLICIES] + [
            "step from a graph, full",
            "step from a graph, bsr",
        ]
        rows = [dict.fromkeys(COLUMNS, NOT) | {"what": name} for name in names]
        facts = {"card": "none", "roofline": NOT, "torch": torch.__version__}
        print("no CUDA device is at hand: nothing was measured", file=sys.stderr)
    if options.write is not None:
        write_page(options.write, "engine_gpu", rows, [], facts, measured=torch.cuda.is_available())
    report("engine on a GPU", rows, [], as_json=options.json, **facts)


if __name__ == "__main__":
    main()
