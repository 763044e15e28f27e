"""The headers that carry an endpoint's credentials, for the untimed clients that live outside this package."""

from __future__ import annotations

from bunny_probe.endpoints.dialects import dialect
from bunny_probe.endpoints.secrets import read_secret
from bunny_probe.endpoints.spec import EndpointSpec
from bunny_probe.errors import UsageError

__all__ = ["auth_headers"]


def auth_headers(spec: EndpointSpec) -> dict[str, str]:
    """Headers with the credentials, read from the environment now. Not to be kept.

    Raises:
        Unauthorised: a named variable is unset or empty.
        UsageError: the key would travel in the clear to a public host.
    """
    key = read_secret(spec.key_env).reveal() if spec.key_env else None
    named = {name: value for name, value in spec.headers.items() if value.startswith("env:")}
    if (key or named) and spec.exposes_key and not spec.allow_insecure:
        raise UsageError(
            f"{spec.host} is public and its URL is http: the key would travel in the clear. Use https"
        )
    plain = {name: value for name, value in spec.headers.items() if name not in named}
    secret = {name: read_secret(value.removeprefix("env:")).reveal() for name, value in named.items()}
    return {**dialect(spec.dialect).headers(key), **plain, **secret}
