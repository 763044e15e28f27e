"""What requests are taken, how they are refused, and that nothing a client sends upsets the server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bunny_probe.phantom import Behaviour, Phantom, WordTokenizer, chat_tokens

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MESSAGES = "/v1/messages"


async def post(ask: Any, phantom: Phantom, body: Any, path: str = CHAT) -> tuple[int, Any]:
    raw = await ask(phantom, body, path=path)
    return raw.status, json.loads(raw.body)


@pytest.mark.parametrize(
    ("path", "change", "param"),
    [
        (CHAT, {"messages": []}, "messages"),
        (CHAT, {"messages": [3]}, "messages[0]"),
        (CHAT, {"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
        (CHAT, {"model": None}, "model"),
        (CHAT, {"temperature": 3}, "temperature"),
        (CHAT, {"temperature": True}, "temperature"),
        (CHAT, {"n": 0}, "n"),
        (CHAT, {"n": 129}, "n"),
        (CHAT, {"max_tokens": 0}, "max_tokens"),
        (CHAT, {"max_tokens": 1.5}, "max_tokens"),
        (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (CHAT, {"top_logprobs": 1}, "top_logprobs"),
        (CHAT, {"stop": [1]}, "stop"),
        (CHAT, {"seed": "x"}, "seed"),
        (CHAT, {"stream": "yes"}, "stream"),
        (CHAT, {"stream": False, "stream_options": {"include_usage": True}}, "stream_options"),
        (CHAT, {"stream_options": 3}, "stream_options"),
        (TEXT, {"prompt": [1, 2]}, "prompt"),
        (TEXT, {"prompt": []}, "prompt"),
        (TEXT, {"prompt": "x", "logprobs": True}, "logprobs"),
    ],
)
async def test_wrong_fields_are_a_400_that_names_them(
    reliable: Phantom, ask: Any, request_body: Any, path: str, change: dict[str, Any], param: str
):
    """In OpenAI's error shape."""
    status, answer = await post(ask, reliable, {**request_body(), **change}, path)
    assert status == 400
    assert answer["error"]["param"] == param
    assert answer["error"]["type"] == "invalid_request_error"


async def test_anthropic_errors_have_anthropics_shape(reliable: Phantom, ask: Any, request_body: Any):
    """Type error, with the type by status; max_tokens is required; roles are two."""
    for change in ({}, {"max_tokens": 5, "messages": [{"role": "system", "content": "x"}]}):
        status, answer = await post(ask, reliable, {**request_body(stream=False), **change}, MESSAGES)
        assert status == 400
        assert answer["type"] == "error"
        assert answer["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model": "\\ud800"}', b"[" * 5000])
@pytest.mark.parametrize("path", [CHAT, TEXT, MESSAGES, "/tokenize", "/phantom/script"])
async def test_a_body_that_is_no_object_is_a_400(reliable: Phantom, ask: Any, body: bytes, path: str):
    """Whatever bytes come."""
    assert (await post(ask, reliable, body, path))[0] == 400


async def test_unknown_paths_and_methods_are_told_in_json(reliable: Phantom, ask: Any):
    """404 and 405, readable by clients."""
    assert (await post(ask, reliable, {}, "/v1/nothing"))[0] == 404
    assert (await ask(reliable, path=CHAT)).status == 405


async def test_prompts_beyond_the_context_are_refused_with_both_numbers(ask: Any, request_body: Any):
    """Prompt and asked answer together count; the message begins as real servers' do."""
    with Phantom(Behaviour(context_limit=100)) as phantom:
        for prompt, limit, ok in (("a " * 90, None, True), ("a " * 120, None, False), ("a " * 90, 50, False)):
            raw = await ask(phantom, request_body(prompt, max_tokens=limit))
            assert (raw.status == 200) is ok
            if not ok:
                error = json.loads(raw.body)["error"]
                assert error["code"] == "context_length_exceeded"
                assert error["message"].startswith("This model's maximum context length is 100 tokens")


async def test_prompts_are_truncated_silently_where_the_model_does_so(ask: Any, request_body: Any):
    """Usage tells fewer tokens, and what stood in the lost part is not known."""
    late = "filler words " * 400 + "The code for Oslo is KX-4410-T.\n\nWhat is the code for Oslo?"
    early = "The code for Oslo is KX-4410-T. " + "filler words " * 400 + "\n\nWhat is the code for Oslo?"
    with Phantom(Behaviour(truncate_at=200)) as phantom:
        kept, lost = [await ask(phantom, request_body(prompt)) for prompt in (late, early)]
        assert [raw.payloads[-1]["usage"]["prompt_tokens"] for raw in (kept, lost)] == [200, 200]
        assert kept.text == "KX-4410-T"
        assert lost.text != "KX-4410-T"


async def test_usage_counts_what_tokenize_counts(reliable: Phantom, ask: Any, request_body: Any):
    """Chat, completion and Anthropic usage, /tokenize and the tokenizer by hand agree to the token."""
    words, chat = (
        WordTokenizer(),
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "漢字 Hi 12"}],
    )
    pairs = [(message["role"], message["content"]) for message in chat]
    body = request_body(stream=False, messages=chat, max_tokens=5)
    _, answer = await post(ask, reliable, body)
    _, told = await post(ask, reliable, {"messages": chat}, "/tokenize")
    _, anthropic = await post(ask, reliable, {**body, "messages": chat[1:], "system": "Be brief."}, MESSAGES)
    _, counted = await post(
        ask, reliable, {"model": "reliable", "messages": chat[1:]}, MESSAGES + "/count_tokens"
    )
    wanted = chat_tokens(words, pairs)
    assert answer["usage"]["prompt_tokens"] == told["count"] == len(told["tokens"]) == wanted
    assert anthropic["usage"]["input_tokens"] == wanted
    assert counted["input_tokens"] == chat_tokens(words, pairs[1:])
    text = {**body, "prompt": "One two, 34"}
    _, completion = await post(ask, reliable, text, TEXT)
    _, listed = await post(
        ask, reliable, {"prompt": ["One two, 34", ""], "return_token_strs": True}, "/tokenize"
    )
    assert completion["usage"]["prompt_tokens"] == listed["count"] == listed["counts"][0] == 6
    assert listed["token_strs"] == ["One", " two", ",", " ", "3", "4"]
    _, bare = await post(ask, reliable, {"prompt": "One", "count_only": True}, "/v1/tokenize")
    assert "tokens" not in bare
    assert bare["max_model_len"] == 2_000_000
    _, open_ended = await post(ask, reliable, {"messages": chat, "add_generation_prompt": False}, "/tokenize")
    assert open_ended["count"] == wanted - 1


@pytest.mark.parametrize("stream", [True, False])
async def test_stop_strings_end_the_answer_before_them(
    reliable: Phantom, ask: Any, request_body: Any, stream: bool
):
    """The earliest one wins, and the reason is stop."""
    raw = await ask(reliable, request_body(stream=stream, stop=["10", "44", "none"]))
    if stream:
        assert raw.text == "KX-"
    else:
        choice = json.loads(raw.body)["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("KX-", "stop")


async def test_the_output_budget_is_kept(reliable: Phantom, ask: Any, request_body: Any):
    """max_tokens, under either name, cuts with the reason length; exactly enough does not."""
    for field, limit, reason in (("max_tokens", 3, "length"), ("max_completion_tokens", 8, "stop")):
        _, answer = await post(ask, reliable, request_body(stream=False, **{field: limit}))
        assert answer["choices"][0]["finish_reason"] == reason
        assert answer["usage"]["completion_tokens"] == limit


async def test_reasoning_eats_the_budget(ask: Any, request_body: Any):
    """With too small a budget content is null and the reason is length; with enough, both come."""
    with Phantom(Behaviour(reasoning_tokens=10)) as phantom:
        _, little = await post(ask, phantom, request_body(stream=False, max_tokens=6))
        assert little["choices"][0]["message"]["content"] is None
        assert little["choices"][0]["finish_reason"] == "length"
        assert little["usage"]["completion_tokens_details"]["reasoning_tokens"] == 6
        _, enough = await post(ask, phantom, request_body(stream=False, max_tokens=50))
        assert enough["choices"][0]["message"]["content"] == "KX-4410-T"
        assert enough["usage"]["completion_tokens"] == 18


async def test_n_choices_come_interleaved_with_their_index(ask: Any, request_body: Any):
    """Each has its own role, content and finish; usage counts all of them."""
    with Phantom(Behaviour(recall=0.5)) as phantom:
        raw = await ask(phantom, request_body(n=3, temperature=1))
        texts = ["", "", ""]
        for payload in raw.payloads[:-1]:
            (choice,) = payload["choices"]
            texts[choice["index"]] += choice["delta"].get("content") or ""
        _, whole = await post(ask, phantom, request_body(n=3, temperature=1, seed=1, stream=False))
        assert [c["index"] for c in whole["choices"]] == [0, 1, 2]
        assert all(texts)
        pieces = sum(len(WordTokenizer().pieces(text)) for text in texts)
        assert raw.payloads[-1]["usage"]["completion_tokens"] == pieces


async def test_echo_gives_the_prompt_back_with_its_log_probabilities(reliable: Phantom, ask: Any):
    """As lm-eval asks: max_tokens 0, logprobs 1; the first token has none, offsets point into the text."""
    body = {"model": "reliable", "prompt": "One two, 34", "max_tokens": 0, "echo": True, "logprobs": 1}
    status, answer = await post(ask, reliable, body, TEXT)
    assert status == 200
    (choice,) = answer["choices"]
    logprobs = choice["logprobs"]
    assert choice["text"] == "One two, 34"
    assert logprobs["tokens"] == ["One", " two", ",", " ", "3", "4"]
    assert logprobs["token_logprobs"][0] is None
    assert all(value < 0 for value in logprobs["token_logprobs"][1:])
    for token, at in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert choice["text"][at : at + len(token)] == token
    _, several = await post(ask, reliable, {**body, "prompt": ["a", "b"], "echo": False, "max_tokens": 4}, TEXT)
    assert [c["index"] for c in several["choices"]] == [0, 1]


async def test_log_probabilities_can_be_missing_or_refused(ask: Any, request_body: Any):
    """Off without a word, or a 400 that names the field."""
    with Phantom([Behaviour("mute", logprobs="ignore"), Behaviour("stern", logprobs="reject")]) as phantom:
        _, mute = await post(ask, phantom, request_body(model="mute", stream=False, logprobs=True))
        assert mute["choices"][0]["logprobs"] is None
        status, stern = await post(ask, phantom, request_body(model="stern", logprobs=True))
        assert (status, stern["error"]["param"]) == (400, "logprobs")


async def test_a_key_is_asked_for_where_one_is_set(ask: Any, request_body: Any):
    """Without it, or with a wrong one: 401."""
    with Phantom(api_key="secret") as phantom:
        assert (await ask(phantom, request_body())).status == 401
        assert (await ask(phantom, path="/v1/models")).status == 401
        assert (await ask(phantom, path="/health")).status == 200


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop",
    "seed", "logprobs", "top_logprobs", "stream", "stream_options", "echo", "system", "frequency_penalty",
    "repetition_penalty", "tools", "stop_sequences", "faults", "count_only", "add_generation_prompt",
]  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
    st.sampled_from([CHAT, TEXT, MESSAGES, "/tokenize", "/phantom/script", MESSAGES + "/count_tokens"]),
    st.booleans(),
)
def test_no_request_gets_a_5xx(
    reliable: Phantom, ask: Any, request_body: Any, changes: dict[str, Any], path: str, usual: bool
):
    """Random fields over a good request, or alone: an answer or a 4xx, never a server error."""
    good = {**request_body(), "prompt": "x", "max_tokens": 3, "model": "reliable"} if usual else {}
    raw = asyncio.run(ask(reliable, json.dumps({**good, **changes}).encode(), path=path))
    assert 200 <= raw.status < 500
    assert raw.ended == "whole"


async def test_raw_bytes_that_are_not_http_do_not_stop_the_server(reliable: Phantom, ask: Any):
    """Half requests and noise, and then a good one."""
    for noise in (
        b"\x00\xff\x16\x03\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Le",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", reliable.port)
        writer.write(noise)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        del reader
    assert (await ask(reliable, path="/health")).status == 200
