"""What all services asked over HTTP share: address, key, connections, errors."""

import asyncio
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import Message, ModelReply, ModelRequest
from daemon.providers.base import EncodingCache, ReplyBuilder, TextCallback
from daemon.providers.errors import CallFailed, make_response_error
from daemon.providers.http import read_at_most, read_reply

LARGE_BODY = 1_000_000
MAX_REJECTED = 10_000
MIN_SECRET_CHARS = 8


def make_auth_headers(kind: str, api_key: str) -> dict[str, str]:
    """The headers that a request to this kind of service begins with."""
    if kind == "anthropic":
        return {"anthropic-version": "2023-06-01", **({"x-api-key": api_key} if api_key else {})}
    if kind == "gemini":
        return {"x-goog-api-key": api_key} if api_key else {}
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


class HttpProvider(ABC):
    """A provider. It streams when somebody watches; the reply is the same either way.

    `timeout_s` is the longest silence; a long answer that keeps coming may take any time.
    `rejects_native` finds the error of a service that refuses its own former reply.
    """

    kind: ClassVar[str]
    own_host: ClassVar[str]
    path: ClassVar[str] = ""
    rejects_native: ClassVar[re.Pattern[str] | None] = None

    def __init__(
        self,
        *,
        base_url: str,
        clock: Clock,
        api_key: str = "",
        timeout_s: float = 120.0,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        extra, base = extra_headers or {}, URL(base_url)
        self._base, self._clock, self._timeout_s = base, clock, timeout_s
        self._host = base.host or ""
        if not base.is_default_port():
            self._host += f":{base.port}"
        self.name = self.kind if self._host == self.own_host else f"{self.kind}:{self._host}"
        self._secrets = [api_key, *(v for v in extra.values() if len(v) >= MIN_SECRET_CHARS)]
        self._headers = {"Content-Type": "application/json"}
        self._headers |= {**make_auth_headers(self.kind, api_key), **extra}
        # Looked up once: aiohttp would read the environment, and ~/.netrc, at every call.
        bypass = proxy_bypass(base.host or "")
        self._proxy = None if bypass else getproxies().get(base.scheme)
        self._session: aiohttp.ClientSession | None = None
        self._rejected: set[int] = set()
        self._cache = EncodingCache()

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """The whole reply; `on_text` gets its text while it comes. Raises ProviderError."""
        if self._rejected:
            messages = tuple(self._strip_message(message) for message in request.messages)
            request = replace(request, messages=messages)
        try:
            reply = await self._send(model, request, on_text)
        except CallFailed as error:
            if self._is_native_rejected(error, model, request):
                return await self.complete(model, request, on_text)
            raise error.to_provider_error(self._host, self._secrets) from None  # may echo the key
        native = reply.native and replace(reply.native, provider=self.name, model=model)
        return replace(reply, provider=self.name, model=model, native=native)

    async def aclose(self) -> None:
        """Close connections."""
        if self._session:
            await self._session.close()

    @abstractmethod
    def _prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[bytes, ReplyBuilder]:
        """The body of the call, and what reads its answer."""

    def _make_url(self, model: str, stream: bool) -> URL:
        return self._add_path(self.path)

    def _add_path(self, path: str) -> URL:
        base = self._base
        return base.with_path(base.path.rstrip("/") + path, keep_query=True) if path else base

    async def _send(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        """One call. Raises CallFailed."""
        stream = on_text is not None
        body, builder = self._prepare(model, request, stream)
        # Large bytes would be written in one go.
        data = body if len(body) < LARGE_BODY else io.BytesIO(body)
        try:
            # Connecting and waiting are two silences; this also ends an upload that nobody reads.
            async with asyncio.timeout(2 * self._timeout_s):
                response = await self._get_session().post(
                    self._make_url(model, stream),
                    data=data,
                    proxy=self._proxy,
                    allow_redirects=False,
                )
            async with response:
                if response.status >= 300:
                    raise await self._read_error(response)
                await read_reply(response, builder, on_text, self._timeout_s)
        except TimeoutError as error:
            silence = f"it was silent for {self._timeout_s:g} s"
            raise CallFailed(ErrorClass.TIMEOUT, silence) from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # UnicodeError: a bad name
            raise CallFailed(ErrorClass.NETWORK, _describe_error(error)) from error
        return builder.build(request)

    async def _read_error(self, response: aiohttp.ClientResponse) -> CallFailed:
        if response.status < 400:
            target = f"it redirects to {response.headers.get('Location')}"
            return CallFailed(ErrorClass.BAD_REQUEST, target, status=response.status)
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await read_at_most(response, LARGE_BODY)
        except TimeoutError:
            body = b""  # the status says enough
        return make_response_error(response.status, response.headers, body, self._clock.now())

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
            )
        return self._session

    def _is_native_rejected(self, error: CallFailed, model: str, request: ModelRequest) -> bool:
        """After a change of the account's key a service may refuse its own former thinking.

        What this request gave back is left out from now on. False if that is nothing new.
        """
        wrong = error.kind in (ErrorClass.BAD_REQUEST, ErrorClass.NOT_FOUND)
        if not (wrong and self.rejects_native and self.rejects_native.search(error.detail)):
            return False
        natives = [message.native for message in request.messages if message.native]
        sent = {hash(n.blocks) for n in natives if (n.provider, n.model) == (self.name, model)}
        is_new = bool(sent - self._rejected)
        if len(self._rejected) > MAX_REJECTED:
            self._rejected.clear()
        self._rejected |= sent
        return is_new

    def _strip_message(self, message: Message) -> Message:
        rejected = message.native is not None and hash(message.native.blocks) in self._rejected
        return replace(message, native=None) if rejected else message


def _describe_error(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case aiohttp.ClientOSError():
            words = str(getattr(error, "certificate_error", ""))
            return words or error.strerror or str(error)
        case _:
            return str(error) or type(error).__name__
