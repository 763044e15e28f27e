"""Which proxy a URL goes through: the stated one, else the environment's; loopback goes direct."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

__all__ = ["proxy_for"]


def proxy_for(url: str, stated: str | None) -> str | None:
    """The proxy's URL or None. `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` are honoured."""
    if stated is not None:
        return stated
    split = urlsplit(url)
    host = split.hostname or ""
    proxies = getproxies_environment()
    if not proxies or host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(split.netloc):
        return None
    return proxies.get(split.scheme) or proxies.get("all")
