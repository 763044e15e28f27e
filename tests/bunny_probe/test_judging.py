"""Scores from another model, over real HTTP."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bunny_probe.campaign import load_plan, observe, score_run
from bunny_probe.errors import UsageError
from bunny_probe.judging import judge_run
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.runs import frame
from bunny_probe.targets import Target


@pytest.fixture
def run_file(suite_file: Path, tmp_path: Path, phantom: Phantom) -> Path:
    """A run whose prompts were counted by the phantom's /tokenize."""
    path = tmp_path / "run.db"
    observe(load_plan(suite_file), Target(endpoint=phantom.url), path, mode="none", concurrency=4)
    score_run(path)
    return path


@contextmanager
def judge_server(replies: list[str], seen: list[str]) -> Iterator[str]:
    """A chat endpoint that gives `replies` in turn, in a thread of its own."""
    import asyncio
    import threading

    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        seen.append(body["messages"][-1]["content"])
        text = replies[(len(seen) - 1) % len(replies)]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for delta, finish in (({"role": "assistant", "content": text}, None), ({}, "stop")):
            event = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    async def models_list(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "judge"}]})

    loop, ready = asyncio.new_event_loop(), threading.Event()
    address: list[str] = []
    stop = asyncio.Event()

    async def serve() -> None:
        app = web.Application()
        app.add_routes([web.post("/v1/chat/completions", chat), web.get("/v1/models", models_list)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def test_a_judge_votes_in_both_orders_and_its_scores_stand_beside(run_file: Path, phantom: Phantom) -> None:
    """Two votes an answer; the probe's own score stays; a second pass asks nothing."""
    before = frame(run_file)["score"].tolist()
    seen: list[str] = []
    counted_by = Target(endpoint=phantom.url)
    with judge_server(['{"grade": 5, "reason": "right"}', '{"grade": 3, "reason": "fair"}'], seen) as url:
        judge = Target(endpoint=url)
        count = judge_run(
            run_file, "judge", judge, counted_by=counted_by, params={"votes": 2}, concurrency=1, mode="none"
        )
        again = judge_run(run_file, "judge", judge, counted_by=counted_by, mode="none")
    assert (count, again) == (21, 0)
    assert len(seen) == 42
    assert sum(text.index("<reference") < text.index("<answer") for text in seen) == 21
    assert frame(run_file)["score"].tolist() == before
    with closing(sqlite3.connect(run_file)) as db:
        rows = db.execute("SELECT value, label FROM scores WHERE scorer = 'judge'").fetchall()
    assert len(rows) == 21
    assert set(rows) == {(0.75, "pass")}


def test_a_prompt_that_changed_is_not_judged(run_file: Path, tmp_path: Path) -> None:
    """Another tokenizer writes another prompt: told, not graded."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    characters = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("[^ ]{1,3}"), "isolated")
    characters.save(str(tmp_path / "other.json"))
    other = Behaviour(tokenizer=str(tmp_path / "other.json"))
    with (
        judge_server(["{}"], []) as url,
        Phantom(other) as counter,
        pytest.raises(UsageError, match="does not come out as it was sent"),
    ):
        judge_run(run_file, "judge", Target(endpoint=url), counted_by=Target(endpoint=counter.url), mode="none")


def test_an_unknown_scorer_names_the_choices(run_file: Path) -> None:
    """A typo is answered with what there is."""
    with pytest.raises(UsageError, match="judge, likelihood, reward"):
        judge_run(run_file, "jugde", Target(), counted_by=Target())
