"""/v1/chat/completions: the answer as OpenAI's clients read it, whole and streamed."""

from __future__ import annotations

import pytest
from bunny_engine.server import Settings
from http_harness import ask, events, saying, text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_engine import BpeTokenizer, ScriptedEngine

CHAT = "/v1/chat/completions"
MIXED = "The 长城 😀 dog"


async def test_a_whole_answer() -> None:
    """Every field that clients read is there, with true counts."""
    engine, tokenizer = saying("The dog"), BpeTokenizer()
    answer = (await ask(engine, CHAT, {})).json()
    prompt, tokens = len(engine.asked[0][0]), len(tokenizer.encode("The dog")) + 1
    assert answer["id"].startswith("chatcmpl-")
    assert (answer["object"], answer["model"]) == ("chat.completion", "tiny")
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "The dog", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": tokens,
        "total_tokens": prompt + tokens,
        "prompt_tokens_details": {"cached_tokens": prompt // 2},
    }
    assert "timings" not in answer


async def test_the_stream_is_exact() -> None:
    """Role alone first, one id throughout, no content with the finish reason, usage with no choices, [DONE]."""
    body = {"stream": True, "stream_options": {"include_usage": True}}
    first, *middle, last, usage = events(await ask(saying("The dog"), CHAT, body))
    assert first["choices"] == [
        {"index": 0, "delta": {"role": "assistant"}, "logprobs": None, "finish_reason": None}
    ]
    assert all(chunk["choices"][0]["delta"]["content"] for chunk in middle)
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in middle)
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(BpeTokenizer().encode("The dog")) + 1
    everything = [first, *middle, last, usage]
    assert len({chunk["id"] for chunk in everything}) == 1
    assert {chunk["object"] for chunk in everything} == {"chat.completion.chunk"}
    assert all(chunk["usage"] is None for chunk in everything[:-1])
    assert text_of(everything) == "The dog"


async def test_no_usage_chunk_unless_asked() -> None:
    """Without include_usage there is neither a usage chunk nor a usage field."""
    chunks = events(await ask(saying("The dog"), CHAT, {"stream": True}))
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    text=st.text(max_size=12),
    stop=st.lists(st.sampled_from(["a", "ab", "城", "\n", "oo"]), max_size=3),
    most=st.integers(1, 30),
    logprobs=st.booleans(),
)
async def test_streamed_equals_whole(text: str, stop: list[str], most: int, logprobs: bool) -> None:
    """Text, entries, usage and finish reason are the same streamed and whole, for any text and stop strings."""
    engine = saying(text)
    body = {"stop": stop, "max_tokens": most, "logprobs": logprobs, **({"top_logprobs": 2} if logprobs else {})}
    whole = (await ask(engine, CHAT, body)).json()
    chunks = events(
        await ask(engine, CHAT, {**body, "stream": True, "stream_options": {"include_usage": True}})
    )
    [choice] = whole["choices"]
    assert text_of(chunks) == choice["message"]["content"]
    assert chunks[-1]["usage"] == whole["usage"]
    assert chunks[-2]["choices"][0]["finish_reason"] == choice["finish_reason"]
    said = [c["logprobs"]["content"] for chunk in chunks for c in chunk["choices"] if c["logprobs"]]
    entries = [entry for content in said for entry in content]
    assert entries == (choice["logprobs"]["content"] if logprobs else [])
    assert engine.open == 0


async def test_split_characters_never_show() -> None:
    """No chunk holds a broken character, though tokens cut characters; every token's entry still comes."""
    tokenizer = BpeTokenizer()
    ids = tokenizer.encode("😀é长")
    assert any(tokenizer.token_bytes(i) != b"" and not _whole(tokenizer.token_bytes(i)) for i in ids)
    body = {"stream": True, "logprobs": True, "top_logprobs": 0}
    chunks = events(await ask(saying("😀é长"), CHAT, body))
    pieces = [c["delta"].get("content", "") for chunk in chunks for c in chunk["choices"]]
    assert set("".join(pieces)) == set("😀é长")
    entries = [
        entry
        for chunk in chunks
        for c in chunk["choices"]
        if c["logprobs"]
        for entry in c["logprobs"]["content"]
    ]
    assert len(entries) == len(ids) + 1  # and the end token
    assert bytes(byte for entry in entries for byte in entry["bytes"]).decode() == "😀é长"
    assert all("�" not in entry["token"] for entry in entries)


def _whole(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


async def test_an_answer_cut_inside_a_character_ends_before_it() -> None:
    """max_tokens in the middle of a character shows no U+FFFD; the bytes are in the entries."""
    tokenizer = BpeTokenizer()
    ids = tokenizer.encode("a😀")
    for most in range(1, len(ids)):
        body = {"max_tokens": most, "logprobs": True}
        [choice] = (await ask(saying("a😀"), CHAT, body)).json()["choices"]
        assert choice["message"]["content"] == "a"
        assert choice["finish_reason"] == "length"
        raw = bytes(byte for entry in choice["logprobs"]["content"] for byte in entry["bytes"])
        assert raw == b"".join(map(tokenizer.token_bytes, ids[:most]))


async def test_top_logprobs_are_alternatives_of_one_place() -> None:
    """Each entry has its own alternatives, best first, and the token's value equals its alternative exactly."""
    engine = saying("The dog")
    [choice] = (await ask(engine, CHAT, {"logprobs": True, "top_logprobs": 20})).json()["choices"]
    for entry in choice["logprobs"]["content"]:
        values = [other["logprob"] for other in entry["top_logprobs"]]
        assert len(values) == 20
        assert values == sorted(values, reverse=True)
        assert all(
            entry["logprob"] == o["logprob"] for o in entry["top_logprobs"] if o["token"] == entry["token"]
        )
        assert len({tuple(o["bytes"]) or o["token"] for o in entry["top_logprobs"]}) == 20


async def test_zero_alternatives_are_an_empty_list() -> None:
    """top_logprobs: 0 gives [], and logprobs without top_logprobs likewise."""
    for body in ({"logprobs": True, "top_logprobs": 0}, {"logprobs": True}):
        [choice] = (await ask(saying("dog"), CHAT, body)).json()["choices"]
        assert [entry["top_logprobs"] for entry in choice["logprobs"]["content"]] == [[]] * len(
            choice["logprobs"]["content"]
        )


async def test_entries_count_as_usage_does() -> None:
    """One entry a generated token, the end token's among them: no bytes, and its marker as name."""
    answer = (await ask(saying("dog"), CHAT, {"logprobs": True})).json()
    entries = answer["choices"][0]["logprobs"]["content"]
    assert len(entries) == answer["usage"]["completion_tokens"]
    assert (entries[-1]["token"], entries[-1]["bytes"]) == ("<|im_end|>", [])


@pytest.mark.parametrize(
    ("stop", "shown"),
    [("dog", "The "), (["zzz", " d"], "The"), (["The"], ""), ("zzz", "The dog"), (["dogs", "gg"], "The dog")],
)
async def test_stop_strings_are_not_shown(stop: object, shown: str) -> None:
    """The text ends before the stop string, streamed too, and the engine's slot is free again."""
    engine = saying("The dog")
    [choice] = (await ask(engine, CHAT, {"stop": stop})).json()["choices"]
    chunks = events(await ask(engine, CHAT, {"stop": stop, "stream": True}))
    assert choice["message"]["content"] == text_of(chunks) == shown
    assert choice["finish_reason"] == chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert engine.open == 0


async def test_a_stop_string_ends_the_engines_work() -> None:
    """After the stop string no further token is drawn."""
    engine = saying("ab" * 50)
    await ask(engine, CHAT, {"stop": "b"})
    assert engine.given < 5


async def test_n_choices_have_generators_of_their_own() -> None:
    """n > 1 is flattened by index, streamed too, each with seed + index; the prompt is counted once."""
    tokenizer = BpeTokenizer()
    engine = ScriptedEngine(tokenizer, lambda prompt, params: [*tokenizer.encode(f"{params.seed}"), 2])
    answer = (await ask(engine, CHAT, {"n": 3, "seed": 41})).json()
    assert [(c["index"], c["message"]["content"]) for c in answer["choices"]] == [
        (0, "41"),
        (1, "42"),
        (2, "43"),
    ]
    assert answer["usage"]["prompt_tokens"] == len(engine.asked[0][0])
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == len(engine.asked[0][0]) // 2
    assert answer["usage"]["completion_tokens"] == 9
    chunks = events(await ask(engine, CHAT, {"n": 3, "seed": 41, "stream": True}))
    assert [text_of(chunks, index) for index in range(3)] == ["41", "42", "43"]
    for index in range(3):
        own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert own[0]["delta"] == {"role": "assistant"}
        assert own[-1]["finish_reason"] == "stop"


async def test_no_seed_stays_no_seed() -> None:
    """A request without a seed never gets one, and one with a seed keeps it beside it."""
    engine = saying("dog")
    await ask(engine, CHAT, {"n": 2})
    await ask(engine, CHAT, {"seed": 7})
    await ask(engine, CHAT, {"seed": -1})
    assert [params.seed for _, params in engine.asked] == [None, None, 7, 2**63 - 1]


async def test_the_answers_room() -> None:
    """No max_tokens: the rest of the context, or the operator's default; both spellings set it."""
    engine = saying("dog", context=100)
    await ask(engine, CHAT, {})
    prompt = len(engine.asked[0][0])
    await ask(engine, CHAT, {"max_tokens": 5})
    await ask(engine, CHAT, {"max_completion_tokens": 6})
    await ask(engine, CHAT, {"max_tokens": 7, "max_completion_tokens": 7})
    await ask(engine, CHAT, {}, settings=Settings(chat_max_tokens=9))
    assert [params.max_tokens for _, params in engine.asked] == [100 - prompt, 5, 6, 7, 9]


async def test_timings_only_when_asked() -> None:
    """`timings: true` adds what the engine and the clock say, whole and streamed."""
    body = {"timings": True}
    timings = (await ask(saying("dog"), CHAT, body)).json()["timings"]
    assert timings["queued_s"] == 0.25
    assert timings["prefill_s"] == 0.5
    assert 0 <= timings["first_token_s"] <= timings["total_s"]
    chunks = events(await ask(saying("dog"), CHAT, {**body, "stream": True}))
    assert chunks[-1]["choices"] == []
    assert set(chunks[-1]["timings"]) == set(timings)
    assert "usage" not in chunks[-1]


async def test_parameters_reach_the_engine() -> None:
    """What the client sets is what the engine is asked for."""
    engine = saying("dog")
    body = {
        "temperature": 0,
        "top_p": 0.5,
        "frequency_penalty": -1,
        "presence_penalty": 1.5,
        "repetition_penalty": 1.1,
        "ignore_eos": True,
        "logprobs": True,
        "top_logprobs": 4,
        "max_tokens": 3,
    }
    await ask(engine, CHAT, body)
    [(_, params)] = engine.asked
    assert (params.temperature, params.top_p, params.repetition_penalty) == (0.0, 0.5, 1.1)
    assert (params.frequency_penalty, params.presence_penalty) == (-1.0, 1.5)
    assert (params.ignore_eos, params.top_logprobs, params.max_tokens) == (True, 4, 3)
    assert not params.prompt_logprobs
    await ask(engine, CHAT, {})
    assert (engine.asked[1][1].temperature, engine.asked[1][1].top_logprobs) == (1.0, None)
    await ask(engine, CHAT, {"top_p": 0})
    assert 0 < engine.asked[2][1].top_p < 1e-3  # the likeliest token alone, and no engine divides by it
