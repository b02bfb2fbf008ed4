"""A server of models beside the one that chats, at one path."""

from dataclasses import dataclass, field
from typing import ClassVar, Self

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass
class FakeService:
    """`keys`: what it was shown of keys. A subclass answers."""

    keys: set[str] = field(default_factory=set, kw_only=True)
    _server: TestServer | None = field(default=None, kw_only=True)
    path: ClassVar[str]

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post(self.path, self._answer)
        self._server = TestServer(app)
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        await self._server.close()

    @property
    def host(self) -> str:
        """With its port."""
        assert self._server
        return f"127.0.0.1:{self._server.port}"

    async def _answer(self, request: web.Request) -> web.Response:
        raise NotImplementedError
