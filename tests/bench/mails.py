"""A mail: how long after its delivery the model is asked. A real Dovecot tells of it by IDLE, half a second late."""

import asyncio
from collections.abc import Mapping
from statistics import median
from time import perf_counter

import tomli_w

from tests.bench.figures import Figure
from tests.bench.world import World
from tests.fakes.mail.mailbox import until_watching
from tests.fakes.mail.server import mail_server, write_mail
from tests.fakes.openai import FakeOpenAI

MAILS, MOST_S = 10, 1.0
FILE = b"%PDF" + bytes(range(256)) * 4 * 1024  # a megabyte


async def waits(world: World) -> list[Figure]:
    """One after the other: a short mail, and one with a file that is fetched first."""
    short = await _waits(world, {})
    filed = await _waits(world, {"report.pdf": FILE})
    name = f"mail delivered to model asked, {MAILS} one by one"
    return [
        Figure(f"{name}: median", median(short), "s", MOST_S),
        Figure(f"{name}: longest", max(short), "s", MOST_S),
        Figure(f"{name}, with a file of 1 MB: median", median(filed), "s"),
    ]


async def _waits(world: World, files: Mapping[str, bytes]) -> list[float]:
    waited: list[float] = []
    async with mail_server() as server, FakeOpenAI() as model:
        config = {"notify": "web:owner", "allowed_senders": ["ann@example.org"]}
        more = tomli_w.dumps({"email": server.config(**config)})
        async with world.daemon(base_url=model.base_url, more=more) as daemon:
            await until_watching(daemon)
            for number in range(MAILS + 1):
                await asyncio.sleep(0.7)  # the answer before is done, and IDLE goes on
                mail = write_mail("hello", number=str(number), files=files)
                began = perf_counter()
                await server.dovecot.deliver(mail)
                await model.asked(number + 1)
                waited.append(perf_counter() - began)
    return waited[1:]  # the first starts the child that reads
