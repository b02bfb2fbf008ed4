"""Answers to a command that come after its acknowledgement, where the bot is no member and may show nobody anything (A14)."""

import asyncio
from collections.abc import Callable

from aiohttp import ClientConnectorError, ClientError, ConnectionTimeoutError
from yarl import URL

from channels.base import Later, Refused, Unclear
from channels.proxy import proxy_for
from channels.slack.web import Web

MOST_USES, GOOD_FOR_S = 5, 1800.0
"""Slack allows so many answers, for half an hour."""


class Afterwards:
    """`address`: the response_url that came with the command, "" for none. Whoever has it may answer in our name: it is kept as
    long as the command is being answered, and shown to nobody. `monotonic`: seconds that never go back.
    """

    def __init__(self, web: Web, address: str, timeout_s: float, monotonic: Callable[[], float]) -> None:
        self._web, self._timeout_s, self._monotonic = web, timeout_s, monotonic
        self._url = _url(address, web.base_url)
        self._left, self._ends = MOST_USES, monotonic() + GOOD_FOR_S

    @property
    def open(self) -> bool:
        """Slack will take an answer this way."""
        return self._url is not None and self._left > 0 and self._monotonic() < self._ends

    async def tell(self, text: str) -> None:
        """Show it to whoever gave the command. Raises Refused, Later, Unclear."""
        if self._url is None or not self.open:
            raise Refused(f"Slack takes {MOST_USES} answers to a command, within half an hour; the rest was not shown")
        self._left -= 1
        status = await self._post(self._url, {"response_type": "ephemeral", "text": text})
        if status == 429 or status >= 500:
            raise Later(f"Slack: the answer to a command got HTTP {status}")
        if status >= 300:
            raise Refused(f"Slack: the answer to a command was refused with HTTP {status}")

    async def _post(self, url: URL, answer: dict[str, str]) -> int:
        """The status. What goes wrong is told by its kind only: its words may hold the address."""
        try:
            async with asyncio.timeout(self._timeout_s):
                proxy = proxy_for(str(url))
                async with self._web.session.post(url, json=answer, proxy=proxy, allow_redirects=False) as response:
                    return response.status
        except (ClientConnectorError, ConnectionTimeoutError) as no:
            raise Later(f"Slack: the answer to a command: no connection ({type(no).__name__})") from None
        except (ClientError, ConnectionError, TimeoutError, ValueError) as no:
            raise Unclear(f"Slack: the answer to a command was lost ({type(no).__name__})") from None


def _url(address: str, base_url: str) -> URL | None:
    """Only Slack's own are used: of the server that we talk to, or over https of slack.com."""
    try:
        url = URL(address)
        if url.origin() == URL(base_url).origin():
            return url
    except ValueError:
        return None
    host = url.host or ""
    return url if url.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com")) else None
