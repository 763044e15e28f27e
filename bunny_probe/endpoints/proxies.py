"""Which proxy a URL goes through: the stated one, else the environment's; loopback goes direct."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from bunny_probe.errors import UsageError

__all__ = ["proxy_for"]


def proxy_for(url: str, stated: str | None) -> str | None:
    """The proxy's URL or None. `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` are honoured.

    Raises UsageError for a proxy that is not an http or https URL.
    """
    if stated is not None:
        return _checked(stated, "the proxy")
    split = urlsplit(url)
    host = split.hostname or ""
    proxies = getproxies_environment()
    if not proxies or host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(split.netloc):
        return None
    name = split.scheme if proxies.get(split.scheme) else "all"
    found = proxies.get(name)
    return _checked(found, f"the environment variable {name}_proxy") if found else None


def _checked(proxy: str, where: str) -> str:
    try:
        split = urlsplit(proxy)
        usable = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            f"{where} is no http or https proxy (http://HOST:PORT): change it, or name the endpoint's host in "
            "no_proxy"
        )
    return proxy
