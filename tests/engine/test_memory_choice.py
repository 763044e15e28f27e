"""What is stored and where, which sealed blocks are read, and how much of the attention that really covered."""

from __future__ import annotations

import math

import pytest
import tiny_models
import torch
from bunny_engine.config import ModelConfig
from bunny_engine.engine import EngineOptions, LocalEngine
from bunny_engine.fetch import Source
from bunny_engine.loading import open_model
from bunny_engine.memory_choice import Landmarks, Tally, choose
from bunny_engine.memory_forms import seal
from bunny_engine.memory_place import Shelf
from bunny_engine.model import Model
from bunny_engine.policies import Policy
from bunny_engine.types import ModelInfo, SamplingParams

BLOCK = 64


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def model(tiny: tiny_models.TinyModel) -> Model:
    return open_model(Source("tiny", tiny.gguf, "gguf"), device="cpu", dtype="float32")[0]


@pytest.mark.parametrize(("kv_heads", "bits", "form"), [(2, 8, "kv"), (4, 8, "x"), (4, 16, "x"), (4, 4, "kv")])
def test_auto_stores_the_smaller_and_says_why(kv_heads: int, bits: int, form: str) -> None:
    """The layer's input where d < 2·g·dh and its bits are offered; the sentence holds both sides."""
    config = ModelConfig("llama", 2, 96, 4, kv_heads, 16, 96, 64, 1024, 1e-5, 1e4)
    policy = Policy(name="bsr", bits=bits)
    assert policy.stored_form(config)[0] == form
    said = policy.describe(config, torch.device("cpu"))
    assert f"d = 96 against 2·g·dh = {2 * kv_heads * 16}" in said
    kept = {each: Policy(name="bsr", form=each) for each in ("kv", "x")}
    sizes = {each: policy.bytes_for(config, 8192, torch.bfloat16) for each, policy in kept.items()}
    assert (sizes["x"] < sizes["kv"]) == (2 * kv_heads * 16 > 96)


def test_on_a_cpu_placement_is_said_to_change_nothing() -> None:
    """There is one memory; the log does not pretend otherwise."""
    config = ModelConfig("llama", 2, 96, 4, 2, 16, 96, 64, 1024, 1e-5, 1e4)
    said = Policy(name="bsr", place="host").describe(config, torch.device("cpu"))
    assert "changes nothing" in said
    assert "pinned" in Policy(name="bsr", place="host").describe(config, torch.device("cuda"))


def test_landmarks_of_equal_keys_tell_the_exact_mass() -> None:
    """Where the keys of a span do not differ, the estimate is no guess; the larger mass is chosen first."""
    keys = random(1, 1, 1, 16, seed=0).expand(1, 1, BLOCK, 16)
    q = random(1, 3, 16, seed=1)
    drawn = (q.mean(1) @ keys[0, 0, 0]).item()
    marks = [Landmarks.of(keys * sign) for sign in (1.0, -1.0)]
    assert choose(q.mean(1, keepdim=True), torch.full((1, 1), -torch.inf), marks, 0, 1) == [
        0 if drawn > 0 else 1
    ]
    assert marks[0].nbytes == 2 * 2 * 16


@pytest.mark.parametrize("seed", range(3))
def test_the_block_that_answers_is_chosen(seed: int) -> None:
    """Of eight blocks of noise, the one that holds keys along the query is among the two chosen."""
    q = random(2, 3, 16, seed=seed)
    blocks = [random(1, 2, BLOCK, 16, seed=100 * seed + n) for n in range(8)]
    blocks[5][0, :, 7] = 4 * q.mean(1)
    marks = [Landmarks.of(block) for block in blocks]
    chosen = choose(q, torch.zeros(2, 3), marks, 0, 2)
    assert 5 in chosen
    assert chosen == sorted(chosen)
    assert choose(q, torch.zeros(2, 3), marks, 0, 8) == list(range(8))


def test_the_reported_share_is_the_true_one(model: Model) -> None:
    """Against the exact softmax over everything: what reading one block of two covered, in one layer."""
    ids = torch.randint(3, tiny_models.VOCAB, (251,), generator=torch.Generator().manual_seed(1))
    exact, tally = Tally(), Tally()
    with torch.inference_mode():
        everything = Policy(name="top-blocks", block=BLOCK, resident=1, bits=16, most=9).new(model, 256, exact)
        few = Policy(name="top-blocks", block=BLOCK, resident=1, bits=16, most=1).new(model, 256, tally)
        for memory in (everything, few):
            for start in range(0, 250, 32):
                model.chunk(ids[start : min(start + 32, 250)], memory)
        assert exact.share == pytest.approx(1.0)
        assert exact.skipped == 0
        before, watched = tally.covered, tally.watched
        seen: list[torch.Tensor] = []
        whole = everything.one

        def listen(
            layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, x: torch.Tensor
        ) -> torch.Tensor:
            if layer == 250 % model.config.layers:
                keys = [everything._k[layer, :, : everything._dense], k[:, None]]  # type: ignore[attr-defined]
                parts = everything._sealed.parts(layer, [0, 1])  # type: ignore[attr-defined]
                keys += [part.rebuild(model, layer)[0] for part in parts]
                scores = torch.einsum("hgd,htd->hgt", q.view(2, 2, 16), torch.cat(keys, 1)) / 4
                seen.append(scores.softmax(-1))
            return whole(layer, q, k, v, x)

        everything.one = listen  # type: ignore[method-assign]
        model.tokens([5], [everything])
        model.tokens([5], [few])
    dense = 250 - 2 * BLOCK
    mass = seen[0]
    parts = [mass[..., dense + 1 + BLOCK * n : dense + 1 + BLOCK * (n + 1)].sum(-1) for n in range(2)]
    missed = min(parts, key=lambda part: float(part.sum()))
    got = (tally.covered - before) / (tally.watched - watched)
    assert got == pytest.approx(float(1 - missed.mean()), abs=0.02)
    assert tally.skipped > 0


def test_blocks_fetched_ahead_are_the_same_blocks(model: Model) -> None:
    """The path that reads host memory a layer ahead gives what lies there, for any order of places."""
    keys = [random(2, 2, BLOCK, 16, seed=n) for n in range(4)]
    here, away = Shelf(model.device, 2), Shelf(model.device, 2, host=True)
    away._fetches = True  # as on a device with memory of its own
    for n, key in enumerate(keys):
        for shelf in (here, away):
            shelf.add(seal(model, BLOCK * n, key, key, 8))
    for layer, places in [(0, [0, 1]), (1, [1, 2]), (0, [3]), (1, []), (0, [0, 3]), (0, [2])]:
        for one, other in zip(here.parts(layer, places), away.parts(layer, places), strict=True):
            assert all(map(torch.equal, one.rebuild(model, layer), other.rebuild(model, layer)))
    assert here.nbytes == away.nbytes == sum(block.nbytes for block in here._blocks)


def test_the_next_layers_blocks_are_sent_for_before_they_are_asked(model: Model) -> None:
    """In the order of a step each layer is copied while the one before it is read, and never twice."""
    away = Shelf(model.device, 3, host=True)
    away._fetches = True  # as on a device with memory of its own
    for n in range(2):
        key = random(3, 2, BLOCK, 16, seed=n)
        away.add(seal(model, BLOCK * n, key, key, 8))
    sent: list[tuple[int, list[int]]] = []
    send = away._send

    def listen(layer: int, places: list[int]) -> object:
        sent.append((layer, list(places)))
        return send(layer, places)

    away._send = listen  # type: ignore[method-assign,assignment]
    for layer in (0, 1, 2, 0):
        assert len(list(away.parts(layer, [0, 1]))) == 2
        assert away._coming[0] == (layer + 1) % 3
    copied = [(layer, place) for layer, places in sent for place in places]
    assert copied == [(layer, place) for layer in (0, 1, 2, 0, 1) for place in (0, 1)]


async def test_metrics_tell_resident_from_stored_and_what_was_covered(model: Model) -> None:
    """While a sequence runs and after: bytes of both kinds, blocks rematerialised and skipped, mass covered."""
    info = ModelInfo("tiny", 256, model.config.vocab, "cpu", "float32", 0)
    policy = Policy(name="top-blocks", block=BLOCK, resident=1, most=1)
    engine = LocalEngine(
        model, info, frozenset({1}), EngineOptions(context=256, chunk=32, policy=policy, prefix_bytes=0)
    )
    try:
        ids = torch.randint(3, tiny_models.VOCAB, (230,), generator=torch.Generator().manual_seed(1)).tolist()
        stored = 0.0
        async for _ in engine.generate(ids, SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)):
            stored = max(stored, engine.stats()["stored_bytes"])
        stats = engine.stats()
        assert stored > 0
        assert stats["blocks_rematerialised_total"] > stats["blocks_skipped_total"] > 0
        share = stats["attention_mass_covered_sum"] / stats["attention_mass_covered_count"]
        assert 0 < share < 1
        assert math.isfinite(share)
    finally:
        engine.close()
