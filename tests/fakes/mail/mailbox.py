"""The daemon as a process, at a mailbox."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import tomli_w

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.mail.server import MailServer
from tests.fakes.openai import FakeOpenAI

OWNER_CHAT = "web:owner"


def mail_config(
    model: FakeOpenAI, server: MailServer, more: Mapping[str, object], **email: object
) -> str:
    """config.toml: a mailbox whose owner is told over HTTP, and whatever more is given."""
    section = server.config(**{"notify": OWNER_CHAT, **email})
    return scripted(
        model.base_url, tomli_w.dumps({"delivery": {"hold_seconds": 0}, **more, "email": section})
    )


@asynccontextmanager
async def at_mailbox(
    home: Path,
    model: FakeOpenAI,
    server: MailServer,
    more: Mapping[str, object] | None = None,
    **email: object,
) -> AsyncIterator[Daemon]:
    """The daemon, once it watches the mailbox."""
    async with running_daemon(home, mail_config(model, server, more or {}, **email)) as daemon:
        await until_watching(daemon)
        yield daemon


async def until_watching(daemon: Daemon) -> None:
    """Wait until the mailbox is open."""
    async with asyncio.timeout(20):
        while "email: connected" not in str(
            (await daemon.post("/v1/messages", text="/status"))["reply"]
        ):
            await asyncio.sleep(0.05)
