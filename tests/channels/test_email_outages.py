"""The mailbox's connection breaks, in whatever way, and the mails come all the same, each once (A14). A real Dovecot."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from channels.email.channel import Email, EmailTiming
from channels.email.config import EmailAccount
from channels.email.imap import ImapTiming
from tests.channels.host import Ledger
from tests.fakes.mail.server import MailServer, mail_server, write_mail

QUICK = EmailTiming(0.05, 0.2, ImapTiming(1.0, 1.0, 2.0))


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as made:
        yield made


@asynccontextmanager
async def watching(server: MailServer, ledger: Ledger) -> AsyncIterator[Ledger]:
    """The channel, once it has opened the mailbox."""
    account = EmailAccount.model_validate(server.config())
    channel, alive = Email(account, timing=QUICK), ledger.lives
    task = asyncio.create_task(channel.run(ledger))
    try:
        await ledger.until(lambda: ledger.lives > alive)
        yield ledger
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def deliver(server: MailServer, *texts: str) -> None:
    await server.dovecot.deliver(*(write_mail(text, number=text) for text in texts))


async def test_a_connection_that_is_reset_while_it_waits_is_made_again(server: MailServer) -> None:
    async with watching(server, Ledger()) as ledger:
        for text in ("one", "two", "three"):
            server.proxy.cut()
            await deliver(server, text)
            await ledger.until(lambda text=text: text in ledger.texts)
    assert ledger.texts == ["one", "two", "three"]


async def test_a_link_that_is_dead_and_does_not_say_so_is_noticed(server: MailServer) -> None:
    async with watching(server, Ledger()) as ledger:
        server.proxy.swallows = True
        await deliver(server, "one")
        await ledger.until(lambda: bool(ledger.ailments))
        server.proxy.swallows = False
        await ledger.until(lambda: ledger.texts == ["one"])


async def test_a_server_that_goes_and_comes_back_is_found_again(server: MailServer) -> None:
    async with watching(server, Ledger()) as ledger:
        await server.dovecot.stop()
        server.proxy.cut()
        await ledger.until(lambda: bool(ledger.ailments))
        await server.dovecot.start()
        await deliver(server, "one")
        await ledger.until(lambda: ledger.texts == ["one"])


async def test_mails_that_are_numbered_anew_come_once_and_old_ones_never(
    server: MailServer,
) -> None:
    await deliver(server, "old", "older")
    async with watching(server, Ledger()) as ledger:
        await asyncio.sleep(1.1)  # the server counts in seconds
        await deliver(server, "one", "two")
        await ledger.until(lambda: len(ledger.texts) == 2)
        await server.dovecot.stop()
        server.proxy.cut()
        server.dovecot.number_anew()
        await server.dovecot.start()
        await deliver(server, "three")
        await ledger.until(lambda: "three" in ledger.texts)
        await deliver(server, "four")
        await ledger.until(lambda: "four" in ledger.texts)
    assert sorted(ledger.texts) == ["four", "one", "three", "two"]


async def test_a_new_numbering_that_is_broken_off_goes_on_where_it_was(server: MailServer) -> None:
    await deliver(server, "old", "older")
    ledger = Ledger()
    async with watching(server, ledger):
        await asyncio.sleep(1.1)
        await deliver(server, "one")
        await ledger.until(lambda: len(ledger.texts) == 1)
    await server.dovecot.stop()
    server.dovecot.number_anew()
    await server.dovecot.start()
    await deliver(server, "two", "three", "four")
    for count in (1, 2, 3):
        async with watching(server, ledger):
            await ledger.until(lambda count=count: len(ledger.texts) > count)
            server.proxy.cut()
    async with watching(server, ledger):
        await deliver(server, "five")
        await ledger.until(lambda: "five" in ledger.texts)
    assert sorted(ledger.texts) == ["five", "four", "one", "three", "two"]


async def test_a_mail_that_the_daemon_does_not_take_is_offered_again(server: MailServer) -> None:
    async with watching(server, Ledger()) as ledger:
        ledger.refuse(3)
        await deliver(server, "one", "two")
        await ledger.until(lambda: ledger.texts == ["one", "two"])


async def test_different_mails_under_one_id_or_under_none_all_come_and_the_same_one_once(
    server: MailServer,
) -> None:
    form = [write_mail(f"form {n}", number="same") for n in range(3)]
    scans = [write_mail("scan", number="scan", files={"a.pdf": bytes([n])}) for n in range(3)]
    bare = [
        write_mail(f"bare {n}").replace(b"Message-ID: <m1@example.org>\n", b"") for n in range(2)
    ]
    titled = [write_mail("title", number="t", subject=f"number {n}") for n in range(2)]
    again = b"Received: from relay.example.org by mx.example.net; once more\r\n"
    async with watching(server, Ledger()) as ledger:
        await server.dovecot.deliver(*form, *scans, *bare, *titled)
        await ledger.until(lambda: len(ledger.texts) == 10)
        await server.dovecot.deliver(*form, *titled, *(again + mail for mail in scans))
        server.proxy.cut()
        await deliver(server, "last")
        await ledger.until(lambda: "last" in ledger.texts)
    assert sorted(ledger.texts) == sorted(
        ["form 0", "form 1", "form 2", "bare 0", "bare 1", *["scan"] * 3, *["title"] * 2, "last"]
    )


async def test_a_mail_that_is_moved_away_and_back_comes_once(server: MailServer) -> None:
    bare = write_mail("bare").replace(b"Message-ID: <m1@example.org>\n", b"")
    async with watching(server, Ledger()) as ledger:
        await server.dovecot.deliver(write_mail("one"), bare)
        await ledger.until(lambda: len(ledger.texts) == 2)
        await asyncio.to_thread(server.dovecot.move_away_and_back)
        await deliver(server, "last")
        await ledger.until(lambda: "last" in ledger.texts)
    assert sorted(ledger.texts) == ["bare", "last", "one"]
