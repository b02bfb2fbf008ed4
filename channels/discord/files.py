"""Files that came with messages: fetched without the token, from Discord's own hosts only, and never more than may be."""

import asyncio
from collections.abc import AsyncIterator
from typing import BinaryIO
from urllib.parse import urlsplit

import aiohttp

from channels.base import Later, Refused
from channels.discord.config import API
from channels.proxy import proxy_for

CDN = ("cdn.discordapp.com", "media.discordapp.net")
CHUNK = 1 << 16
LONGEST_S = 120.0
GONE = (403, 404, 410)


def is_ours(url: str, api_url: str) -> bool:
    """Whether a file is where Discord keeps files; with another API, where that is."""
    try:
        there, api = urlsplit(url), urlsplit(api_url)
        same = (there.scheme, there.hostname, there.port) == (api.scheme, api.hostname, api.port)
        known = there.scheme == "https" and there.hostname in CDN and there.port in (None, 443)
    except ValueError:
        return False
    return known or (same and api_url != API)


async def fetch(url: str, api_url: str, most: int, into: BinaryIO, within_s: float = LONGEST_S) -> None:
    """Fetch it. Raises Refused (too big, gone, elsewhere), Later."""
    if not is_ours(url, api_url):
        raise Refused("the file is not at Discord, so it is not fetched")
    try:
        async with asyncio.timeout(within_s), aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            async for chunk in _chunks(session, url, most):
                await asyncio.to_thread(into.write, chunk)
    except (aiohttp.ClientError, TimeoutError, OSError) as lost:
        raise Later(f"the file could not be fetched from Discord ({type(lost).__name__})") from lost


async def _chunks(session: aiohttp.ClientSession, url: str, most: int) -> AsyncIterator[bytes]:
    async with session.get(url, proxy=proxy_for(url), allow_redirects=False) as answer:
        if answer.status in GONE:
            raise Refused("the file is no longer at Discord")
        if answer.status != 200:
            raise Later(f"Discord does not give the file out just now ({answer.status})")
        came = 0
        async for chunk in answer.content.iter_chunked(CHUNK):
            came += len(chunk)
            if came > most:
                raise Refused(f"the file is bigger than {most >> 20} MB")
            yield chunk
