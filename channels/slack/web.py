"""Calls of Slack's web API: one try each, with a timeout; what went wrong is said as the house needs it (B5 #13)."""

import asyncio
import logging

from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout, ConnectionTimeoutError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.base import ChannelError, Later, Revoked
from channels.proxy import proxy_for
from channels.slack.errors import Declined, lost, refusal
from channels.slack.shape import Json, text


def quiet() -> logging.Logger:
    """A logger for the library, which else makes up every line, wanted or not; the house says what went wrong."""
    return logging.Logger("slack_sdk", logging.CRITICAL + 1)


class Web:
    """The web API of one workspace. The library tries nothing again: after a lost answer that would post a message twice."""

    def __init__(self, *, app_token: str, bot_token: str, base_url: str, timeout_s: float) -> None:
        self.base_url = base_url
        self.proxy = proxy_for(base_url)
        self._app_token, self._bot_token, self._timeout_s = app_token, bot_token, timeout_s
        self._session: ClientSession | None = None
        self._client: AsyncWebClient | None = None

    @property
    def session(self) -> ClientSession:
        """The connections; opened when first needed."""
        if self._session is None or self._session.closed:
            self._session = ClientSession(timeout=ClientTimeout(total=None, sock_connect=10))
            self._client = None
        return self._session

    @property
    def client(self) -> AsyncWebClient:
        """The library's client."""
        session = self.session
        if self._client is None:
            token, url = self._bot_token, self.base_url
            self._client = AsyncWebClient(token=token, base_url=url, session=session, retry_handlers=[], logger=quiet())
            self._client.proxy = self.proxy  # the library takes any from the environment, and knows no exceptions
        return self._client

    @property
    def bearer(self) -> dict[str, str]:
        """The header for Slack's own files; it goes nowhere else."""
        return {"Authorization": f"Bearer {self._bot_token}"}

    async def write(self, method: str, **arguments: object) -> Json:
        """Change something. Raises Declined, Later, Unclear, Revoked."""
        return await self._call(method, writes=True, json=_given(arguments))

    async def read(self, method: str, **arguments: object) -> Json:
        """Ask for something. Raises Declined, Later, Revoked."""
        return await self._call(method, writes=False, http_verb="GET", params=_given(arguments))

    async def who(self) -> Json:
        """`auth.test`: who we are there. Raises Later, Revoked."""
        try:
            return await self._call("auth.test", writes=False, json={})
        except Declined as no:
            raise Revoked(str(no)) from no

    async def socket(self) -> str:
        """Where to listen: an address that is good for one connection. Raises Later, Revoked."""
        try:
            return text(await self._call("apps.connections.open", writes=False, params={"token": self._app_token}), "url")
        except Declined as no:
            raise Revoked(f"{no}; app_token needs connections:write, and Socket Mode has to be on") from no

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _call(self, method: str, *, writes: bool, **request: object) -> Json:
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self.client.api_call(method, **request)  # type: ignore[arg-type]
        except SlackApiError as no:
            raise _refused(method, no, writes=writes) from None
        except (ClientConnectorError, ConnectionTimeoutError) as no:
            raise Later(f"Slack: {method}: no connection ({type(no).__name__})") from no
        except (ClientError, ConnectionError, TimeoutError) as no:
            raise lost(f"Slack: {method}: the answer was lost ({type(no).__name__})", writes=writes) from no
        except (AttributeError, TypeError, ValueError) as no:  # the library trips over answers that are no JSON objects
            raise lost(f"Slack: {method}: the answer cannot be read", writes=writes) from no
        return answer.data if isinstance(answer.data, dict) else {}


def _given(arguments: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in arguments.items() if value not in ("", None)}


def _refused(method: str, no: SlackApiError, *, writes: bool) -> ChannelError:
    response = no.response
    answer = getattr(response, "data", None)
    status = getattr(response, "status_code", None) or getattr(response, "status", 200)
    headers = getattr(response, "headers", {})
    return refusal(method, int(status), answer if isinstance(answer, dict) else {}, headers, writes=writes)
