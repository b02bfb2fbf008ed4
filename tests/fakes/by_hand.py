"""A fake platform by hand: prints the section for config.toml, and where people type."""

import argparse
import asyncio
import sys
from typing import Protocol

import tomli_w
from aiohttp import web

from tests.fakes.page import routes
from tests.fakes.platform import Platform


class Served(Platform, Protocol):
    """A fake that serves pages beside what the platform has."""

    @property
    def url(self) -> str:
        """Its root."""
        ...

    @property
    def pages(self) -> list[web.RouteDef]:
        """Those; to be added to before it starts."""
        ...


class Make(Protocol):
    """A fake's class."""

    def __call__(self, *, port: int) -> Served:
        """The fake, on this port."""
        ...


def by_hand(make: Make, port: int) -> None:
    """Until it is interrupted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=port)
    asyncio.run(_serve(make(port=parser.parse_args().port)))


async def _serve(platform: Served) -> None:
    platform.pages.extend(routes(platform))
    await platform.start()
    sys.stdout.write(
        tomli_w.dumps({platform.name: platform.config()}) + f"\n# {platform.url}/_page\n"
    )
    sys.stdout.flush()
    await asyncio.Event().wait()
