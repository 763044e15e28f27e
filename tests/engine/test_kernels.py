"""The GPU kernels, run by Triton's interpreter on the CPU: what they compute, not how fast."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install 'space-bunny[gpu]'")

import tiny_models
import torch
from bunny_engine.config import ModelConfig
from bunny_engine.fetch import Source
from bunny_engine.kernels.batch import Batch, BatchShape, merge_parts
from bunny_engine.kernels.decode import attach
from bunny_engine.loading import open_model
from bunny_engine.memory import Memory, Seat
from bunny_engine.memory_forms import KeysValues, seal
from bunny_engine.model import Model
from bunny_engine.policies import Policy
from bunny_engine.rope import Rope, frequencies

BLOCK, NAN = 64, float("nan")
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # log of an empty softmax's sum


class Turned:
    """As much of a model as sealing needs: its shape and its angles."""

    dtype = torch.float32

    def __init__(self, heads: int, kv_heads: int, head_dim: int) -> None:
        self.config = ModelConfig("llama", 2, 64, heads, kv_heads, head_dim, 96, 64, 4096, 1e-5, 1e4)
        self.rope = Rope(frequencies(head_dim, 1e4), 4096)

    def angles(self, layer: int, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.rope.span(start, stop)


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seated(model: Turned, dense: int, blocks: int, bits: int, seed: int) -> tuple[Seat, list[KeysValues]]:
    """A sequence whose room behind the last token holds NaN."""
    c = model.config
    k, v = (torch.full((c.layers, c.kv_heads, 3 * BLOCK, c.head_dim), NAN) for _ in range(2))
    k[:, :, :dense], v[:, :, :dense] = (
        random(c.layers, c.kv_heads, dense, c.head_dim, seed=seed + n) for n in range(2)
    )
    sealed = []
    for place in range(blocks):
        keys, values = (
            random(c.layers, c.kv_heads, BLOCK, c.head_dim, seed=seed + 9 * place + n) for n in (2, 3)
        )
        sealed.append(seal(model, 1000 + BLOCK * (1 + place), keys, values, bits))  # type: ignore[arg-type]
    tensors = [(block.starts[0], (*block.k.tensors, *block.v.tensors)) for block in sealed]
    return Seat(k, v, dense, tensors), sealed


@pytest.mark.parametrize(
    ("bits", "shape"), [(16, (4, 4, 32)), (8, (6, 2, 64)), (4, (6, 2, 64)), (4, (4, 1, 128))], ids=str
)
def test_the_kernel_is_attention_over_what_is_rebuilt(bits: int, shape: tuple[int, int, int]) -> None:
    """Dense tokens, sealed blocks and the new token, in one softmax, for sequences of different lengths."""
    model = Turned(*shape)
    c = model.config
    rows = [seated(model, 150, 2, bits, 0), seated(model, 0, 0, bits, 99)]
    size = BatchShape(sequences=2, dense=3 * BLOCK, blocks=3, block=BLOCK, bits=bits, split=128)
    cos, sin = model.rope.span(0, 2048)
    batch = Batch(c, size, cos.contiguous(), sin.contiguous(), torch.device("cpu"))
    batch.seat([seat for seat, _ in rows])
    q, k, v = (random(2, heads, c.head_dim, seed=heads) for heads in (c.heads, c.kv_heads, c.kv_heads))
    out = batch.attend(1, q, k, v)
    for row, (seat, sealed) in enumerate(rows):
        rebuilt = [block.part(1).rebuild(model, 1) for block in sealed]  # type: ignore[arg-type]
        keys = torch.cat([seat.k[1, :, : seat.dense], k[row][:, None], *(each for each, _ in rebuilt)], 1)
        values = torch.cat([seat.v[1, :, : seat.dense], v[row][:, None], *(each for _, each in rebuilt)], 1)
        grouped = q[row].view(c.kv_heads, c.group, c.head_dim)
        weights = torch.softmax(grouped @ keys.transpose(1, 2) * c.head_dim**-0.5, -1)
        torch.testing.assert_close(out[row].view(grouped.shape), weights @ values, atol=2e-5, rtol=1e-4)
        assert torch.equal(seat.k[1, :, seat.dense], k[row])  # and the new token is kept


def test_padded_rows_poison_nobody() -> None:
    """Empty places full of NaN give zeros, and change no bit of the live rows beside them."""
    model = Turned(6, 2, 64)
    c = model.config
    cos, sin = (angle.contiguous() for angle in model.rope.span(0, 2048))
    outputs = []
    for filler in (NAN, 0.0, 1e30):
        size = BatchShape(sequences=2, dense=2 * BLOCK, blocks=1, block=BLOCK, bits=8, split=64)
        batch = Batch(c, size, cos, sin, torch.device("cpu"))
        batch.seat([seated(model, 70, 1, 8, 0)[0]] * 2)  # what a fuller step left behind
        kept = seated(model, 70, 1, 8, 0)
        batch.seat([kept[0]])
        q, k, v = (torch.full((2, heads, c.head_dim), filler) for heads in (c.heads, c.kv_heads, c.kv_heads))
        q[0], k[0], v[0] = (
            random(heads, c.head_dim, seed=heads) for heads in (c.heads, c.kv_heads, c.kv_heads)
        )
        outputs.append(batch.attend(0, q, k, v))
    assert bool(outputs[0][0].isfinite().all())
    assert all(torch.equal(out, outputs[1]) for out in outputs)
    assert not outputs[0][1:].any()


def test_empty_parts_merge_to_zero() -> None:
    """Partial attentions over no key at all give 0 and not NaN, and weigh nothing beside others."""
    nothing = merge_parts(torch.zeros(2, 3, 4), torch.full((2, 3), -torch.inf))
    assert not nothing.any()
    out, lse = random(2, 3, 4, seed=0), random(2, 3, seed=1)
    lse[:, 1] = -torch.inf
    torch.testing.assert_close(merge_parts(out, lse), merge_parts(out[:, ::2], lse[:, ::2]))


@pytest.mark.parametrize("policy", [Policy(), Policy(name="bsr", block=BLOCK, resident=1, bits=4)], ids=str)
def test_a_batched_step_is_what_each_sequence_computes_alone(
    tiny: tiny_models.TinyModel, policy: Policy
) -> None:
    """Logits of a bucket of four with three live rows, over steps that seal a block, against one at a time."""
    model = open_model(Source("tiny", tiny.gguf, "gguf"), device="cpu", dtype="float32")[0]
    attach(model, policy, 200)
    decoder, model.decoder = model.decoder, None
    assert decoder is not None
    with torch.inference_mode():
        alone, together = (_read(model, policy, (191, 127, 40)) for _ in range(2))
        for step in range(2):
            ids = [7 + step, 50 + step, 90 + step]
            got = decoder.tokens(ids, together)
            want = torch.cat(
                [model.tokens([token], [memory]) for token, memory in zip(ids, alone, strict=True)]
            )
            torch.testing.assert_close(got, want, atol=2e-3, rtol=1e-3)


def test_memories_that_no_kernel_reads_are_told_apart(tiny: tiny_models.TinyModel) -> None:
    """Stored inputs, 3 bits and a choice of blocks go on one by one."""
    model = open_model(Source("tiny", tiny.gguf, "gguf"), device="cpu", dtype="float32")[0]
    for policy in (
        Policy(name="bsr", form="x"), Policy(name="bsr", bits=3), Policy(name="top-blocks")
    ):  # fmt: skip
        attach(model, policy, 200)
        assert model.decoder is not None
        assert model.decoder.tokens([1], [policy.new(model, 10)]) is None


def _read(model: Model, policy: Policy, prompts: tuple[int, ...]) -> list[Memory]:
    memories = []
    for count in prompts:
        memory = policy.new(model, 256)
        ids = torch.randint(3, tiny_models.VOCAB, (count,), generator=torch.Generator().manual_seed(count))
        for start in range(0, count, 32):
            model.chunk(ids[start : start + 32], memory)
        memories.append(memory)
    return memories
