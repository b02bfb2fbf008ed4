"""Realistic mails with members removed, doubled, or of a wrong type, charset or encoding: each gives a text or a named reason, in its time."""

import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from time import monotonic

import pytest
import pytest_asyncio

from channels.email.channel import make_inbound
from channels.email.compose import compose
from channels.email.imap import RawMail
from channels.email.parser import READ_S, MailParser, UnreadableMail
from channels.message import MessagePart, OutboundMessage
from tests.fakes.mail.dovecot import SERVER
from tests.fakes.mail.recorded import RECORDED
from tests.full_form import FULL

MUTATIONS, SLOW_S = (10_000 if FULL else 400), READ_S / 2
TYPES = (
    "text/plain", "text/html", "text/calendar; method=REQUEST", "multipart/mixed", "multipart/alternative",
    "multipart/alternative; boundary=", "message/rfc822", "application/octet-stream", "text/x-amp-html", "x", ";;", "",
    "text/plain; format=flowed; delsp=yes",
)  # fmt: skip
CHARSETS = (
    "utf-8",
    "gb2312",
    "utf-16",
    "utf-7",
    "ks_c_5601-1987",
    "klingon",
    "zlib",
    "idna",
    "punycode",
    "\0",
    "",
    "unicode_escape",
    "hz",
)
ENCODINGS = ("base64", "quoted-printable", "8bit", "binary", "uuencode", "x-none", "", "7bit;")
Lines = list[bytes]


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


def remove(lines: Lines, at: int, chance: random.Random) -> None:
    del lines[at : at + chance.choice((1, 1, 3, 20))]


def double(lines: Lines, at: int, chance: random.Random) -> None:
    block = lines[at : at + chance.choice((1, 1, 5, 30))]
    lines[at:at] = block * chance.choice((1, 1, 2, 40))


def move(lines: Lines, at: int, chance: random.Random) -> None:
    lines.insert(chance.randrange(len(lines)), lines.pop(at))


def retype(lines: Lines, at: int, chance: random.Random) -> None:
    lines[at] = f"Content-Type: {chance.choice(TYPES)}; charset={chance.choice(CHARSETS)}".encode()


def recode(lines: Lines, at: int, chance: random.Random) -> None:
    lines[at] = f"Content-Transfer-Encoding: {chance.choice(ENCODINGS)}".encode()


def retype_one(lines: Lines, at: int, chance: random.Random) -> None:
    kinds = [n for n, line in enumerate(lines) if line.lower().startswith(b"content-t")]
    if kinds:
        at = chance.choice(kinds)
        (retype if lines[at].lower().startswith(b"content-ty") else recode)(lines, at, chance)


def cut(lines: Lines, at: int, chance: random.Random) -> None:
    lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]


def spoil(lines: Lines, at: int, chance: random.Random) -> None:
    odd = chance.choice(
        (
            b"\0",
            b"\xff\xfe",
            b"\r",
            b'"',
            b"=?gb2312?B?xx",
            b";",
            b":",
            b"<",
            b">>",
            b"\\",
            "\ud55c".encode(),
        )
    )
    place = chance.randrange(len(lines[at]) + 1)
    lines[at] = lines[at][:place] + odd * chance.choice((1, 1, 50)) + lines[at][place:]


def stretch(lines: Lines, at: int, chance: random.Random) -> None:
    lines[at] = lines[at] * chance.choice((2, 100, 1_000))


CHANGES: tuple[Callable[[Lines, int, random.Random], None], ...] = (
    remove, double, move, retype, recode, retype_one, retype_one, cut, spoil, stretch,
)  # fmt: skip


def mutate(raw: bytes, chance: random.Random) -> bytes:
    """The mail with a few changes."""
    lines = raw.split(b"\r\n")
    for _ in range(chance.randrange(1, 6)):
        if lines:
            chance.choice(CHANGES)(lines, chance.randrange(len(lines)), chance)
    return b"\r\n".join(lines)[: 2 << 20]


@pytest.mark.parametrize("name", RECORDED)
async def test_each_recorded_mail_is_read_as_a_person_reads_it(
    parser: MailParser, name: str
) -> None:
    raw, said, unsaid = RECORDED[name]
    text = (await parser.read(raw)).text
    assert [one for one in said if one not in text] == []
    assert [one for one in unsaid if one in text] == []


@pytest.mark.parametrize(
    "subject", ["=?gb23\0012?B?1uzpRrv5?=", "=?utf-8?B?=3D=3Futf-8=3FQ=3Fa=0A?=", "=?=?"]
)
async def test_a_subject_that_looks_like_an_encoded_word_can_be_answered(
    parser: MailParser, subject: str
) -> None:
    raw = f"From: ann@example.org\r\nSubject: {subject}\r\n\r\nx".encode()
    mail = make_inbound("email", await parser.read(raw), RawMail(raw, len(raw), ""), "1/1")
    address = replace(mail.address, chat="ann@example.org")
    answer = OutboundMessage(address, MessagePart("ok", "ok"), "key", reply_to=mail.message_id)
    assert compose(answer, "bot@example.net").as_bytes().isascii()


@pytest.mark.timeout(3_600 if FULL else 120)
async def test_a_mail_whose_members_are_wrong_gives_a_text_or_a_named_reason(
    parser: MailParser,
) -> None:
    chance, mails = random.Random(24), [raw for raw, _, _ in RECORDED.values()]
    child = await parser.start()
    for number in range(MUTATIONS):
        raw, began = mutate(chance.choice(mails), chance), monotonic()
        try:
            read = await parser.read(raw)
        except UnreadableMail as error:
            assert str(error), number
            continue
        assert monotonic() - began < SLOW_S, number
        mail = make_inbound("email", read, RawMail(raw, len(raw), "2026-11-21"), "1/1")
        address = replace(mail.address, chat="ann@example.org")
        answer = OutboundMessage(address, MessagePart("ok", "ok"), "key", reply_to=mail.message_id)
        assert compose(answer, "bot@example.net").as_bytes().isascii()
        assert mail.text or mail.attachments or mail.notes, number
        assert all(one in mail.text for one in mail.data), number
    assert (await parser.start()) is child  # no mail ended it
