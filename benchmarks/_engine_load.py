"""Servers under load: start one, send streaming clients at it, and time the first token of each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

WORDS = ("river", "mill", "stone", "winter", "letter", "garden", "bridge", "lamp", "harbour", "meadow", "clock")


def prompt(words: int, seed: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


@contextlib.contextmanager
def bunny(*arguments: str) -> Iterator[str]:
    """A running `bunny-engine serve`: its URL."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "bunny_engine.cli", "serve", "--port", "0", "--ready-file", str(ready)]
        with started([*command, *arguments]) as process:
            while not ready.exists():
                if process.poll() is not None:
                    raise RuntimeError(f"bunny-engine ended with {process.returncode}")
                time.sleep(0.005)
            yield json.loads(ready.read_text())["url"]


@contextlib.contextmanager
def llama(python: str, model: Path, threads: int, context: int) -> Iterator[str]:
    """llama-cpp-python's own server, told to finish what it began: its URL."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [
        python,
        "-m",
        "llama_cpp.server",
        "--model",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += ["--n_threads", str(threads), "--n_threads_batch", str(threads), "--n_ctx", str(context)]
    with started([*command, "--interrupt_requests", "False"]) as process:
        url = f"http://127.0.0.1:{port}"
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"llama.cpp's server ended with {process.returncode}")
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(url + "/v1/models", timeout=1).raise_for_status()
                break
            time.sleep(0.1)
        yield url


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=dict(os.environ), **quiet) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


async def first_tokens(url: str, clients: int, words: int, answer: int) -> list[float]:
    """Seconds from sending to the first token, for `clients` that all ask at once."""

    async def ask(client: httpx.AsyncClient, seed: int) -> float:
        body = {
            "model": name,
            "prompt": prompt(words, seed),
            "max_tokens": answer,
            "temperature": 0,
            "stream": True,
        }
        begun, first = time.perf_counter(), 0.0
        async with client.stream("POST", url + "/v1/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not first and line.startswith("data: {") and json.loads(line[6:])["choices"][0]["text"]:
                    first = time.perf_counter() - begun
        return first

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(timeout=600, limits=limits) as client:
        name = (await client.get(url + "/v1/models")).json()["data"][0]["id"]
        await ask(client, 10_000)  # warm
        return sorted(await asyncio.gather(*(ask(client, seed) for seed in range(clients))))


def cold_start(body: dict[str, object]) -> tuple[float, float]:
    """Seconds from the start of the process to the first 200 of /health, and of a completion of one token."""
    begun = time.perf_counter()
    with bunny() as url:
        httpx.get(url + "/health", timeout=30).raise_for_status()
        healthy = time.perf_counter() - begun
        httpx.post(url + "/v1/completions", json=body, timeout=30).raise_for_status()
        return healthy, time.perf_counter() - begun
