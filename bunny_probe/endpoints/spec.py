"""What an endpoint is: where it is, how to speak to it, and the limits it is held to."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.records import content_hash

__all__ = ["EndpointSpec", "Timeouts"]

_OPERATIONS = ("/chat/completions", "/completions", "/messages", "/models")
# Written by the dialect for each request; another value would break what a budget reserves or a reader expects.
_OWN_FIELDS = frozenset(
    {"model", "messages", "prompt", "stream", "max_tokens", "max_completion_tokens", "n", "best_of", "echo"}
)
_CREDENTIAL_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"})
_CREDENTIAL_FIELD = re.compile(
    r"(?i)api.?key|secret|password|credential|authorization|(access|auth)_?token|^token$"
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds. Each one ends an exchange with the outcome `timeout`."""

    connect: float = 10.0  # name, TCP and TLS
    first_byte: float = 600.0  # request sent to first byte of the answer: a long prefill fits in it
    idle: float = 120.0  # between two reads after that
    total: float = 1800.0  # the whole exchange, so that an endless stream ends

    @classmethod
    def of(cls, first_byte: float) -> Timeouts:
        """Those that go with a limit to the first byte: who waits less for that waits less for all of it."""
        usual = cls()
        return cls(
            connect=min(usual.connect, first_byte),
            first_byte=first_byte,
            idle=min(usual.idle, first_byte),
            total=max(usual.total, first_byte + 1200),
        )

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not 0 < value < float("inf"):
                raise UsageError(f"timeouts.{item.name} must be a positive number of seconds, got {value!r}")


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """An endpoint as a person names it. Holds the *names* of credentials, never a credential.

    `url` is the base (`http://host:8000/v1`); a bare host gets `/v1`, and a full operation URL is cut back to
    its base. A header value of the form `env:NAME` is read from the environment when the endpoint is opened.

    Raises:
        UsageError: the URL, a header or a limit cannot be used; the message says why.
    """

    url: str
    model: str
    dialect: str = "openai-chat"
    key_env: str | None = None  # environment variable that holds the key; None: no key is sent
    headers: Mapping[str, str] = field(default_factory=dict)  # sent with each request
    options: Mapping[str, Any] = field(default_factory=dict)  # further fields of the request body, JSON values
    reasoning_tokens: int = 0  # for a reasoning model's thoughts, on top of what a decoding allows the answer
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_response_bytes: int = 64 * 1024 * 1024
    proxy: str | None = None  # None: the environment's proxy, which loopback never uses
    allow_insecure: bool = False  # send a key over plain http to a public host
    place: str | None = None  # what the URL stands for where it changes from start to start: "engine"

    def __post_init__(self) -> None:
        from bunny_probe.endpoints.dialects import dialect_names

        object.__setattr__(self, "url", _base_url(self.url))
        object.__setattr__(self, "headers", dict(self.headers))
        object.__setattr__(self, "options", dict(self.options))
        if self.dialect not in dialect_names():
            raise UsageError(unknown_choice("dialect", self.dialect, dialect_names()))
        if not self.model or self.model != self.model.strip():
            raise UsageError(f"the model must be named, without white space around it (got {self.model!r})")
        if taken := sorted(_OWN_FIELDS & self.options.keys()):
            raise UsageError(f"the request field {taken[0]} is not free: it comes with each probe's decoding")
        for name in self.options:
            if _CREDENTIAL_FIELD.search(name):
                raise UsageError(
                    f"the request field {name} would carry a credential into the run file: put the key into an "
                    "environment variable and name that (--key-env), or send it as --header NAME=env:VARIABLE"
                )
        if self.reasoning_tokens < 0:
            raise UsageError("reasoning_tokens must be at least 0")
        if self.max_response_bytes < 1:
            raise UsageError("max_response_bytes must be positive")
        for name, value in self.headers.items():
            _check_header(name, value)

    @property
    def fingerprint(self) -> str:
        """Content hash of what decides behaviour: where, which dialect, which model, which options."""
        content: list[Any] = [self.place or self.url, self.dialect, self.model, self.options]
        return content_hash(content + ([self.reasoning_tokens] if self.reasoning_tokens else []))

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def name(self) -> str:
        return f"{self.model} at {self.place or self.host}"

    @property
    def exposes_key(self) -> bool:
        """Whether a key would travel in the clear over a public network."""
        split = urlsplit(self.url)
        return split.scheme == "http" and not is_private_host(split.hostname or "")

    def join(self, path: str) -> str:
        """The URL of an operation, keeping the base's query (some gateways put a version there)."""
        split = urlsplit(self.url)
        return urlunsplit((split.scheme, split.netloc, split.path + path, split.query, ""))


def is_private_host(host: str) -> bool:
    """Loopback, a private network, or a name that only a local resolver knows."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".localhost", ".local", ".internal"))
    return address.is_loopback or address.is_private or address.is_link_local


def _base_url(url: str) -> str:
    text = url.strip()
    if "://" not in text:
        raise UsageError(f"the endpoint {url!r} is not a URL: write http://HOST:PORT/v1 or https://HOST/v1")
    try:
        split = urlsplit(text)
        usable = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:  # a port past 65,535, or half an IPv6 address
        usable = False
    if not usable:
        raise UsageError(
            "the endpoint is not an http or https URL with a host and, where there is one, a port from 1 to "
            "65535: write http://HOST:PORT/v1"
        )
    if not (host := split.hostname or "").isascii() or "xn--" in host:
        _check_international(host)
    if split.username is not None or split.password is not None:
        raise UsageError(
            f"the endpoint URL for {split.hostname} carries credentials: put the key into an environment "
            "variable and name that variable"
        )
    path = split.path.rstrip("/")
    for operation in _OPERATIONS:
        path = path.removesuffix(operation)
    return urlunsplit((split.scheme, split.netloc.lower(), path.rstrip("/") or "/v1", split.query, ""))


def _check_international(host: str) -> None:
    import httpx

    try:
        httpx.URL(f"http://{host}/").host  # noqa: B018  it is encoded, and decoded, on the way
    except (ValueError, httpx.InvalidURL):
        raise UsageError(f"{host!r} cannot be the name of a host: write http://HOST:PORT/v1") from None


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a header name")
    if name.lower() in _CREDENTIAL_HEADERS and not value.startswith("env:"):
        raise UsageError(f"the header {name} carries a credential: write its value as env:NAME_OF_THE_VARIABLE")
    if any(ord(character) < 0x20 or ord(character) > 0xFF for character in value):
        raise UsageError(f"the value of the header {name} holds a character that no header can carry")
