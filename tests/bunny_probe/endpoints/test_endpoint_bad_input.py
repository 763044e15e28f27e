"""What a person types wrong about an endpoint is told in a sentence that shows no secret."""

from __future__ import annotations

import pytest

from bunny_probe.endpoints import EndpointSpec
from bunny_probe.endpoints.proxies import proxy_for
from bunny_probe.endpoints.secrets import read_secret
from bunny_probe.errors import UsageError

KEY = "sk-pasted-51c07aa2"


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/v1",
        "http://h:99999/v1",
        "http://h:0/v1",
        "ftp://h/v1",
        "http:///v1",
        "http://xn--/v1",
        "http://\u2603.invalid/v1",
    ],
)
def test_a_url_that_is_none_is_told(url: str) -> None:
    """Half an address, a port that is none, another scheme, no host: one sentence with the form to write."""
    with pytest.raises(UsageError, match="http://HOST:PORT/v1"):
        EndpointSpec(url, "m")


@pytest.mark.parametrize(
    "proxy", ["socks5://127.0.0.1:1", "nonsense", "http://", "http://h:99999", "http://[::1"]
)
def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """The variable is named, whatever is wrong with its value; loopback asks for none."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(UsageError, match="https_proxy"):
        proxy_for("https://models.example.com/v1", None)
    assert proxy_for("http://127.0.0.1:8000/v1", None) is None
    with pytest.raises(UsageError, match="the proxy"):
        proxy_for("https://models.example.com/v1", proxy)


@pytest.mark.parametrize("pasted", [KEY, "Bearer x y", "A B", ""])
def test_a_key_pasted_for_its_name_is_not_repeated(pasted: str) -> None:
    """The message says what to do and not what was typed."""
    with pytest.raises(UsageError) as told:
        read_secret(pasted)
    assert not pasted or pasted not in str(told.value)


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "Authorization", "client_secret", "password", "access_token"]
)
def test_a_credential_is_no_request_field(name: str) -> None:
    """Fields are kept in the run file; a name that says credential is refused, and its value not shown."""
    with pytest.raises(UsageError, match="--header") as told:
        EndpointSpec("http://h/v1", "m", options={name: KEY})
    assert KEY not in str(told.value)
    EndpointSpec("http://h/v1", "m", options={"max_token": 5, "provider": {}, "stop_token": "x"})
