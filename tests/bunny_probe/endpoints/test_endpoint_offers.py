"""What endpoints offer beside answers: room for reasoning, echoed prompts, the limits of a key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from raw_server import answer, error_reply, head, serve

from bunny_probe.endpoints import EndpointSpec, Timeouts, open_endpoint
from bunny_probe.endpoints.credit import KeyLimits, key_limits
from bunny_probe.endpoints.doctor import examine
from bunny_probe.endpoints.echo import echo
from bunny_probe.phantom import Phantom
from bunny_probe.records import Decoding, Message

ASK = [Message("user", "What colour is the sky?")]
QUICK = Timeouts(2, 2, 2, 4)


def spec_of(url: str) -> EndpointSpec:
    return EndpointSpec(url, "m", timeouts=QUICK)


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("openai-chat", {"max_tokens": 2112}),
        ("openrouter", {"max_tokens": 2112, "reasoning": {"max_tokens": 2048}}),
        ("anthropic-messages", {"max_tokens": 2112, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
    ],
)
async def test_room_for_reasoning_is_on_top_of_the_answers(dialect: str, fields: dict[str, Any]) -> None:
    """The limit holds both, and an API that has a field for thoughts is told."""
    async with serve(answer()) as server:
        spec = EndpointSpec(server.url, "m-1", dialect, reasoning_tokens=2048, timeouts=QUICK)
        async with open_endpoint(spec) as endpoint:
            await endpoint.attempt(ASK, Decoding(max_tokens=64))
    assert fields.items() <= server.seen[0].json.items()


async def test_a_prompt_is_echoed_with_its_log_probabilities() -> None:
    """Tokens, offsets and log-probabilities of the text alone; the generated token is not among them."""
    text = "The keeper wrote the weather down."
    async with Phantom() as phantom, open_endpoint(EndpointSpec(phantom.url, phantom.model)) as endpoint:
        echoed = await echo(endpoint, text)
    assert echoed is not None
    assert "".join(echoed.text) == text
    assert echoed.logprob[0] is None
    assert all(value is not None and value <= 0 for value in echoed.logprob[1:])
    assert len(echoed.within(4, len(text))) == len([at for at in echoed.offset if at >= 4])


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"choices": [{"logprobs": null}]}', b'{"choices": 1}'])
async def test_what_is_no_echo_is_none(body: bytes) -> None:
    """A server that refuses, or answers otherwise, offers no echo, and nothing breaks."""
    for script in ([head(200, "application/json"), body], error_reply(404, {"error": {"message": "no"}})):
        async with serve(script) as server, open_endpoint(spec_of(server.url)) as endpoint:
            assert await echo(endpoint, "some text") is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {
                "limit": 10,
                "limit_remaining": 2.5,
                "usage": 7.5,
                "is_free_tier": False,
                "rate_limit": {"requests": 10, "interval": "10s"},
            },
            KeyLimits(10.0, 2.5, 7.5, False, 10, "10s"),
        ),
        ({"limit": 10, "usage": 12}, KeyLimits(10.0, 0.0, 12.0, None)),
        (
            {"limit": None, "usage": 3, "rate_limit": {"requests": -1, "interval": "10s"}},
            KeyLimits(None, None, 3.0, None, None, "10s"),
        ),
        ({"limit": "x", "usage": True, "rate_limit": 3}, KeyLimits(None, None, None, None)),
        (None, None),
        ("no", None),
    ],
)
async def test_the_limits_of_a_key_are_read_as_told(data: Any, expected: KeyLimits | None) -> None:
    """OpenRouter's `GET /key`; what is not said is None, and nonsense is not said."""
    async with serve([head(200, "application/json"), json.dumps({"data": data}).encode()]) as server:
        async with open_endpoint(EndpointSpec(server.url, "m", "openrouter", timeouts=QUICK)) as endpoint:
            assert await key_limits(endpoint) == expected
        assert server.seen[0].path == "/v1/key"
        async with open_endpoint(EndpointSpec(server.url, "m", timeouts=QUICK)) as endpoint:
            assert await key_limits(endpoint) is None
        assert len(server.seen) == 1


async def test_doctor_sees_reasoning_that_leaves_no_room() -> None:
    """A model whose thoughts spend the limit is found out before a campaign pays for it."""
    from raw_server import DONE, delta, usage

    def thinking(seen: Any) -> list[Any]:
        if not seen.body:
            return error_reply(404, {"error": {"message": "no"}})
        if "messages" not in seen.json:
            return error_reply(404, {"error": {"message": "no"}})
        thought = delta(delta={"reasoning_content": "hm"})
        spent = usage(10, 24, completion_tokens_details={"reasoning_tokens": 24})
        return [head(), thought, delta(finish="length"), spent, DONE]

    async with serve(thinking) as server, open_endpoint(spec_of(server.url)) as endpoint:
        found = await examine(endpoint)
    (reasoning,) = [finding for finding in found.findings if finding.step == "reasoning"]
    assert reasoning.status == "warning"
    assert "--reasoning-tokens" in reasoning.advice
    assert (found.capabilities.reasons, found.capabilities.reasoning_tokens) == (True, 24)
    assert found.examined
