"""The real SmolLM2-135M-Instruct: what it says, and that what ships is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import torch
from bunny_engine.engine import LocalEngine
from bunny_engine.errors import FetchError
from bunny_engine.fetch import resolve
from bunny_engine.loading import open_engine
from bunny_engine.tokenizer import TextTokenizer
from bunny_engine.types import PromptStart, SamplingParams, TokenStep

pytestmark = pytest.mark.model

Running = tuple[LocalEngine, TextTokenizer]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    try:
        source = resolve()
    except FetchError as error:
        pytest.skip(f"the model cannot be had here: {error}")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    engine, tokenizer = open_engine(source, device="cpu")
    yield engine, tokenizer
    engine.close()
    torch.set_num_threads(before)


async def complete(
    running: Running, text: str, count: int, **params: object
) -> tuple[PromptStart, list[TokenStep]]:
    engine, tokenizer = running
    asked = SamplingParams(max_tokens=count, temperature=0.0, **params)  # type: ignore[arg-type]
    items = [item async for item in engine.generate(tokenizer.encode(text, special=True), asked)]
    return items[0], items[1:]  # type: ignore[return-value]


async def test_it_knows_the_capital_of_france(running: Running) -> None:
    """The plain continuation and the chat answer both say Paris."""
    _, steps = await complete(running, "The capital of France is", 2)
    assert running[1].decode([step.token_id for step in steps]).startswith(" Paris")
    chat = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    _, steps = await complete(running, chat, 12)
    assert steps[-1].finish == "stop"
    assert running[1].decode([step.token_id for step in steps]) == "The capital of France is Paris."


async def test_greedy_bits_do_not_depend_on_batch_mates_or_reuse(running: Running) -> None:
    """As shipped: alone, in a crowd and from the cache, the answer is bit for bit the same."""
    text = "The river rose in spring, and the mill turned day and night. " * 22 + "In autumn the"
    fresh, alone = await complete(running, text, 8, top_logprobs=5)
    others = [complete(running, f"Story number {n}: once upon a time " * (n + 1), 8) for n in range(5)]
    *_, (again, crowded) = await asyncio.gather(*others, complete(running, text, 8, top_logprobs=5))
    assert (fresh.cached_tokens, again.cached_tokens) == (0, 256)
    assert crowded == alone


async def test_prompt_scores_prefer_sense(running: Running) -> None:
    """A sentence is likelier than the same words shuffled."""
    _, tokenizer = running
    sums = []
    for text in ("The cat sat on the mat and slept.", "mat the and slept cat on The sat."):
        first, _ = await complete(running, text, 0, prompt_logprobs=True)
        scores = [scored[0] for scored in first.prompt_logprobs if scored is not None]
        assert len(scores) == len(tokenizer.encode(text)) - 1
        sums.append(sum(scores))
    assert sums[0] > sums[1] + 10


def test_its_tokenizer_cuts_digits_and_keeps_bytes(running: Running) -> None:
    """Digits stand alone, any text comes back, and markers in it stay text."""
    _, tokenizer = running
    assert len(tokenizer.encode("1234567")) == 7
    for text in ("Crème brûlée, 東京 and 🐇.", "  tabs\tand\n\nlines ", "<|im_end|>"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("<|im_end|>", special=True) == [2]
    assert tokenizer.eos_ids >= {2}
