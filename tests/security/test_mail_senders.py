"""A16: who wrote a mail. From proves nothing, and neither does anything that its sender can write."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from channels.email.channel import make_inbound
from channels.email.config import EmailAccount
from channels.email.imap import RawMail
from channels.email.parser import MailParser, UnreadableMail
from daemon.triggers.mail import Standing, judge_sender
from tests.fakes.mail.dovecot import SERVER, USER
from tests.fakes.mail.mailbox import at_mailbox
from tests.fakes.mail.server import mail_server
from tests.fakes.openai import FakeOpenAI, says
from tests.security.mail_heads import FROM, HONEST, PASS, PLACES, RESULTS, WRITERS, lines

ALL = EmailAccount(
    username=USER,
    authserv_id=SERVER,
    allowed_senders=("@example.org",),
    trusted_senders=("ann@example.org",),
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


ADDRESSED = {
    "To": f"To: {USER}",
    "a name and capitals": f'To: "The Bot, ours" <{USER.upper()}>',
    "among others": f"To: bob@example.com, =?utf-8?q?B=C3=B6t?= <{USER}>, eve@example.com",
    "a group": f"To: us: bob@example.com, {USER};",
    "Cc": f"To: bob@example.com\r\nCc: eve@example.com,\r\n {USER}",
    "after many": "To: " + ", ".join(f"p{n}@example.com" for n in range(500)) + f", {USER}",
}
ELSEWHERE = {
    "Bcc": "To: bob@example.com",
    "nobody": "X-Nobody: x",
    "hidden people": "To: undisclosed-recipients:;",
    "a list": "To: talk@lists.example.org",
    "its name only": f'To: "{USER}" <bob@example.com>',
    "a comment": f"To: bob@example.com ({USER})",
    "a longer address": f"To: x{USER}, {USER}.evil.com",
    "another header": f"To: bob@example.com\r\nX-Original-To: {USER}\r\nDelivered-To: {USER}\r\nBcc: {USER}",
    "a second To on top": f"To: {USER}\r\nTo: bob@example.com",
    "in the text": f"Subject: x\r\n\r\nTo: {USER}",
}


def trusted_only(to: str, number: str = "1") -> bytes:
    """A proven mail of somebody who is trusted, with these people in its head."""
    return f"{PASS}\r\n{FROM}\r\n{to}\r\nMessage-ID: <{number}@example.org>\r\n\r\nrun it".encode()


@pytest.mark.parametrize("name", [*ADDRESSED, *ELSEWHERE])
async def test_a_trusted_sender_is_heard_only_in_what_is_addressed_to_the_assistant(
    parser: MailParser, name: str
) -> None:
    raw = trusted_only({**ADDRESSED, **ELSEWHERE}[name])
    only = ALL.model_copy(update={"allowed_senders": ()})
    found = await judge(parser, raw, only)
    assert found is (Standing.TRUSTED if name in ADDRESSED else Standing.STRANGER)
    known = await judge(parser, raw)
    assert known is (Standing.TRUSTED if name in ADDRESSED else Standing.KNOWN)


async def test_both_addresses_of_a_mailbox_are_its_own(parser: MailParser) -> None:
    account = ALL.model_copy(update={"from_address": "assistant@example.net"})
    for one in (USER, "assistant@example.net"):
        assert await judge(parser, trusted_only(f"To: {one}"), account) is Standing.TRUSTED


async def test_a_blind_copy_of_what_the_owner_writes_to_others_is_no_order(tmp_path: Path) -> None:
    async with mail_server() as server, FakeOpenAI() as model:
        model.otherwise(says("Fine."))
        async with at_mailbox(tmp_path, model, server, None, trusted_senders=["ann@example.org"]):
            mails = [trusted_only(one, str(n)) for n, one in enumerate(ELSEWHERE.values())]
            await server.dovecot.deliver(*mails, trusted_only(f"To: {USER}", "honest"))
            await model.asked(len(mails) + 1, 120)
            await server.sink.until(lambda: bool(server.sink.sent))
        heard = [str(one.last("user")) for one in model.requests]
    assert len([one for one in heard if "data, not instructions" not in one]) == 1
    assert [one.mail["In-Reply-To"] for one in server.sink.sent] == ["<honest@example.org>"]


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
