"""The way out that the environment prescribes (HTTP_PROXY, HTTPS_PROXY, NO_PROXY).

Files on their way to a platform.
"""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from channels.base import Rejected

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def proxy_for(address: str) -> str | None:
    """The proxy for this server; None for none, and for a server on this machine."""
    url = urlsplit(address)
    host = url.hostname or ""
    return None if host in LOOPBACK or proxy_bypass(host) else getproxies().get(url.scheme)


async def check_size(file: Path, name: str, most: int, platform: str) -> int:
    """Its size in bytes; people call it `name`. Raises Refused where it cannot be read, or the platform does not take it."""
    try:
        size = (await asyncio.to_thread(file.stat)).st_size
    except OSError as gone:
        raise Rejected(f"{name} cannot be read ({gone.strerror}); it was not sent") from gone
    if size > most:
        raise Rejected(
            f"{name} has {size / (1 << 20):.1f} MB; {platform} takes {most >> 20} MB from a bot"
        )
    return size
