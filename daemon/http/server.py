"""Listening: from a config and an application to an address that answers."""

import errno
from dataclasses import dataclass

from aiohttp import web

from daemon.core.errors import ConfigError
from daemon.http.config import HttpConfig

GRACE_S = 0.5
WHY = {errno.EADDRINUSE: "another program listens on it", errno.EACCES: "this user may not listen on it"}


@dataclass(slots=True)
class HttpServer:
    """Serves the application on this machine until it is closed."""

    config: HttpConfig
    app: web.Application
    _runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen, and give the address. Raises ConfigError for a port that cannot be had."""
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=GRACE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.config.host, self.config.port)
        try:
            await site.start()
        except OSError as error:
            await self.aclose()
            why = WHY.get(error.errno or 0, error.strerror)
            hint = "set another one, or 0 for any free one"
            raise ConfigError(f"http.port: {self.config.host} port {self.config.port}: {why}; {hint}") from error
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def aclose(self) -> None:
        """Stop listening; requests under way get half a second to end, streams are cut and resume elsewhere."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()
