"""The headers that carry an endpoint's credentials, read from the environment at the moment of asking."""

from __future__ import annotations

from bunny_probe.endpoints.dialects import dialect
from bunny_probe.endpoints.secrets import Secret, read_secret
from bunny_probe.endpoints.spec import EndpointSpec
from bunny_probe.errors import UsageError

__all__ = ["auth_headers", "credentials"]


def auth_headers(spec: EndpointSpec) -> dict[str, str]:
    """The spec's headers with its credentials. Not to be kept.

    Raises:
        UsageError: a named variable is unset or empty, or the key would travel in the clear to a public host.
    """
    return credentials(spec)[0]


def credentials(spec: EndpointSpec) -> tuple[dict[str, str], list[Secret]]:
    """Likewise, and the credentials that are in them, for a `Redactor`."""
    secrets: list[Secret] = []

    def read(variable: str) -> str:
        secrets.append(read_secret(variable))
        return secrets[-1].reveal()

    headers = dialect(spec.dialect).headers(read(spec.key_env) if spec.key_env else None)
    for name, value in spec.headers.items():
        headers[name] = read(value.removeprefix("env:")) if value.startswith("env:") else value
    if secrets and spec.exposes_key and not spec.allow_insecure:
        raise UsageError(
            f"{spec.host} is public and its URL is http: the key would travel in the clear. Use https, "
            "or allow it explicitly (--allow-insecure, allow_insecure=True)"
        )
    return headers, secrets
