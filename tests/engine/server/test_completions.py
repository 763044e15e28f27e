"""/v1/completions: prompts of four kinds, echo, and log-probabilities that harnesses compute with."""

from __future__ import annotations

from typing import Any

import pytest
from http_harness import ask, events, saying, text_of
from scripted_engine import BpeTokenizer, ScriptedEngine

PATH = "/v1/completions"


async def test_a_whole_answer() -> None:
    """Every field that clients read is there."""
    answer = (await ask(saying("The dog"), PATH, {})).json()
    assert answer["id"].startswith("cmpl-")
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "The dog", "logprobs": None, "finish_reason": "stop"}]


async def test_the_stream_is_exact() -> None:
    """Text in chunks, the finish reason with none, usage with no choices."""
    body = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last, usage = events(await ask(saying("The dog"), PATH, body))
    assert text_of(chunks) == "The dog"
    assert last["choices"] == [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]
    assert usage["choices"] == []
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert len({chunk["id"] for chunk in [*chunks, last, usage]}) == 1


@pytest.mark.parametrize(
    ("prompt", "count"), [("dog", 1), (["dog", "fox"], 2), ([5, 6, 7], 1), ([[5, 6], [7]], 2), (["dog"], 1)]
)
async def test_the_four_kinds_of_prompt(prompt: Any, count: int) -> None:
    """A string, strings, ids, lists of ids; n choices for each, indexed prompt by prompt."""
    tokenizer = BpeTokenizer()
    engine = ScriptedEngine(tokenizer, lambda ids, params: [*tokenizer.encode(f"{len(ids)}"), 2])
    answer = (await ask(engine, PATH, {"prompt": prompt, "n": 2})).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(2 * count))
    asked = {ids for ids, _ in engine.asked}
    rows = prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]
    expected = [row if isinstance(row, list) else tokenizer.encode(row) for row in rows]
    assert asked == set(map(tuple, expected))
    assert [c["text"] for c in answer["choices"]] == [str(len(ids)) for ids in expected for _ in range(2)]
    assert answer["usage"]["prompt_tokens"] == sum(map(len, expected))


async def test_an_answer_does_not_depend_on_company() -> None:
    """A prompt gets the same seed alone and as the second of a list."""
    engine = saying("dog")
    await ask(engine, PATH, {"prompt": "fox", "seed": 5})
    await ask(engine, PATH, {"prompt": ["cat", "fox"], "seed": 5})
    fox = [params.seed for ids, params in engine.asked if ids == engine.asked[0][0]]
    assert fox == [5, 5]


async def test_sixteen_tokens_unless_told() -> None:
    """OpenAI's documented default; never past the context."""
    engine = saying("dog", context=40)
    await ask(engine, PATH, {"prompt": [5] * 10})
    await ask(engine, PATH, {"prompt": [5] * 30})
    assert [params.max_tokens for _, params in engine.asked] == [16, 10]


def likelihoods(engine: ScriptedEngine, ids: list[int]) -> list[float | None]:
    return [None, *(float(engine.distribution(tuple(ids[:i]))[ids[i]]) for i in range(1, len(ids)))]


@pytest.mark.parametrize("most", [0, 1])
async def test_a_harness_scores_a_continuation(most: int) -> None:
    """lm-eval's request: each prompt token's true log-probability, the first null, greediness by `==`."""
    tokenizer = BpeTokenizer()
    engine = saying("dog", end=False)
    best = tokenizer.encode("The capital")
    for _ in range(4):
        values = engine.distribution(tuple(best))
        best.append(int(values[: tokenizer.size].argmax()))
    body = {"prompt": best, "echo": True, "max_tokens": most, "logprobs": 1, "temperature": 0}
    [choice] = (await ask(engine, PATH, body)).json()["choices"]
    lists = choice["logprobs"]
    assert {len(column) for column in lists.values()} == {len(best) + most}
    assert lists["token_logprobs"][: len(best)] == likelihoods(engine, best)
    assert lists["top_logprobs"][0] is None
    for value, table in zip(lists["token_logprobs"][1 : len(best)], lists["top_logprobs"][1:], strict=False):
        greedy = value == max(table.values())
        assert greedy == (len(table) == 1)
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize("prompt", ["The 长城 😀 dog", "<|im_start|>user\nHi<|im_end|>", "<|endoftext|>dog"])
@pytest.mark.parametrize("bos", [(), ("<|endoftext|>",)])
async def test_text_offsets_point_into_the_text(prompt: str, bos: tuple[str, ...]) -> None:
    """Each offset is the character where the token begins, in prompt and answer, with BOS and markers too."""
    tokenizer = BpeTokenizer(prefix=bos)
    engine = saying("café 长 ok", tokenizer=tokenizer)
    body = {"prompt": prompt, "echo": True, "max_tokens": 40, "logprobs": 0}
    [choice] = (await ask(engine, PATH, body, tokenizer=tokenizer)).json()["choices"]
    assert choice["text"] == prompt + "café 长 ok"
    offsets, names = choice["logprobs"]["text_offset"], choice["logprobs"]["tokens"]
    assert offsets == sorted(offsets)
    for offset, name, after in zip(offsets, names, [*offsets[1:], len(choice["text"])], strict=True):
        if name.startswith("bytes:"):
            continue
        if after > offset:
            assert choice["text"][offset:].startswith(name)
        else:  # an end token, or the BOS that the server put there
            assert name in tokenizer.special_tokens
    tokens = [name for name in names if not name.startswith("bytes:")]
    assert len(tokens) < len(names)


async def test_offsets_of_streamed_chunks_go_on() -> None:
    """Streamed lists put together are the whole answer's, echo included."""
    body = {"prompt": "The 长城", "echo": True, "logprobs": 2, "max_tokens": 9}
    whole = (await ask(saying("café 😀"), PATH, body)).json()["choices"][0]
    chunks = events(await ask(saying("café 😀"), PATH, {**body, "stream": True}))
    joined: dict[str, list[Any]] = {key: [] for key in whole["logprobs"]}
    for chunk in chunks:
        for key, values in (chunk["choices"][0]["logprobs"] or {}).items():
            joined[key] += values
    assert joined == whole["logprobs"]
    assert text_of(chunks) == whole["text"]
    assert chunks[0]["choices"][0]["text"] == "The 长城"


async def test_zero_logprobs_means_on() -> None:
    """logprobs: 0 gives each token's own value; alternatives come beside it, and itself always."""
    [off] = (await ask(saying("dog"), PATH, {})).json()["choices"]
    [zero] = (await ask(saying("dog"), PATH, {"logprobs": 0})).json()["choices"]
    [three] = (await ask(saying("dog"), PATH, {"logprobs": 3})).json()["choices"]
    assert off["logprobs"] is None
    for name, value, alone, table in zip(
        zero["logprobs"]["tokens"],
        zero["logprobs"]["token_logprobs"],
        zero["logprobs"]["top_logprobs"],
        three["logprobs"]["top_logprobs"],
        strict=True,
    ):
        assert alone == {name: value}
        assert table[name] == value
        assert len(table) in (3, 4)


async def test_echo_of_ids_spells_the_prompt() -> None:
    """A prompt given as ids is echoed as its text, control tokens by their markers."""
    tokenizer = BpeTokenizer()
    ids = [1, *tokenizer.encode("长 dog"), 2]
    [choice] = (await ask(saying("ok"), PATH, {"prompt": ids, "echo": True, "max_tokens": 0})).json()["choices"]
    assert choice["text"] == "<|im_start|>长 dog<|im_end|>"
    assert choice["logprobs"] is None


async def test_no_echo_and_no_tokens() -> None:
    """max_tokens: 0 without echo is an empty answer, not an error, and costs no completion token."""
    answer = (await ask(saying("dog"), PATH, {"max_tokens": 0})).json()
    assert answer["choices"][0]["text"] == ""
    assert answer["usage"]["completion_tokens"] == 0


async def test_prompt_scores_are_asked_for_only_with_echo() -> None:
    """Scoring a prompt costs: it is asked of the engine only where it is shown."""
    engine = saying("dog")
    await ask(engine, PATH, {"logprobs": 1})
    await ask(engine, PATH, {"echo": True})
    await ask(engine, PATH, {"echo": True, "logprobs": 1})
    assert [params.prompt_logprobs for _, params in engine.asked] == [False, False, True]
