"""Memory policies: what is kept, how exactly, and in how many bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial as bound
from pathlib import Path

import pytest
import tiny_models
import torch
from bunny_engine.attention import merge, partial
from bunny_engine.bench_speed import filled
from bunny_engine.cli import app
from bunny_engine.engine import EngineOptions, LocalEngine
from bunny_engine.errors import OptionError
from bunny_engine.fetch import Source
from bunny_engine.loading import open_model
from bunny_engine.memory_codes import bands_of, encode, paired, unpaired
from bunny_engine.memory_crew import side_by_side
from bunny_engine.model import Model
from bunny_engine.packing import BITS, group_of, pack, packed_bytes
from bunny_engine.policies import Policy
from bunny_engine.types import ModelInfo, SamplingParams
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

BLOCK, COUNT = 64, 250
_MODELS: dict[Path, Model] = {}


def _all() -> Iterator[Policy]:
    """Every policy with every form that it can store."""
    yield from (Policy(name=name, block=BLOCK, resident=1) for name in ("full", "window"))
    for form, bits in [("kv", 16), ("kv", 8), ("kv", 4), ("kv", 3), ("x", 16), ("x", 8)]:
        yield Policy(name="bsr", block=BLOCK, resident=1, form=form, bits=bits)
        yield Policy(name="top-blocks", block=BLOCK, resident=1, form=form, bits=bits, most=1)


ALL = list(_all())


@pytest.fixture
def model(tiny: tiny_models.TinyModel) -> Model:
    if tiny.gguf not in _MODELS:
        _MODELS[tiny.gguf] = open_model(Source("tiny", tiny.gguf, "gguf"), device="cpu", dtype="float32")[0]
    return _MODELS[tiny.gguf]


def ids_of(count: int, seed: int = 0) -> list[int]:
    return torch.randint(3, tiny_models.VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def logits_of(model: Model, policy: Policy, ids: list[int], prompt: int, chunk: int = 32) -> torch.Tensor:
    """Logits of every position: the prompt in chunks, the rest token by token."""
    rows: list[torch.Tensor] = []
    with torch.inference_mode():
        memory = policy.new(model, len(ids))
        pieces = [ids[start : min(start + chunk, prompt)] for start in range(0, prompt, chunk)]
        rows += [model.logits(model.chunk(torch.tensor(piece), memory)) for piece in pieces]
        rows += [model.tokens([token], [memory]) for token in ids[prompt:]]
    return torch.cat(rows)


@settings(max_examples=60, deadline=None)
@given(
    bits=st.sampled_from(BITS),
    along=st.sampled_from(["tokens", "channels"]),
    channels=st.sampled_from([8, 16, 64, 128]),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 500.0]),
    seed=st.integers(0, 999),
)
def test_a_packed_number_moves_by_half_a_step(
    bits: int, along: str, channels: int, spread: float, seed: int
) -> None:
    """Each number comes back within half a step of its group, and float16's rounding of the group's own."""
    x = torch.randn(2, 3, 64, channels, generator=torch.Generator().manual_seed(seed)) * spread + 0.3
    packed = pack(x, bits, along)  # type: ignore[arg-type]
    back = torch.stack([packed.part(0).numbers(), packed.part(1).numbers()])
    assert torch.equal(back, packed.numbers())
    axis = 2 if along == "tokens" else 3
    reach = x.amax(axis, keepdim=True) - x.amin(axis, keepdim=True)
    slack = 2e-3 * (reach + x.abs().amax(axis, keepdim=True)) + 1e-6
    assert bool(((back - x).abs() <= reach / (2**bits - 1) / 2 + slack).all())
    codes = sum(plane.nbytes for plane in packed.planes)
    assert codes == x.numel() * bits // 8


@settings(max_examples=60, deadline=None)
@given(
    bits=st.sampled_from(BITS),
    along=st.sampled_from(["tokens", "channels"]),
    channels=st.sampled_from([8, 16, 32, 64, 128]),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 500.0]),
    seed=st.integers(0, 999),
)
def test_a_sealed_number_moves_by_half_a_step_of_its_bits(
    bits: int, along: str, channels: int, spread: float, seed: int
) -> None:
    """Whatever share of the bits its channel has; in the predicted bytes; alone or beside other blocks."""
    x = torch.randn(2, 3, 64, channels, generator=torch.Generator().manual_seed(seed)) * spread + 0.3
    codes = encode(x, bits, along)  # type: ignore[arg-type]
    back = codes.numbers()
    axis = 2 if along == "tokens" else 3
    reach = x.amax(axis, keepdim=True) - x.amin(axis, keepdim=True)
    shares = bands_of(bits, channels, along)  # type: ignore[arg-type]
    steps = torch.tensor([2.0**width - 1 for width, count in shares for _ in range(count)])
    slack = 2e-3 * (reach + x.abs().amax(axis, keepdim=True)) + 1e-6
    assert bool(((back - x).abs() <= reach / steps / 2 + slack).all())
    assert sum(width * count for width, count in shares) == bits * channels
    group = 64 if along == "tokens" else group_of(channels)
    assert codes.nbytes == packed_bytes(x.numel(), bits, group)
    both = codes.part(0).beside([codes.part(1)]).numbers()
    assert torch.equal(both, torch.cat([back[0], back[1]], dim=1))
    if along == "channels":
        weights = torch.rand(3, 2, 64, generator=torch.Generator().manual_seed(seed))
        off = (codes.part(1).weighed(weights) - weights @ back[1]).abs().max()
        assert float(off) <= 1e-5 * float(1 + x.abs().max()) * 64


def test_slow_pairs_of_a_key_get_more_bits() -> None:
    """In 4 and 3 bits the last channels, in the order of `paired`, come back more exactly than the first."""
    x = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(unpaired(paired(x)), x)
    assert paired(torch.arange(6.0)).tolist() == [0, 3, 1, 4, 2, 5]
    for bits in (4, 3):
        off = (encode(x, bits, "tokens").numbers() - x).square().mean((0, 1, 2))
        assert off[-8:].max() < off[24:40].min() / 4 < off[:8].min()


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_work_side_by_side_keeps_its_order_and_its_faults(count: int) -> None:
    """Results as asked, each on one thread while the caller keeps its own; an error of one is the caller's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = side_by_side([bound(lambda n: (n, torch.get_num_threads()), n) for n in range(count)])
        assert [n for n, _ in found] == list(range(count))
        assert count < 2 or {each for _, each in found} == {1}
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError):
            side_by_side([lambda: 1 / 0] * 3)
    finally:
        torch.set_num_threads(threads)


def test_a_step_has_its_bits_with_any_number_of_threads(model: Model) -> None:
    """Sealed blocks are rebuilt side by side on two threads as on one."""
    ids, threads, found = ids_of(COUNT, 8), torch.get_num_threads(), []
    policy = Policy(name="bsr", block=BLOCK, resident=1, bits=4)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(logits_of(model, policy, ids, 200))
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(found[0], found[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("chosen", ALL, ids=str)
@pytest.mark.parametrize("tokens", [10, 64, 65, 128, 129, 192, 193, 250])
def test_predicted_bytes_are_the_allocated_ones(model: Model, chosen: Policy, tokens: int) -> None:
    """What `bunny-engine memory` predicts for a sequence is, to the byte, what it holds when it is full."""
    memory = chosen.new(model, tokens)
    with torch.inference_mode():
        for start in range(0, tokens, 32):
            model.chunk(torch.tensor(ids_of(min(32, tokens - start))), memory)
    assert memory.nbytes == chosen.bytes_for(model.config, tokens, model.dtype)


def test_the_memory_command_tells_every_policy(tiny: tiny_models.TinyModel) -> None:
    """Each policy and form, in the bytes that a sequence of that length really holds, and what auto picks."""
    done = CliRunner().invoke(
        app, ["memory", str(tiny.gguf), "--context", "4096", "--block-size", "128", "--json"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["tokens"], told["trained_for"], told["auto"]) == (4096, 256, "kv")
    assert "2·g·dh" in told["why"]
    rows = {(row["policy"], row["form"], row["bits"]): row for row in told["policies"]}
    assert len(rows) == len(told["policies"]) == 9
    by_form = {key: row["of_full"] for key, row in rows.items() if key[0] == "bsr"}
    assert by_form["bsr", "x", 16] > by_form["bsr", "x", 8] > by_form["bsr", "kv", 3]
    table = CliRunner().invoke(app, ["memory", str(tiny.gguf), "--context", "4096"])
    assert "The model was trained for 256 tokens only" in table.output


def test_what_the_memory_command_predicts_is_held(model: Model, tiny: tiny_models.TinyModel) -> None:
    """For each policy and form that it lists, to the byte, when a sequence of that length is full."""
    done = CliRunner().invoke(
        app,
        ["memory", str(tiny.gguf), "--context", "256", "--block-size", "64", "--json", "--dtype", "float32"],
    )
    rows = json.loads(done.output)["policies"]
    assert len(rows) == 9
    for row in rows:
        form = {"form": row["form"], "bits": row["bits"]} if row["form"] else {}
        policy = Policy(name=row["policy"], block=64, **form)
        with torch.inference_mode():
            assert filled(model, policy, 256, 256).nbytes == row["bytes"], row


@pytest.mark.parametrize("resident", [1, 2])
@pytest.mark.parametrize("prompt", [COUNT, 150, 40])
def test_the_window_is_exactly_what_it_says(
    model: Model, tiny: tiny_models.TinyModel, prompt: int, resident: int
) -> None:
    """Logits equal transformers' under a mask of the first block and the newest ones, in prefill and decode."""
    ids = ids_of(COUNT)
    position = torch.arange(COUNT)
    query, key = position[:, None], position[None, :]
    seen = (key <= query) & ((key < BLOCK) | (key // BLOCK > query // BLOCK - resident))
    mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
    with torch.inference_mode():
        want = tiny.reference(torch.tensor([ids]), attention_mask=mask).logits[0]
    ours = logits_of(model, Policy(name="window", block=BLOCK, resident=resident), ids, prompt)
    torch.testing.assert_close(ours, want, atol=1e-4, rtol=0)


@pytest.mark.parametrize("prompt", [COUNT, 140])
def test_sealed_blocks_cost_little_and_less_with_more_bits(tmp_path: Path, prompt: int) -> None:
    """Of the logits' spread 16 bits move 0.1 %, 8 bits 1 %, 4 bits 12 %; until a block seals nothing moves."""
    calm = tiny_models.build(tmp_path, "llama", initializer_range=0.1)
    model = open_model(Source("calm", calm.gguf, "gguf"), device="cpu", dtype="float32")[0]
    ids = ids_of(COUNT, 1)
    full = logits_of(model, Policy(), ids, prompt)
    off = {}
    for form, bits in [("kv", 16), ("kv", 8), ("kv", 4), ("kv", 3), ("x", 16), ("x", 8)]:
        policy = Policy(name="bsr", block=BLOCK, resident=1, form=form, bits=bits)
        ours = logits_of(model, policy, ids, prompt)
        torch.testing.assert_close(ours[: 2 * BLOCK], full[: 2 * BLOCK], atol=1e-4, rtol=0)
        off[form, bits] = float((ours - full)[2 * BLOCK :].square().mean().sqrt() / full.std())
    assert max(off["kv", 16], off["x", 16]) < 1e-3
    assert 0 < max(off["kv", 8], off["x", 8]) < 0.01
    assert off["kv", 8] * 8 < off["kv", 4] < min(0.12, off["kv", 3])


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    block=st.sampled_from([64, 128]),
    resident=st.integers(1, 3),
    chunk=st.sampled_from([8, 32, 64]),
    count=st.integers(2, 250),
    share=st.floats(0, 1),
    form=st.sampled_from(["kv", "x"]),
)
def test_no_geometry_loses_a_token(
    model: Model, block: int, resident: int, chunk: int, count: int, share: float, form: str
) -> None:
    """Whatever the block, the chunk, and where decode begins: 16 bits, or all blocks, say what full says."""
    ids, prompt = ids_of(count, count), max(1, round(share * count))
    want = logits_of(model, Policy(), ids, prompt, chunk)
    sizes = {"block": block, "resident": resident, "form": form, "bits": 16}
    sealed = logits_of(model, Policy(name="bsr", **sizes), ids, prompt, chunk)  # type: ignore[arg-type]
    chosen = logits_of(model, Policy(name="top-blocks", most=9, **sizes), ids, prompt, chunk)  # type: ignore[arg-type]
    assert float((sealed - want).abs().max() / want.std().clamp_min(1e-3)) < 0.05
    assert torch.equal(chosen, sealed)


@pytest.mark.parametrize("policy", ALL, ids=str)
async def test_reuse_and_batch_mates_change_no_bit(model: Model, policy: Policy) -> None:
    """A sealed context adopted from the cache, alone or in a crowd, gives the very same answer."""
    info = ModelInfo("tiny", 256, model.config.vocab, "cpu", "float32", 0)
    options = EngineOptions(context=256, chunk=16, step_tokens=16, policy=policy)
    engine = LocalEngine(model, info, frozenset({1}), options)
    params = SamplingParams(max_tokens=30, temperature=0.0, ignore_eos=True, top_logprobs=2)

    async def answer(ids: list[int]) -> list[object]:
        return [item async for item in engine.generate(ids, params)]

    try:
        ids = ids_of(215, 2)
        fresh = await answer(ids)
        crowd = await asyncio.gather(answer(ids_of(190, 3)), answer(ids), answer(ids_of(7, 4)))
        assert crowd[1][0].cached_tokens == 208  # type: ignore[attr-defined]
        assert crowd[1][1:] == fresh[1:]
    finally:
        engine.close()


@pytest.mark.parametrize(("window", "form", "prompt"), [(24, "kv", 150), (150, "kv", COUNT), (150, "x", 150)])
def test_sliding_layers_see_as_far_into_sealed_blocks(
    tmp_path: Path, window: int, form: str, prompt: int
) -> None:
    """Gemma 3: layers with a window, others without, over dense and sealed blocks, as over dense ones alone."""
    built = tiny_models.build(tmp_path, "gemma3", initializer_range=0.1, sliding_window=window)
    model = open_model(Source("gemma", built.folder, "hf"), device="cpu", dtype="float32")[0]
    assert {model.config.window(layer) is None for layer in range(model.config.layers)} == {True, False}
    ids = ids_of(COUNT, 6)
    want = logits_of(model, Policy(), ids, prompt)
    ours = logits_of(model, Policy(name="bsr", block=BLOCK, resident=1, form=form, bits=16), ids, prompt)
    assert float((ours - want).square().mean().sqrt() / want.std()) < 1e-3


def test_merging_with_nothing_is_the_identity() -> None:
    """A partial softmax over no key changes nothing, and two of them give no NaN."""
    q, k, v = (torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(n)) for n in range(3))
    some = partial(q, k, v, causal=False)
    nothing = (torch.zeros_like(some[0]), torch.full_like(some[1], -torch.inf))
    for merged in (merge(some, nothing), merge(nothing, some)):
        torch.testing.assert_close(merged[0], some[0])
        torch.testing.assert_close(merged[1], some[1])
    empty = merge(nothing, nothing)
    assert bool(empty[0].isfinite().all())
    both = merge(partial(q, k[:, :2], v[:, :2], causal=False), partial(q, k[:, 2:], v[:, 2:], causal=False))
    torch.testing.assert_close(both[0], some[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "infinite"},
        {"block": 100},
        {"block": 0},
        {"resident": 0},
        {"bits": 5},
        {"form": "y"},
        {"form": "x", "bits": 4},
        {"most": 0},
        {"place": "moon"},
    ],
    ids=str,
)
def test_policies_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    """Each with the option's name."""
    with pytest.raises(OptionError, match="--"):
        Policy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "policy",
    [policy for policy in ALL if policy.bits >= 8],
    ids=str,
)
def test_bfloat16_runs_every_policy(tmp_path: Path, policy: Policy) -> None:
    """The type that ships where the hardware has it: finite, near float32, and the same bits beside mates."""
    calm = tiny_models.build(tmp_path, "llama", initializer_range=0.1)
    source = Source("calm", calm.gguf, "gguf")
    narrow, wide = (open_model(source, device="cpu", dtype=name)[0] for name in ("bfloat16", "float32"))
    ids = ids_of(COUNT, 5)
    ours, want = logits_of(narrow, policy, ids, 200), logits_of(wide, policy, ids, 200)
    assert ours.dtype == torch.float32
    assert float((ours - want).square().mean().sqrt() / want.std()) < 0.05
    assert torch.equal(logits_of(narrow, policy, ids, 200), ours)
