"""Starting and stopping: threads, processes, ports; and the packages that users talk to it with."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from bunny_probe.errors import UsageError
from bunny_probe.phantom import Behaviour, Key, Latency, Phantom, PhantomProcess
from bunny_probe.phantom.__main__ import main


async def test_a_phantom_is_loopback_only_and_gives_its_port_back(ask: Any, request_body: Any):
    """Stopped with a stream in flight, it ends that, and the port can be had again."""
    async with Phantom(Behaviour(latency=Latency(gap=10))) as phantom:
        assert phantom.root == f"http://127.0.0.1:{phantom.port}"
        stream = asyncio.create_task(ask(phantom, request_body(), limit=20))
        for _ in range(500):
            if phantom.stats.snapshot()["active"]:
                break
            await asyncio.sleep(0.01)
        port = phantom.port
        with pytest.raises(UsageError, match="running already"):
            phantom.start()
    assert (await stream).ended in ("fin", "reset")
    with Phantom(port=port) as again:
        assert again.port == port
        with pytest.raises(UsageError, match="cannot listen"):
            Phantom(port=port).start()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_two_models_of_one_name_and_no_model_are_refused():
    """Before anything is served."""
    with pytest.raises(UsageError, match="two models"):
        Phantom([Behaviour("a"), Behaviour("phantom-a")])
    with pytest.raises(UsageError, match="at least one"):
        Phantom([])


async def test_the_openai_package_works_against_it():
    """Chat, streaming, completions, models, log-probabilities, and its exceptions by status."""
    prompt = "The access code for Oslo is KX-4410-T.\n\nWhat is the access code for Oslo?"
    messages: Any = [{"role": "user", "content": prompt}]
    with Phantom(api_key="right") as phantom:
        async with openai.AsyncOpenAI(base_url=phantom.url, api_key="right", max_retries=1) as client:
            answer = await client.chat.completions.create(
                model=phantom.model, messages=messages, logprobs=True, top_logprobs=3, temperature=0
            )
            assert answer.choices[0].message.content == "KX-4410-T"
            assert answer.choices[0].logprobs is not None
            assert len((answer.choices[0].logprobs.content or [])[0].top_logprobs) == 3
            assert answer.usage is not None
            stream = await client.chat.completions.create(
                model=phantom.model, messages=messages, stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices)
            assert text == "KX-4410-T"
            assert chunks[-1].usage == answer.usage
            done = await client.completions.create(
                model=phantom.model, prompt=prompt, logprobs=2, max_tokens=20
            )
            assert done.choices[0].text == "KX-4410-T"
            assert [model.id async for model in client.models.list()] == ["phantom-reliable"]
            phantom.script("rate-limit:0", "none")
            again = await client.chat.completions.create(model=phantom.model, messages=messages)
            assert again.choices[0].message.content == "KX-4410-T"
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model="none", messages=messages)
            phantom.script("context", "unauthorised")
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.create(model=phantom.model, messages=messages)
            assert refused.value.code == "context_length_exceeded"
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(model=phantom.model, messages=messages)


async def test_a_phantom_in_a_process_of_its_own_does_the_same(tmp_path: Path, ask: Any, request_body: Any):
    """Behaviour, key, script and counts arrive there; it ends with its context."""
    key = tmp_path / "key.jsonl"
    key.write_text(json.dumps({"prompt": "What?", "expected": {"answers": ["FROM-KEY"]}}) + "\n")
    with PhantomProcess(
        [Behaviour("a", recall="1"), Behaviour("b", recall=0)], key, script=["rate-limit"]
    ) as child:
        assert child.model == "phantom-a"
        raws = [await ask(child, request_body("What?", model=name)) for name in ("a", "a", "b")]
        assert [raw.status for raw in raws] == [429, 200, 200]
        assert raws[1].text == "FROM-KEY" != raws[2].text
        child.script("server-error")
        assert (await ask(child, request_body(model="a"))).status == 500
        assert child.snapshot()["statuses"] == {"200": 2, "429": 1, "500": 1}
        child.reset()
        assert child.snapshot()["requests"] == 0
        pid = child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_cannot_start_says_why(tmp_path: Path):
    """The child's own message arrives."""
    with pytest.raises(UsageError, match=r"no key file at .*none\.jsonl"):
        PhantomProcess(key=tmp_path / "none.jsonl").__enter__()


def test_the_command_line_serves_until_it_is_told_to_stop(tmp_path: Path):
    """One line of JSON when ready, the same in the ready file, exit code 0 after SIGTERM."""
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "bunny_probe.phantom", "--model=forgetful", f"--ready-file={ready}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        facts = json.loads(child.stdout.readline())
        assert json.loads(ready.read_text()) == facts
        assert facts["models"] == ["phantom-forgetful"]
        assert facts["url"].startswith("http://127.0.0.1:")
        assert facts["pid"] == child.pid
        child.terminate()
        assert child.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--model=none"], "unknown phantom model"),
        (["--behaviour=none.toml"], "none.toml cannot be read"),
        (["--script=none-such"], "unknown fault"),
        (["--pattern=("], "anchor pattern"),
        (["--api-key-env=BUNNY_NO_SUCH_KEY"], "BUNNY_NO_SUCH_KEY is empty"),
        (["--host=203.0.113.1"], "cannot listen"),
    ],
)
def test_the_command_line_tells_what_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
):
    """One line on standard error and exit code 2."""
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err


async def test_a_key_object_and_patterns_are_taken_too(ask: Any, request_body: Any):
    """A Key made in memory, and a pattern table for words that do not look like codes."""
    key = Key([{"prompt": "What?", "expected": "FROM-KEY"}])
    with Phantom(key=key, patterns=[r"The magic word of (?P<key>\w+) is (?P<value>\w+)"]) as phantom:
        assert (await ask(phantom, request_body("What?"))).text == "FROM-KEY"
        prompt = "The magic word of Anna is birch.\n\nWhat is the magic word of Anna?"
        assert (await ask(phantom, request_body(prompt))).text == "birch"


def test_clients_that_go_leave_no_word(tmp_path: Path):
    """However and whenever a client breaks off, the log stays empty: a killed campaign is no fault of ours."""
    log = tmp_path / "stderr"
    command = [sys.executable, "-m", "bunny_probe.phantom", "--ready-file", str(tmp_path / "ready")]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as served,
    ):
        try:
            assert served.stdout is not None
            told = json.loads(served.stdout.readline())
            host, port = told["root"].removeprefix("http://").split(":")
            content = "The access code for Oslo is KX-4410-T. What is the access code for Oslo?" + " pad" * 5000
            asked = {"model": told["model"], "stream": True, "messages": [{"role": "user", "content": content}]}
            body = json.dumps(asked).encode()
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            for reset in (False, True):
                for part in (head + body[:1000], head + body):
                    with socket.create_connection((host, int(port))) as client:
                        client.sendall(part)
                        if reset:
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with socket.create_connection((host, int(port))) as client:
                client.sendall(head + body)
                client.recv(100)
            with socket.create_connection((host, int(port))) as client:  # served all the same
                client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert b"200 OK" in client.recv(1000)
        finally:
            served.terminate()
            served.wait(20)
    assert log.read_text() == ""
