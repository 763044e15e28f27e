"""One server process: from options to a listening socket, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import ipaddress
import json
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bunny_engine.errors import OptionError
from bunny_engine.fetch import Source, resolve
from bunny_engine.recipe import Recipe
from bunny_engine.tokenizer import load_tokenizer
from bunny_engine.waiting import WAITS, wait_as

if TYPE_CHECKING:
    import uvicorn
    from rich.console import Console

__all__ = ["ServeOptions", "run"]

_CHOICES = {
    "device": ("auto", "cpu", "cuda"),
    "dtype": ("auto", "float32", "bfloat16"),
    "wait": WAITS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """See `bunny-engine serve --help`. Raises OptionError."""

    model: str
    host: str = "127.0.0.1"
    port: int = 0
    device: str = "auto"
    dtype: str = "auto"
    weights: str = "auto"
    compiled: bool = False
    context: int | None = None
    api_key_env: str | None = None
    allow_open: bool = False
    aliases: tuple[str, ...] = ()
    threads: int | None = None
    wait: str = "brief"
    slots: int = 32
    queue: int = 256
    step_tokens: int = 256
    cache_bytes: int = 4 << 30
    prefix_bytes: int = 1 << 30
    memory: str = "full"
    block_size: int = 512
    resident_blocks: int = 2
    bits: int = 8
    form: str = "auto"
    top_blocks: int = 4
    placement: str = "device"
    ready_file: Path | None = None
    parent_pid: int | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise OptionError(f"--{name} {value!r}; choices: {', '.join(choices)}")
        if self.weights != "auto":
            Recipe.parse(self.weights)
        if self.block_size < 64 or self.block_size & (self.block_size - 1):
            raise OptionError(f"--block-size {self.block_size}: a power of two from 64 on")
        if self.memory not in ("full", "bsr", "top-blocks", "window"):
            raise OptionError(f"--memory {self.memory!r}; choices: full, bsr, top-blocks, window")
        if self.bits not in (3, 4, 8, 16):
            raise OptionError(f"--bits {self.bits}; choices: 3, 4, 8, 16")
        if self.api_key_env and not os.environ.get(self.api_key_env):
            raise OptionError(f"the environment variable {self.api_key_env} is empty: put the API key there")
        if not (_is_loopback(self.host) or self.api_key_env or self.allow_open):
            raise OptionError(
                f"{self.host} can be reached from other machines: name a key with --api-key-env, "
                "or say --allow-open"
            )


def run(options: ServeOptions, console: Console) -> None:
    """Serve until SIGINT, SIGTERM or the parent's end. Raises EngineError before the first request."""
    wait_as(options.wait)
    _keep_large_blocks()
    listener = _bind(options.host, options.port)
    try:
        source = resolve(options.model)
        asyncio.run(_serve(options, console, listener, source))
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
        if options.ready_file is not None:
            options.ready_file.unlink(missing_ok=True)


async def _serve(options: ServeOptions, console: Console, listener: socket.socket, source: object) -> None:
    # What needs no torch happens while torch is imported; what serves is imported while the weights are packed.
    ahead = ThreadPoolExecutor(1).submit(load_tokenizer, cast(Source, source))
    import torch

    from bunny_engine.engine import EngineOptions
    from bunny_engine.loading import DeviceName, DtypeName, open_engine
    from bunny_engine.policies import Policy

    if options.threads:
        torch.set_num_threads(options.threads)
    engine, tokenizer = open_engine(
        cast(Source, source),
        device=cast(DeviceName, options.device),
        dtype=cast(DtypeName, options.dtype),
        weights=options.weights,
        compiled=options.compiled,
        context=options.context,
        tokenizer=ahead.result(),
        options=lambda context: EngineOptions(
            context=context,
            slots=options.slots,
            queue=options.queue,
            step_tokens=options.step_tokens,
            memory_bytes=options.cache_bytes,
            prefix_bytes=options.prefix_bytes,
            policy=Policy(
                name=options.memory,
                block=options.block_size,
                resident=options.resident_blocks,
                bits=options.bits,
                form=options.form,
                most=options.top_blocks,
                place=options.placement,
            ),
            chunk=min(256, options.block_size),
        ),
        progress=lambda text: console.print(text, style="dim"),
    )
    console.print(engine.memory_note, style="dim")
    from bunny_engine.server import create_app, http_config
    from bunny_engine.server.settings import Settings

    key = os.environ[options.api_key_env] if options.api_key_env else None
    app = create_app(engine, tokenizer, Settings(api_key=key, aliases=options.aliases))
    server = _server(http_config(app))
    watch = asyncio.create_task(_watch(server, options, console, listener, engine.info.name))
    try:
        await asyncio.to_thread(engine.wait)  # whoever is told that the server answers finds the weights ready
        await server.serve(sockets=[listener])
    finally:
        watch.cancel()
        engine.close()


def _keep_large_blocks() -> None:
    """Tell glibc to reuse blocks of a megabyte rather than to ask the kernel for zeroed pages each time.

    A prompt's chunk makes hundreds of such temporaries: without this, prefill is 6 % slower.
    """
    trim_threshold, mmap_threshold = -1, -3  # malloc.h
    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_threshold, 64 << 20)
        libc.mallopt(trim_threshold, 256 << 20)


def _server(config: uvicorn.Config) -> uvicorn.Server:
    """A server that ends well on SIGINT and SIGTERM; uvicorn's own would raise the signal once more."""
    import uvicorn

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for each, handler in before.items():
                    signal.signal(each, handler)

    return Quiet(config)


async def _watch(
    server: uvicorn.Server, options: ServeOptions, console: Console, listener: socket.socket, name: str
) -> None:
    """Say when the server answers; end it when its parent is gone."""
    while not server.started:  # noqa: ASYNC110 - uvicorn offers a flag, no event
        await asyncio.sleep(0.01)
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if options.ready_file is not None:
        part = options.ready_file.with_name(options.ready_file.name + ".part")
        part.write_text(json.dumps({"url": url, "model": name, "pid": os.getpid()}))
        part.replace(options.ready_file)
    console.print(f"{name} answers at {url}/v1", highlight=False)
    while options.parent_pid is not None:
        if not _alive(options.parent_pid):
            server.should_exit = True
            return
        await asyncio.sleep(0.5)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:  # a parent that ended but was not waited for is a zombie: gone, for us
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise OptionError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listener


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
