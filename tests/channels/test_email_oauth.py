"""A mailbox that takes no password (OAuth2): a real Dovecot that asks a server of tokens on loopback, and an SMTP server that does."""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from channels.base import ChannelError, RetryLater, Revoked
from channels.email.channel import Email, EmailTiming
from channels.email.config import EmailAccount
from channels.email.imap import ImapTiming
from channels.message import Address, MessagePart, OutboundMessage
from tests.channels.host import Ledger, running
from tests.fakes.mail.server import MailServer, mail_server, write_mail
from tests.fakes.mail.tokens import TokenServer

SOON = EmailTiming(first_s=0.02, longest_s=0.1, imap=ImapTiming(call_s=5, idle_s=3))
HELLO = OutboundMessage(Address("email", "ann@example.org"), MessagePart("hello", "hello"), "k1")


@dataclass(slots=True)
class Place:
    """A mailbox, its tokens, and the channel; `told`: each error, as a log would have it."""

    server: MailServer
    tokens: TokenServer
    channel: Email
    told: list[str] = field(default_factory=list)

    async def fails(self, doing: object) -> ChannelError:
        """The error in which it ends, soon."""
        with pytest.raises(ChannelError) as error:
            async with asyncio.timeout(4):
                await doing  # type: ignore[misc]
        self.told += traceback.format_exception(error.value)
        return error.value


@pytest.fixture
async def place(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Place]:
    """At its end nothing that was told holds a token."""
    caplog.set_level(logging.DEBUG)
    tokens = TokenServer()
    await tokens.start()
    try:
        async with mail_server(tokens=tokens) as server:
            config = EmailAccount.model_validate(server.config(**tokens.config()))
            made = Place(server, tokens, Email(config, timing=SOON))
            yield made
    finally:
        await tokens.stop()
    theirs = ("mail.", "aiohttp.access")  # the logs of the servers
    told = [
        one.getMessage() + str(one.exc_text)
        for one in caplog.get_records("call")
        if not one.name.startswith(theirs)
    ]
    assert not [one for one in tokens.secrets() if one in "\n".join(told + made.told)]


async def test_mails_are_read_and_sent_with_one_token_as_long_as_it_is_good(place: Place):
    host = Ledger()
    async with running(place.channel, host):
        await host.until(lambda: host.lives > 0)
        await place.server.dovecot.deliver(write_mail("by token"))
        await host.until(lambda: host.texts == ["by token"])
        await place.channel.send(HELLO)
        assert await place.channel.check()
    assert len(place.tokens.given) == 1 == len(place.server.sink.sent)


async def test_a_token_that_is_about_to_expire_is_replaced_before(place: Place):
    place.tokens.lasts = 60
    for _ in range(2):
        assert await place.channel.check()
        place.tokens.withdraw()
    assert len(place.tokens.given) == 4  # for IMAP and for SMTP, each time


async def test_a_token_that_ended_before_its_time_is_replaced_and_nothing_is_lost(place: Place):
    host = Ledger()
    async with running(place.channel, host) as task:
        await host.until(lambda: host.lives > 0)
        place.tokens.withdraw()
        place.server.proxy.cut()
        await place.server.dovecot.deliver(write_mail("meanwhile"))
        await host.until(lambda: host.texts == ["meanwhile"] or task.done())
        place.tokens.withdraw()
        await place.channel.send(HELLO)
    assert [one.text for one in place.server.sink.sent] == ["hello"]


async def test_a_refresh_token_that_is_refused_ends_it_and_says_what_to_do(place: Place):
    place.tokens.good = []
    for doing in (
        place.channel.check(),
        place.channel.send(HELLO),
        place.channel.run(Ledger()),
    ):
        error = await place.fails(doing)
        assert isinstance(error, Revoked) and "new refresh_token" in str(error)


async def test_a_new_token_that_the_mail_server_refuses_ends_it_soon_and_says_where_to_look(
    place: Place,
):
    place.tokens.takes = False
    for doing in (place.channel.check(), place.channel.send(HELLO), place.channel.run(Ledger())):
        error = await place.fails(doing)
        assert isinstance(error, Revoked) and "[email.oauth]" in str(error)


async def test_tokens_that_are_good_for_reading_only_are_told(place: Place):
    place.tokens.sends = False
    for _ in range(2):
        error = await place.fails(place.channel.check())
        assert isinstance(error, Revoked) and "[email.oauth]" in str(error)


ANSWERS = [(500, "{}"), (503, "<html>"), (200, "<html>"), (200, "[]"), (429, "{}")]


async def test_while_the_server_of_tokens_is_out_of_order_it_is_later(place: Place):
    for place.tokens.answer in ANSWERS:
        assert isinstance(await place.fails(place.channel.send(HELLO)), RetryLater)
    place.tokens.answer = None
    await place.channel.send(HELLO)


async def test_while_the_server_of_tokens_is_away_it_is_later(place: Place):
    await place.tokens.stop()
    assert isinstance(await place.fails(place.channel.check()), RetryLater)
