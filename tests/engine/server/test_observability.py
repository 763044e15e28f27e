"""Health, models, metrics and logs: what an operator sees, and what nobody may see."""

from __future__ import annotations

import logging

import orjson
import pytest
from bunny_engine.server import Settings, create_app
from http_harness import MODEL, client_of, saying
from scripted_engine import BpeTokenizer, ScriptedEngine

CHAT = "/v1/chat/completions"
SECRET = "a very private sentence"


def body(**fields: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": SECRET}], **fields}


async def test_the_server_says_what_it_is() -> None:
    """Models with aliases and the context length; health; version."""
    async with client_of(create_app(saying("x"), BpeTokenizer(), Settings(aliases=("alias", MODEL)))) as client:
        listed = (await client.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == [MODEL, "alias"]
        assert {model["max_model_len"] for model in listed["data"]} == {256}
        assert all(model["object"] == "model" and model["owned_by"] for model in listed["data"])
        assert (await client.get("/health")).json() == {"status": "ok", "model": MODEL}
        assert (await client.get("/version")).json()["version"]


async def test_a_dead_engine_is_not_healthy() -> None:
    """Health asks the engine, and is a 503 where it cannot answer."""

    class Dead(ScriptedEngine):
        def stats(self) -> dict[str, float]:
            raise RuntimeError("gone")

    async with client_of(create_app(Dead(BpeTokenizer()), BpeTokenizer())) as client:
        assert (await client.get("/health")).status_code == 503


async def test_metrics_are_prometheus_text() -> None:
    """A scraper's own parser reads them, and the figures are those of the requests."""
    from prometheus_client.parser import text_string_to_metric_families

    app = create_app(saying("The dog"), BpeTokenizer())
    async with client_of(app) as client:
        usage = (await client.post(CHAT, json=body())).json()["usage"]
        await client.post(CHAT, json=body(temperature=9))
        await client.get("/nothing/to/see")
        response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    route = ("route", CHAT)
    assert values["bunny_http_requests_total", route, ("status", "200")] == 1
    assert values["bunny_http_requests_total", route, ("status", "400")] == 1
    assert values["bunny_http_requests_total", ("route", "unmatched"), ("status", "404")] == 1
    assert values["bunny_prompt_tokens_total",] == usage["prompt_tokens"]
    assert values["bunny_cached_prompt_tokens_total",] == usage["prompt_tokens_details"]["cached_tokens"]
    assert values["bunny_completion_tokens_total",] == usage["completion_tokens"]
    assert values["bunny_first_token_seconds_count",] == values["bunny_generation_seconds_count",] == 1
    assert values["bunny_first_token_seconds_bucket", ("le", "+Inf")] == 1
    assert values["bunny_engine_queue_depth",] == 0


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"temperature": 9}, {SECRET: 1}, {"model": SECRET}])
async def test_no_prompt_in_the_log(fields: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    """One JSON line a request, with its counts; never a word of prompt, answer, path or key."""
    app = create_app(saying("The confidential dog"), BpeTokenizer(), Settings(api_key="sk-hidden"))
    with caplog.at_level(logging.DEBUG, "bunny_engine"):
        async with client_of(app, key="sk-hidden") as client:
            response = await client.post(CHAT, json={**body(), **fields})
            await client.get("/" + SECRET.replace(" ", "-"))
    lines = [
        orjson.loads(record.getMessage()) for record in caplog.records if record.name == "bunny_engine.server"
    ]
    assert [line["route"] for line in lines] == [CHAT, "unmatched"]
    assert lines[0]["id"] == response.headers["x-request-id"]
    assert lines[0]["status"] == response.status_code
    if response.status_code == 200:
        assert lines[0]["usage"]["prompt_tokens"] > 0
        assert lines[0]["finish"] == ["stop"]
        assert lines[0]["stream"] is bool(fields)
    for word in ("private", "confidential", "sk-hidden"):
        assert word not in caplog.text
