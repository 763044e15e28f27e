"""Prices, other clients as endpoints, OpenRouter, the saturated client, and the doctor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from raw_server import DONE, answer, delta, head, serve, usage

from bunny_probe.endpoints import EndpointSpec, Price, open_endpoint, provider_price, table_price
from bunny_probe.endpoints.callables import from_callable, from_openai
from bunny_probe.endpoints.doctor import Diagnosis, examine
from bunny_probe.errors import UsageError
from bunny_probe.phantom import Behaviour, Latency, Phantom
from bunny_probe.phantom import Price as Charge
from bunny_probe.records import Decoding, Message, Outcome

ASK = [Message("user", "The access code for Oslo is KX-1. What is the access code for Oslo?")]


# ── prices ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_is_labelled_and_the_first_fit_counts() -> None:
    """The bundled figures say that they are unchecked examples; narrower lines win; others have none."""
    small = table_price(EndpointSpec("https://api.openai.com/v1", "gpt-4o-mini-2024"))
    large = table_price(EndpointSpec("https://api.openai.com/v1", "gpt-4o-2024"))
    assert small is not None
    assert large is not None
    assert small.prompt < large.prompt
    assert (small.source, "example" in small.note, "unchecked" in small.note) == ("table", True, True)
    assert table_price(EndpointSpec("https://other.example.com/v1", "gpt-4o")) is None
    assert large.cost(1_000_000, 0) == large.prompt


def test_a_broken_price_table_names_its_line(tmp_path: Path) -> None:
    """A line without a figure, a negative figure and a file that is no TOML are told with file and line."""
    spec = EndpointSpec("http://h/v1", "m")
    for text, said in (
        ('[[price]]\nhost = "h"\nmodel = "m"\nprompt = 1.0\n', r"price\[1\].*completion"),
        ('[[price]]\nhost = "h"\nmodel = "m"\nprompt = -1.0\ncompletion = 1\n', "at least 0"),
        ("[[price", "cannot be read"),
    ):
        (tmp_path / "prices.toml").write_text(text)
        with pytest.raises(UsageError, match=said):
            table_price(spec, tmp_path / "prices.toml")


async def test_the_providers_own_price_is_read() -> None:
    """A model list that states prices gives dollars a million tokens."""
    async with Phantom(Behaviour(price=Charge(prompt=2e-6, completion=5e-6))) as phantom:
        async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
            assert await provider_price(endpoint) == Price(2.0, 5.0, 0.0, "provider")
        async with open_endpoint(EndpointSpec(phantom.url, "other")) as endpoint:
            assert await provider_price(endpoint) is None


# ── OpenRouter ──────────────────────────────────────────────────────────────────────────────────────


async def test_openrouter_asks_for_cost_and_reads_it() -> None:
    """Usage with cost is asked for, comments are passed over, the provider stays pinned."""
    script = [
        head(),
        b": OPENROUTER PROCESSING\n\n" * 3,
        delta("blue"),
        delta(finish="stop"),
        usage(9, 1, cost=0.004),
        DONE,
    ]
    pinned = {"provider": {"order": ["X"], "allow_fallbacks": False}}
    async with serve(script) as server:
        spec = EndpointSpec(
            server.url, "m", "openrouter", headers={"HTTP-Referer": "https://x.org"}, options=pinned
        )
        async with open_endpoint(spec) as endpoint:
            attempt = await endpoint.attempt(ASK, Decoding(), 9)
        sent = server.seen[0]
    assert (attempt.outcome, attempt.text, attempt.usage.cost) == (Outcome.ANSWERED, "blue", 0.004)
    assert sent.json["usage"] == {"include": True}
    assert sent.json["provider"] == pinned["provider"]
    assert (sent.headers["X-Title"], sent.headers["HTTP-Referer"]) == ("Space Bunny", "https://x.org")


# ── other clients ───────────────────────────────────────────────────────────────────────────────────


async def test_an_openai_client_is_an_endpoint() -> None:
    """The SDK's stream gives the same text, usage and trace, marked as timed behind an SDK."""
    async with Phantom() as phantom:
        client = openai.AsyncOpenAI(base_url=phantom.url, api_key="k")
        ours = from_openai(client, phantom.model)
        attempt = await ours.attempt(ASK, Decoding())
        async with open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
            direct = await endpoint.attempt(ASK, Decoding())
        assert ours.spec.fingerprint == endpoint.fingerprint
        await client.close()
    assert (attempt.outcome, attempt.text, attempt.usage) == (direct.outcome, direct.text, direct.usage)
    assert attempt.trace.logprob == direct.trace.logprob
    assert attempt.timing is not None
    assert attempt.timing.includes_sdk


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("rate-limit:3", Outcome.RATE_LIMITED),
        ("server-error", Outcome.SERVER_ERROR),
        ("context", Outcome.CONTEXT_REFUSED),
        ("unauthorised", Outcome.UNAUTHORISED),
        ("not-found", Outcome.NOT_FOUND),
        ("cut-fin", Outcome.CUT_STREAM),
        ("close", Outcome.TRANSPORT),
        ("length", Outcome.OUTPUT_BUDGET),
        ("strict", Outcome.ANSWERED),
    ],
)
async def test_an_openai_clients_failures_have_their_names(fault: str, outcome: Outcome) -> None:
    """The SDK's exceptions become outcomes; refused optional fields are dropped and asked again."""
    async with Phantom(script=[fault]) as phantom:
        client = openai.AsyncOpenAI(base_url=phantom.url, api_key="sk-canary-1234567890")
        attempt = await from_openai(client, phantom.model).attempt(ASK, Decoding())
        await client.close()
    assert attempt.outcome is outcome, attempt.evidence
    assert "sk-canary" not in attempt.evidence
    if fault == "rate-limit:3":
        assert attempt.retry_after == 3
    if fault == "strict":
        assert attempt.dropped_fields


async def test_any_async_callable_is_an_endpoint() -> None:
    """A coroutine's text and a generator's pieces are answers; an exception is a failed attempt."""

    async def plain(messages: list[dict[str, str]], decoding: Decoding) -> str:
        return messages[-1]["content"].upper()

    async def pieces(messages: list[dict[str, str]], decoding: Decoding) -> AsyncIterator[str]:
        for piece in ("a", "b"):
            await asyncio.sleep(0.02)
            yield piece

    async def broken(messages: list[dict[str, str]], decoding: Decoding) -> str:
        raise ConnectionError("nobody there")

    said = await from_callable(plain, "m").attempt([Message("user", "hi")], Decoding())
    assert (said.outcome, said.text) == (Outcome.ANSWERED, "HI")
    streamed = await from_callable(pieces, "m").attempt([Message("user", "hi")], Decoding())
    assert (streamed.text, len(set(streamed.trace.arrival))) == ("ab", 2)
    failed = await from_callable(broken, "m").attempt([Message("user", "hi")], Decoding())
    assert failed.outcome is Outcome.TRANSPORT
    assert "nobody there" in failed.evidence


# ── the client's own lateness ───────────────────────────────────────────────────────────────────────


async def test_a_saturated_client_marks_its_times_invalid() -> None:
    """An event loop that is held up for 120 ms says so, and does not blame the server."""
    async with (
        serve([head(), 0.3, *answer()[1:]]) as server,
        open_endpoint(EndpointSpec(server.url, "m")) as endpoint,
    ):
        calm = await endpoint.attempt(ASK, Decoding())
        task = asyncio.create_task(endpoint.attempt(ASK, Decoding()))
        await asyncio.sleep(0.1)
        time.sleep(0.12)  # noqa: ASYNC251 (this is the point)
        busy = await task
    assert calm.timing is not None
    assert busy.timing is not None
    assert (busy.timing.client_lag or 0) >= 100_000_000
    assert not busy.timing.valid
    assert (calm.timing.client_lag or 0) < (busy.timing.client_lag or 0)


# ── doctor ──────────────────────────────────────────────────────────────────────────────────────────


async def diagnose(behaviour: Behaviour, *, model: str | None = None, search: bool = False) -> Diagnosis:
    async with Phantom(behaviour) as phantom:
        spec = EndpointSpec(phantom.url, model or phantom.model)
        async with open_endpoint(spec) as endpoint:
            return await examine(endpoint, search_context=search, most_tokens=20_000)


async def test_the_doctor_finds_a_healthy_endpoint_healthy() -> None:
    """A phantom without faults is usable, and its capabilities are those that it was given."""
    diagnosis = await diagnose(Behaviour(latency=Latency(gap=0.01), context_limit=5000), search=True)
    found = diagnosis.capabilities
    assert diagnosis.usable, diagnosis.findings
    assert (found.streams, found.usage, found.logprobs, found.top_logprobs) == (True, True, True, 20)
    assert (found.context_limit_source, found.truncates_silently) == ("searched", False)
    assert found.context_limit is not None
    assert 0.96 * 5000 <= found.context_limit <= 5000
    assert found.clock_skew_s is not None
    assert abs(found.clock_skew_s) < 3


async def test_the_doctor_sees_what_is_wrong() -> None:
    """Refused fields, missing log-probabilities, silent truncation and a wrong model each have a finding."""
    strict = await diagnose(
        Behaviour(refuse_fields=("seed", "logprobs", "frequency_penalty", "presence_penalty"))
    )
    told = {finding.step: finding for finding in strict.findings}
    assert (told["logprobs"].status, told["seed"].status, told["penalties"].status) == ("warning",) * 3
    assert {"seed", "logprobs"} <= set(strict.capabilities.dropped_fields)
    assert all(finding.advice for finding in (told["logprobs"], told["seed"], told["fields"]))
    cut = await diagnose(Behaviour(truncate_at=700), search=True)
    assert cut.capabilities.truncates_silently
    assert not cut.usable
    lost = await diagnose(Behaviour(), model="nobody")
    assert [finding.status for finding in lost.findings] == ["failure"]
    assert "phantom-reliable" in lost.findings[0].told
