"""The running engine: batching, reuse, cancellation, admission; on a tiny model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
import tiny_models
import torch
from bunny_engine.engine import EngineOptions, LocalEngine
from bunny_engine.fetch import Source
from bunny_engine.loading import open_model
from bunny_engine.memory import DenseMemory
from bunny_engine.model import Model
from bunny_engine.types import EngineBusy, ModelInfo, PromptStart, SamplingParams, TokenStep

CONTEXT, CHUNK = 256, 16
GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True, top_logprobs=3)


@pytest.fixture(scope="module")
def model(tiny: tiny_models.TinyModel, tmp_path_factory: pytest.TempPathFactory) -> Model:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return open_model(Source("tiny", tiny.gguf, "gguf"), device="cpu", dtype="float32")[0]


def start(model: Model, **options: Any) -> LocalEngine:
    info = ModelInfo("tiny", CONTEXT, model.config.vocab, "cpu", "float32", 0)
    sizes = {"context": CONTEXT, "chunk": CHUNK, "step_tokens": CHUNK, **options}
    return LocalEngine(model, info, frozenset({1}), EngineOptions(**sizes))


@pytest.fixture
def engine(model: Model) -> Iterator[LocalEngine]:
    running = start(model)
    yield running
    running.close()


def prompt(count: int, seed: int) -> list[int]:
    return torch.randint(3, tiny_models.VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


async def answer(
    engine: LocalEngine, ids: Sequence[int], params: SamplingParams = GREEDY
) -> tuple[PromptStart, list[TokenStep]]:
    items = [item async for item in engine.generate(ids, params)]
    first, steps = items[0], items[1:]
    assert isinstance(first, PromptStart)
    assert all(isinstance(step, TokenStep) for step in steps)
    return first, steps  # type: ignore[return-value]


def greedy_reference(reference: Any, ids: list[int], count: int) -> list[int]:
    ids = list(ids)
    with torch.inference_mode():
        for _ in range(count):
            ids.append(int(reference(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-count:]


async def settled(engine: LocalEngine) -> dict[str, float]:
    """The stats once nothing runs any more."""
    for _ in range(500):
        stats = engine.stats()
        if stats["running"] == stats["waiting"] == 0:
            return stats
        await asyncio.sleep(0.01)
    raise AssertionError(f"the engine never came to rest: {engine.stats()}")


async def test_greedy_text_is_that_of_transformers(engine: LocalEngine, tiny: tiny_models.TinyModel) -> None:
    """Twelve tokens after a prompt of several chunks: transformers' own greedy continuation."""
    ids = prompt(50, 1)
    first, steps = await answer(engine, ids)
    assert [step.token_id for step in steps] == greedy_reference(tiny.reference, ids, 12)
    assert (first.prompt_tokens, first.cached_tokens) == (50, 0)
    assert [step.finish for step in steps] == [None] * 11 + ["length"]


async def test_answers_do_not_depend_on_batch_mates(engine: LocalEngine) -> None:
    """Alone, among others, and among others with the prompt cached: the same tokens and the same bits."""
    ids = prompt(45, 2)
    _, alone = await answer(engine, ids)
    mates = [answer(engine, prompt(5 + 9 * seed, seed)) for seed in range(10, 19)]
    crowd = await asyncio.gather(*mates[:4], answer(engine, ids), *mates[4:], answer(engine, ids))
    assert crowd[4][1] == alone
    assert crowd[-1][1] == alone
    assert crowd[-1][0].cached_tokens == 32


async def test_a_prefix_is_reused_and_one_token_is_left(engine: LocalEngine) -> None:
    """Full chunks asked again: all but the last one is reused, and the answer has the same bits."""
    ids = prompt(4 * CHUNK, 3)
    first, fresh = await answer(engine, ids)
    second, again = await answer(engine, ids)
    assert (first.cached_tokens, second.cached_tokens) == (0, 3 * CHUNK)
    assert fresh == again


async def test_a_prefix_is_never_taken_from_another_content(engine: LocalEngine) -> None:
    """One other token at the start, and nothing after it is reused."""
    ids = prompt(40, 4)
    await answer(engine, ids)
    other, _ = await answer(engine, [ids[0] ^ 1, *ids[1:]])
    assert other.cached_tokens == 0
    half, _ = await answer(engine, [*ids[:20], *prompt(20, 5)])
    assert half.cached_tokens == 16


async def test_prompt_logprobs_are_right_under_reuse(engine: LocalEngine, tiny: tiny_models.TinyModel) -> None:
    """Scores of a prompt whose prefix is cached are transformers', position by position."""
    ids = prompt(40, 6)
    await answer(engine, ids)
    params = SamplingParams(
        max_tokens=1, temperature=0.0, top_logprobs=2, prompt_logprobs=True, ignore_eos=True
    )
    first, steps = await answer(engine, ids, params)
    with torch.inference_mode():
        want = tiny.reference(torch.tensor([ids])).logits[0].log_softmax(-1)
    assert first.prompt_logprobs[0] is None
    assert len(first.prompt_logprobs) == len(ids)
    for at, scored in enumerate(first.prompt_logprobs[1:], start=1):
        assert scored is not None
        assert scored[0] == pytest.approx(float(want[at - 1, ids[at]]), abs=1e-4)
        best = want[at - 1].topk(2)
        assert [token for token, _ in scored[1]] == best.indices.tolist()
    assert steps[0].logprob == pytest.approx(float(want[-1].max()), abs=1e-4)
    alone, none = await answer(engine, ids, SamplingParams(max_tokens=0, prompt_logprobs=True))
    assert none == []
    assert alone.prompt_logprobs[5] is not None
    assert alone.prompt_logprobs[5][0] == first.prompt_logprobs[5][0]  # type: ignore[index]


async def test_a_seed_gives_the_same_text_beside_unseeded_neighbours(engine: LocalEngine) -> None:
    """Seeded draws repeat whatever runs beside them; other seeds and no seed give other texts."""
    ids = prompt(20, 7)
    seeded = SamplingParams(max_tokens=16, temperature=1.0, seed=11, ignore_eos=True)
    loose = SamplingParams(max_tokens=16, temperature=1.0, ignore_eos=True)
    _, alone = await answer(engine, ids, seeded)
    crowd = await asyncio.gather(*(answer(engine, ids, loose) for _ in range(5)), answer(engine, ids, seeded))
    assert crowd[-1][1] == alone
    texts = {tuple(step.token_id for step in steps) for _, steps in crowd}
    assert len(texts) == 6


async def test_an_end_token_stops_unless_told_otherwise(model: Model) -> None:
    """The end token is the last step with finish "stop"; with ignore_eos it is a token like any other."""
    running = start(model)
    try:
        ids = prompt(12, 8)
        _, steps = await answer(running, ids)
        end = steps[4].token_id
        running._scheduler._eos = frozenset({end})
        at = [step.token_id for step in steps].index(end)
        _, stopped = await answer(running, ids, SamplingParams(max_tokens=12, temperature=0.0))
        assert [step.token_id for step in stopped] == [step.token_id for step in steps[: at + 1]]
        assert stopped[-1].finish == "stop"
        _, on = await answer(running, ids)
        assert on == steps
    finally:
        running.close()


async def test_closing_frees_slot_and_memory(engine: LocalEngine) -> None:
    """Iterators closed before, during and after the prompt leave nothing running."""
    long = SamplingParams(max_tokens=180, temperature=0.0, ignore_eos=True)
    for pulled in (0, 1, 3):
        stream: Any = engine.generate(prompt(60, 20 + pulled), long)
        async with aclosing(stream):
            for _ in range(pulled):
                await anext(stream)
    tasks = [asyncio.create_task(answer(engine, prompt(60, 30 + n), long)) for n in range(6)]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    stats = await settled(engine)
    assert stats["resident_bytes"] == 0
    _, steps = await answer(engine, prompt(30, 40))
    assert len(steps) == 12


async def test_a_full_queue_is_told_with_a_time(model: Model) -> None:
    """Past slots and queue a request is refused with a time to wait; the accepted ones are answered."""
    running = start(model, slots=2, queue=1)
    try:
        tasks = [asyncio.create_task(answer(running, prompt(40, seed))) for seed in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(EngineBusy) as busy:
            await answer(running, prompt(5, 9))
        assert busy.value.retry_after >= 1
        done = await asyncio.gather(*tasks)
        assert [len(steps) for _, steps in done] == [12, 12, 12]
        assert len((await answer(running, prompt(5, 9)))[1]) == 12
    finally:
        running.close()


async def test_a_short_prompt_does_not_wait_for_a_long_one(engine: LocalEngine) -> None:
    """A long prompt is read in chunks: a short request that came later is answered first."""
    order: list[str] = []

    async def noted(name: str, ids: list[int]) -> None:
        await answer(engine, ids, SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True))
        order.append(name)

    await asyncio.gather(noted("long", prompt(240, 50)), noted("short", prompt(4, 51)))
    assert order == ["short", "long"]


async def test_more_than_the_memory_holds_waits_its_turn(model: Model) -> None:
    """Requests whose keys and values do not fit together run one after another, all to the end."""
    running = start(model, memory_bytes=1)
    try:
        params = SamplingParams(max_tokens=100, temperature=0.0, ignore_eos=True)
        done = await asyncio.gather(*(answer(running, prompt(140, seed), params) for seed in range(3)))
        assert [len(steps) for _, steps in done] == [100, 100, 100]
    finally:
        running.close()


async def test_the_prefix_cache_stays_within_its_bytes(model: Model) -> None:
    """Many distinct prompts: the oldest spans go, the bytes never pass the limit."""
    span = 2 * model.config.layers * model.config.kv_rows * CHUNK * 4
    running = start(model, prefix_bytes=5 * span)
    try:
        for seed in range(6):
            await answer(running, prompt(50, 60 + seed))
            assert running.stats()["prefix_bytes"] <= 5 * span
        again, _ = await answer(running, prompt(50, 65))
        gone, _ = await answer(running, prompt(50, 60))
        assert (again.cached_tokens, gone.cached_tokens) == (48, 0)
    finally:
        running.close()


async def test_impossible_prompts_are_refused(engine: LocalEngine) -> None:
    """Empty, too long, or not of the vocabulary: ValueError before anything runs."""
    for ids in ([], [5] * CONTEXT, [tiny_models.VOCAB], [-1]):
        with pytest.raises(ValueError, match=r"token|context"):
            await answer(engine, ids)


async def test_the_last_token_of_the_context_can_be_used(engine: LocalEngine) -> None:
    """Prompt and answer fill the context to the last token, and the finish says length."""
    _, steps = await answer(engine, prompt(CONTEXT - 3, 70), SamplingParams(max_tokens=50, ignore_eos=True))
    assert len(steps) == 3
    assert steps[-1].finish == "length"


async def test_closing_the_engine_ends_what_runs(model: Model) -> None:
    """Requests in flight fail at once, later ones too; the thread is gone."""
    running = start(model)

    async def endless() -> AsyncIterator[object]:
        async for item in running.generate(prompt(20, 80), SamplingParams(max_tokens=200, ignore_eos=True)):
            yield item

    stream = endless()
    await anext(stream)
    await asyncio.to_thread(running.close)
    with pytest.raises(RuntimeError, match="closed"):
        async for _ in stream:
            pass
    with pytest.raises(RuntimeError, match="closed"):
        await answer(running, [3, 4])
    assert not running._thread.is_alive()


async def test_a_fault_in_one_request_leaves_the_others(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one sequence's numbers break, it alone fails; its neighbours finish, and nothing is left."""
    running = start(model)
    poison = 7
    honest = Model.logits

    def broken(self: Model, hidden: torch.Tensor) -> torch.Tensor:
        logits = honest(self, hidden)
        return logits * float("nan") if running._scheduler.reading[0].ids[0] == poison else logits

    try:
        monkeypatch.setattr(Model, "logits", broken)
        bad, good = await asyncio.gather(
            answer(running, [poison, *prompt(20, 90)]),
            answer(running, [8, *prompt(30, 91)]),
            return_exceptions=True,
        )
        assert isinstance(bad, ArithmeticError)
        assert not isinstance(good, BaseException)
        assert (await settled(running))["resident_bytes"] == 0
    finally:
        running.close()


async def test_open_ended_requests_share_memory_and_all_finish(model: Model) -> None:
    """Where two contexts have room, six requests that may fill one each run side by side, and none changes."""
    params = SamplingParams(max_tokens=CONTEXT - 30, temperature=0.0, ignore_eos=True)
    prompts = [prompt(30, 70 + seed) for seed in range(6)]
    room = DenseMemory.bytes_for(model.config, 2 * CONTEXT, model.dtype)
    running = start(model, memory_bytes=room, prefix_bytes=0)
    most, over = 0, 0

    def look(events: list[Any]) -> list[Any]:
        nonlocal most, over
        scheduler = running._scheduler
        inside = [*scheduler.reading, *scheduler.writing]
        held = sum(DenseMemory.bytes_for(model.config, r.granted, model.dtype) for r in inside)
        most, over = max(most, len(inside)), max(over, held - room)
        return events

    try:
        alone = [await answer(running, ids, params) for ids in prompts]
        step = running._scheduler.step
        running._scheduler.step = lambda: look(step())  # type: ignore[method-assign]
        together = await asyncio.gather(*(answer(running, ids, params) for ids in prompts))
        assert [steps for _, steps in together] == [steps for _, steps in alone]
        assert most >= 5
        assert over <= 0
        assert (await settled(running))["resident_bytes"] == 0
    finally:
        running.close()
