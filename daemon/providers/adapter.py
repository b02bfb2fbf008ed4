"""What all services that are asked over HTTP have in common: a name, an address, a key, and what is told when it goes wrong."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Required, TypedDict

from yarl import URL

from daemon.core.clock import Clock
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers.base import OnText
from daemon.providers.credentials import credentials
from daemon.providers.errors import Fault
from daemon.providers.refused import Refused
from daemon.providers.transport import Transport

SECRET_CHARS = 8


class Connection(TypedDict, total=False):
    """What an adapter is made of: the words of [provider], or of a fallback."""

    base_url: Required[str]
    clock: Required[Clock]
    api_key: str
    timeout_s: float
    extra_headers: Mapping[str, str]


class Adapter(ABC):
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
        self._host = host if self._base.is_default_port() else f"{self._base.host}:{self._base.port}"
        self._secrets = (api_key, *(value for value in extra.values() if len(value) >= SECRET_CHARS))
        self._refused = Refused()
        headers = {**credentials(self.kind, api_key), **extra}
        self._transport = Transport(url=self._below(self.path), headers=headers, timeout_s=timeout_s, clock=clock)

    @property
    def name(self) -> str:
        """Its kind, with the host where it is not the service's own."""
        return self.kind if self._host == self.own_host else f"{self.kind}:{self._host}"

    async def complete(self, model: str, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError."""
        try:
            reply = await self._taken_back(model, request, on_text)
        except Fault as fault:
            raise fault.told(self._host, self._secrets) from None  # the fault's own words may echo the key
        native = reply.native and replace(reply.native, provider=self.name, model=model)
        return replace(reply, provider=self.name, model=model, native=native)

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._transport.aclose()

    @abstractmethod
    async def _ask(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        """One call. Raises Fault."""

    def _refuses(self, fault: Fault) -> bool:
        """The fault says that a former reply's own form was not taken back."""
        return False

    async def _taken_back(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        """Thoughts that it will not take back, as after a change of the account's key, must not end a conversation."""
        told = self._refused.without(request)
        try:
            return await self._ask(model, told, on_text)
        except Fault as fault:
            if not self._refuses(fault) or not self._refused.learn(told, self.name, model):
                raise
        return await self._ask(model, self._refused.without(told), on_text)

    def _below(self, path: str) -> URL:
        return self._base.with_path(self._base.path.rstrip("/") + path, keep_query=True) if path else self._base
