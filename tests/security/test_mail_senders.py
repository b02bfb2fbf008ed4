"""A16: who wrote a mail. From proves nothing, and neither does anything that its sender can write."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest_asyncio

from channels.email.channel import make_inbound
from channels.email.config import EmailAccount
from channels.email.imap import RawMail
from channels.email.parser import MailParser, UnreadableMail
from daemon.triggers.mail import Standing, judge_sender
from tests.fakes.mail.dovecot import SERVER
from tests.fakes.mail.mailbox import at_mailbox
from tests.fakes.mail.server import mail_server
from tests.fakes.openai import FakeOpenAI, says
from tests.security.mail_heads import FROM, HONEST, PASS, PLACES, RESULTS, WRITERS, lines

ALL = EmailAccount(
    authserv_id=SERVER, allowed_senders=("@example.org",), trusted_senders=("ann@example.org",)
)


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


async def judge(parser: MailParser, raw: bytes, account: EmailAccount = ALL) -> Standing:
    """As the channel reads it, and the trigger judges it."""
    mail = RawMail(raw, len(raw), "2026-11-21")
    return judge_sender(make_inbound("email", await parser.read(raw), mail, "1/1"), account)


async def trusted(parser: MailParser, mails: Mapping[str, bytes]) -> list[str]:
    """Those that are believed, and those that cannot be read."""
    found: list[str] = []
    for name, raw in mails.items():
        try:
            if await judge(parser, raw) != Standing.STRANGER:
                found.append(name)
        except UnreadableMail:
            found.append(f"{name}: unreadable")
    return found


async def test_a16_a_statement_of_our_server_that_it_did_not_make_gives_no_trust(
    parser: MailParser,
) -> None:
    assert await trusted(parser, PLACES) == []


async def test_a16_no_result_but_one_for_the_very_domain_gives_trust(parser: MailParser) -> None:
    assert await trusted(parser, RESULTS) == []


async def test_a16_no_way_to_write_a_sender_gives_trust(parser: MailParser) -> None:
    assert await trusted(parser, WRITERS) == []


async def test_a16_what_our_server_vouches_for_is_believed(parser: MailParser) -> None:
    assert await trusted(parser, HONEST) == list(HONEST)
    assert {name: await judge(parser, raw) for name, raw in HONEST.items()} == dict.fromkeys(
        HONEST, Standing.TRUSTED
    )


async def test_a16_whoever_is_spoofed_in_a_real_mailbox_gets_no_answer_and_no_say(
    tmp_path: Path,
) -> None:
    forged = {raw for table in (PLACES, RESULTS, WRITERS) for raw in table.values()}
    honest = lines(PASS, FROM, "Message-ID: <honest@example.org>")
    config = {
        "reply": True, "allowed_senders": ["@example.org"], "trusted_senders": ["ann@example.org"]
    }  # fmt: skip
    async with mail_server() as server, FakeOpenAI() as model:
        model.otherwise(says("Fine."))
        async with at_mailbox(
            tmp_path, model, server, {"limits": {"events_per_minute": 0}}, **config
        ):
            await server.dovecot.deliver(*forged, honest)
            await model.asked(len(forged) + 1, 120)
            await server.sink.until(lambda: bool(server.sink.sent))
        heard = [str(one.last("user")) for one in model.requests]
    assert len([one for one in heard if "data, not instructions" not in one]) == 1
    assert [one.mail["In-Reply-To"] for one in server.sink.sent] == ["<honest@example.org>"]
