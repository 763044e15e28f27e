"""Whom to ask: an endpoint as a person names it, reached, and the prompts that are written for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bunny_probe.bundled_engine import bundled_engine
from bunny_probe.endpoints import EndpointSpec, Timeouts, open_endpoint
from bunny_probe.endpoints.proxies import proxy_for
from bunny_probe.errors import ModelNotFound, UsageError
from bunny_probe.records import Probe, Rendered

if TYPE_CHECKING:
    from bunny_probe.text import Counter

__all__ = ["ENGINE", "Status", "Target", "reach", "renderer"]

ENGINE = "engine"  # the name of the bundled engine where a URL is asked for
_HASTY_S = 120.0
Status = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint as a person names it, before it is reached."""

    endpoint: str = ENGINE  # a URL, or "engine"
    model: str = ""  # empty: the only one that it serves
    dialect: str = "openai-chat"
    key_env: str | None = None  # the NAME of the environment variable that holds the key
    headers: Mapping[str, str] = field(default_factory=dict)
    tokenizer: str | None = None  # a tokenizer.json; None: the endpoint's own /tokenize
    engine_options: tuple[str, ...] = ()  # further options of `bunny-engine serve`
    options: Mapping[str, Any] = field(default_factory=dict)  # further fields of each request's body
    reasoning_tokens: int = 0  # room for a reasoning model's thoughts, on top of each answer's limit
    allow_insecure: bool = False
    timeout: float | None = None  # seconds to the first byte of an answer; None: what fits a long prompt

    @property
    def place(self) -> str | None:
        """What stands for the bundled engine's changing address in identities: its name and its options."""
        return " ".join((ENGINE, *self.engine_options)) if self.endpoint == ENGINE else None

    def check(self) -> None:
        """Raises UsageError for what it names and cannot be used: URL, dialect, headers, the variable of a key,
        the tokenizer's file. Asks nobody."""
        from bunny_probe.endpoints.auth import auth_headers

        self.check_tokenizer()
        if self.endpoint == ENGINE:
            self.spec(url="http://127.0.0.1")
        else:
            auth_headers(self.spec())

    def check_tokenizer(self) -> None:
        """The same of the tokenizer's file alone, which is missed only when there is something to ask."""
        if self.tokenizer is not None and not Path(self.tokenizer).is_file():
            raise UsageError(f"no tokenizer file at {self.tokenizer}")

    def spec(self, url: str | None = None, model: str | None = None) -> EndpointSpec:
        """As the client wants it; `url` and `model` where they are known only once it runs."""
        return EndpointSpec(
            url=url or self.endpoint,
            model=model or self.model or "unnamed",
            dialect=self.dialect,
            key_env=self.key_env if url is None else None,
            headers=self.headers if url is None else {},
            options=self.options,
            reasoning_tokens=self.reasoning_tokens,
            allow_insecure=self.allow_insecure,
            place=self.place,
            timeouts=Timeouts() if self.timeout is None else Timeouts.of(self.timeout),
        )

    def hasty(self, spec: EndpointSpec) -> EndpointSpec:
        """`spec` for questions of a few words: who cannot answer these in two minutes is not there."""
        return spec if self.timeout is not None else replace(spec, timeouts=Timeouts.of(_HASTY_S))


@contextmanager
def reach(target: Target, on_status: Status = lambda _: None) -> Iterator[EndpointSpec]:
    """The endpoint, ready to be asked; the bundled engine is started for as long as the block lasts.

    Raises EndpointError when it cannot be used, with one line that says what to do.
    """
    target.check()
    if target.endpoint == ENGINE:
        with bundled_engine(
            target.model or None, arguments=target.engine_options, on_status=on_status
        ) as engine:
            yield target.spec(url=engine.url, model=engine.model)
        return
    yield _checked(target, on_status)


def _checked(target: Target, on_status: Status) -> EndpointSpec:
    from bunny_probe.runs import run_sync

    spec = target.spec()

    async def check() -> EndpointSpec:
        async with open_endpoint(target.hasty(spec)) as endpoint:
            if target.model:
                await endpoint.check()
                return spec
            served = await endpoint.models()
        if len(served) != 1:
            raise ModelNotFound(f"name a model: {spec.host} serves {', '.join(served) or 'none that it lists'}")
        return replace(spec, model=served[0])

    on_status(f"checking {spec.host}")
    return run_sync(check)


@contextmanager
def renderer(spec: EndpointSpec, tokenizer: str | None = None) -> Iterator[Callable[[Probe], Rendered]]:
    """A function that writes a probe's prompt at its exact length, counted as the endpoint counts.

    `tokenizer`: a tokenizer.json file; None asks the endpoint's `/tokenize`.
    """
    from bunny_probe.endpoints.auth import auth_headers
    from bunny_probe.text import EndpointCounter, FileCounter, render

    counter: Counter
    if tokenizer is not None:
        counter = FileCounter(tokenizer)
        yield lambda probe: render(probe, counter)
        return
    import httpx

    # By the same way as the requests themselves: a proxy of the environment is not for loopback.
    client = httpx.Client(
        timeout=min(120.0, spec.timeouts.first_byte), trust_env=False, proxy=proxy_for(spec.url, spec.proxy)
    )
    remote = EndpointCounter(spec.url, spec.model, auth=lambda: auth_headers(spec), client=client)
    try:
        yield lambda probe: render(probe, remote)
    finally:
        remote.close()
