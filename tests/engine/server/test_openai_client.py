"""The official `openai` package as the client: what it gets, and which exception it raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from bunny_engine.server import Settings, create_app
from http_harness import MODEL, live, saying
from scripted_engine import BpeTokenizer

KEY = "sk-local-key"
MESSAGES: list[Any] = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with live(create_app(saying("The 长城 dog"), BpeTokenizer(), Settings(api_key=KEY))) as url:
        yield url + "/v1"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        yield client


def test_models(client: openai.OpenAI) -> None:
    """The list and the single model parse into the package's types."""
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "bunny_engine"


def test_chat(client: openai.OpenAI) -> None:
    """A whole chat answer with log-probabilities."""
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, logprobs=True, top_logprobs=2, n=2)
    for choice in answer.choices:
        assert choice.message.content == "The 长城 dog"
        assert choice.finish_reason == "stop"
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        raw = b"".join(bytes(entry.bytes or ()) for entry in choice.logprobs.content)
        assert raw.decode() == "The 长城 dog"
        assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == answer.usage.prompt_tokens // 2


def test_chat_stream(client: openai.OpenAI) -> None:
    """Chunks, usage at the end."""
    with client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}, logprobs=True
    ) as stream:
        chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "The 长城 dog"
    assert chunks[-1].usage is not None
    entries = [
        e for c in chunks if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content or ()
    ]
    assert len(entries) == chunks[-1].usage.completion_tokens


def test_the_packages_own_accumulator(client: openai.OpenAI) -> None:
    """`chat.completions.stream` puts the chunks together into the whole answer."""
    with client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "The 长城 dog"
    assert final.choices[0].finish_reason == "stop"


def test_completions(client: openai.OpenAI) -> None:
    """Whole with echo and log-probabilities, and streamed."""
    answer = client.completions.create(model=MODEL, prompt="Hello", echo=True, logprobs=1, max_tokens=3)
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.token_logprobs is not None
    assert answer.choices[0].text.startswith("Hello")
    with client.completions.create(model=MODEL, prompt="Hello", stream=True, max_tokens=99) as stream:
        assert "".join(chunk.choices[0].text for chunk in stream) == "The 长城 dog"


async def test_async_chat(url: str) -> None:
    """The async client, whole and streamed."""
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert answer.choices[0].message.content == "The 长城 dog"
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == "The 长城 dog"
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="gpt-9", messages=MESSAGES)


def test_errors_by_class(url: str, client: openai.OpenAI) -> None:
    """Each refusal is the package's own exception, with code and param."""
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=9)
    assert (bad.value.param, bad.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=MODEL, prompt=[5] * 300)
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")
    with (
        openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=MODEL, input="x")


def test_busy_and_faulty_engines() -> None:
    """429 with its header is RateLimitError, 500 InternalServerError, a fault in a stream APIError."""
    with (
        live(create_app(saying("x", busy=7), BpeTokenizer())) as busy,
        openai.OpenAI(base_url=busy + "/v1", api_key="x", max_retries=0) as client,
    ):
        for stream in (False, True):
            with pytest.raises(openai.RateLimitError) as full:
                client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=stream)
            assert full.value.response.headers["retry-after"] == "7"
    with (
        live(create_app(saying("The dog", fault_at=2), BpeTokenizer())) as faulty,
        openai.OpenAI(base_url=faulty + "/v1", api_key="x", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model=MODEL, messages=MESSAGES)
        with (
            client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True) as chunks,
            pytest.raises(openai.APIError, match="fault"),
        ):
            list(chunks)
