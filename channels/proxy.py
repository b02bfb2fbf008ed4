"""The way out that the environment prescribes (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

HERE = ("localhost", "127.0.0.1", "::1")


def proxy_for(address: str) -> str | None:
    """The proxy for this server; None for none, and for a server on this machine."""
    url = urlsplit(address)
    host = url.hostname or ""
    return None if host in HERE or proxy_bypass(host) else getproxies().get(url.scheme)
