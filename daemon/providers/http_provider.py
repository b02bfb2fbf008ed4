"""How each service wants to be shown its key.

Replies in their provider's own form that the provider does not take back.

What all services that are asked over HTTP have in common: a name, an address, a key, and what is told when it goes wrong.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Required, TypedDict

from yarl import URL

from daemon.core.clock import Clock
from daemon.core.messages import Message, ModelReply, ModelRequest
from daemon.providers.base import TextCallback
from daemon.providers.errors import CallFailed
from daemon.providers.http import Transport


def make_auth_headers(kind: str, api_key: str) -> dict[str, str]:
    """The headers that a request to this kind of service begins with."""
    if kind == "anthropic":
        return {"anthropic-version": "2023-06-01", **({"x-api-key": api_key} if api_key else {})}
    if kind == "gemini":
        return {"x-goog-api-key": api_key} if api_key else {}
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


MAX_REJECTED = 10_000


@dataclass(slots=True)
class RejectedNative:
    """After a change of the account's key, thoughts can be void; that must not be the end of a conversation."""

    _known: set[int] = field(default_factory=set)

    def strip_from(self, request: ModelRequest) -> ModelRequest:
        """The request, with nothing in it that has been refused before."""
        if not self._known:
            return request
        return replace(
            request, messages=tuple(self._strip_message(message) for message in request.messages)
        )

    def add(self, request: ModelRequest, provider: str, model: str) -> bool:
        """All that this request gave back is refused from now on; False if that is nothing."""
        if len(self._known) > MAX_REJECTED:
            self._known.clear()
        natives = [message.native for message in request.messages if message.native]
        found = {
            hash(native.blocks)
            for native in natives
            if (native.provider, native.model) == (provider, model)
        }
        news = bool(found - self._known)
        self._known |= found
        return news

    def _strip_message(self, message: Message) -> Message:
        known = message.native is not None and hash(message.native.blocks) in self._known
        return replace(message, native=None) if known else message


MIN_SECRET_CHARS = 8


class ConnectionOptions(TypedDict, total=False):
    """What an adapter is made of: the words of [provider], or of a fallback."""

    base_url: Required[str]
    clock: Required[Clock]
    api_key: str
    timeout_s: float
    extra_headers: Mapping[str, str]


class HttpProvider(ABC):
    """A provider. It streams when somebody watches; the reply is the same either way."""

    kind: ClassVar[str]
    own_host: ClassVar[str]
    path: ClassVar[str] = ""

    def __init__(
        self,
        *,
        base_url: str,
        clock: Clock,
        api_key: str = "",
        timeout_s: float = 120.0,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        extra = dict(extra_headers or {})
        self._base = URL(base_url)
        host = self._base.host or ""
        self._host = (
            host if self._base.is_default_port() else f"{self._base.host}:{self._base.port}"
        )
        self._secrets = (
            api_key,
            *(value for value in extra.values() if len(value) >= MIN_SECRET_CHARS),
        )
        self._refused = RejectedNative()
        headers = {**make_auth_headers(self.kind, api_key), **extra}
        self._transport = Transport(
            url=self._build_url(self.path), headers=headers, timeout_s=timeout_s, clock=clock
        )

    @property
    def name(self) -> str:
        """Its kind, with the host where it is not the service's own."""
        return self.kind if self._host == self.own_host else f"{self.kind}:{self._host}"

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError."""
        try:
            reply = await self._ask_without_rejected(model, request, on_text)
        except CallFailed as fault:
            raise fault.to_provider_error(
                self._host, self._secrets
            ) from None  # the fault's own words may echo the key
        native = reply.native and replace(reply.native, provider=self.name, model=model)
        return replace(reply, provider=self.name, model=model, native=native)

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._transport.aclose()

    @abstractmethod
    async def _send(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        """One call. Raises Fault."""

    def _is_native_rejected(self, fault: CallFailed) -> bool:
        """The fault says that a former reply's own form was not taken back."""
        return False

    async def _ask_without_rejected(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        """Thoughts that it will not take back, as after a change of the account's key, must not end a conversation."""
        told = self._refused.strip_from(request)
        try:
            return await self._send(model, told, on_text)
        except CallFailed as fault:
            if not self._is_native_rejected(fault) or not self._refused.add(told, self.name, model):
                raise
        return await self._send(model, self._refused.strip_from(told), on_text)

    def _build_url(self, path: str) -> URL:
        return (
            self._base.with_path(self._base.path.rstrip("/") + path, keep_query=True)
            if path
            else self._base
        )
