"""What is read of mails that are broken, or made to break us (A14): always something, in little time, and nothing else stops."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest
import pytest_asyncio

from channels.base import RetryLater
from channels.email.channel import make_inbound
from channels.email.compose import compose
from channels.email.imap import RawMail
from channels.email.parser import MailParser, UnreadableMail
from channels.message import MessagePart, OutboundMessage
from tests.fakes.mail.dovecot import SERVER
from tests.fakes.mail.odd import BROKEN, COSTLY

MOST_S = 6.0
ANSWER = "; print(open(sys.argv[0] + '.json').read())"


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_mail_is_read_all_the_same(parser: MailParser, name: str) -> None:
    assert "findme" in (await parser.read(BROKEN[name])).text


@pytest.mark.parametrize("name", COSTLY)
async def test_a_mail_made_to_cost_much_is_read_as_far_as_it_goes_in_little_time(
    parser: MailParser, name: str
) -> None:
    began = getrusage(RUSAGE_CHILDREN)
    read = await parser.read(COSTLY[name])
    child = await parser.start()
    assert child.returncode is None  # it did not end by this mail
    await parser.aclose()
    used = getrusage(RUSAGE_CHILDREN)
    assert used.ru_utime - began.ru_utime < MOST_S
    assert read.sender == "ann@example.org"


async def test_whatever_letters_change_a_mail_is_read_and_can_be_answered(
    parser: MailParser,
) -> None:
    chance = random.Random(12)
    mails = [raw for raw in (*BROKEN.values(), *COSTLY.values()) if len(raw) < 20_000]
    for _ in range(300):
        raw = bytearray(chance.choice(mails))
        for _ in range(chance.randrange(1, 12)):
            raw[chance.randrange(len(raw))] = chance.choice((chance.randrange(256), 10, 13, 34, 60))
        read = await parser.read(bytes(raw))
        mail = make_inbound("email", read, RawMail(bytes(raw), len(raw), "2026-11-21"), "1/1")
        address = replace(mail.address, chat="ann@example.org")
        answer = OutboundMessage(address, MessagePart("ok", "ok"), "key", reply_to=mail.message_id)
        assert compose(answer, "bot@example.net").as_bytes().isascii()


async def test_of_a_mail_that_ends_the_child_the_beginning_is_read(tmp_path: Path) -> None:
    program = tmp_path / "child.py"
    program.write_text(
        "import sys; assert int(sys.stdin.buffer.readline().split()[0]) < 30_000" + ANSWER
    )
    (tmp_path / "child.py.json").write_text(await answer())
    parser = MailParser(SERVER, program)
    assert (await parser.read(b"x" * 100_000)).cut
    await parser.aclose()


async def test_a_reader_that_is_broken_itself_sets_no_mail_aside(tmp_path: Path) -> None:
    program = tmp_path / "child.py"
    program.write_text("raise SystemExit('a library is missing')")
    parser = MailParser(SERVER, program)
    with pytest.raises(RetryLater):
        await parser.read(b"From: ann@example.org\r\n\r\ntext")


async def test_only_a_mail_that_cannot_be_read_at_all_is_set_aside(tmp_path: Path) -> None:
    program = tmp_path / "child.py"
    program.write_text(
        "import sys; assert int(sys.stdin.buffer.readline().split()[0]) == 0" + ANSWER
    )
    (tmp_path / "child.py.json").write_text(await answer())
    parser = MailParser(SERVER, program)
    with pytest.raises(UnreadableMail):
        await parser.read(b"From: ann@example.org\r\n\r\ntext")


async def answer() -> str:
    """What the child says of an empty mail."""
    parser = MailParser(SERVER)
    read = await parser.read(b"")
    await parser.aclose()
    return read.model_dump_json()


STRUCTURES = {
    '(("text" "plain" NIL NIL NIL "7bit" 11 1)("image" "png" ("name" "a.png") NIL NIL "base64" 7800 NIL NIL) "mixed"))': [
        ("2", "a.png", 5700)
    ],
    '("application" "pdf" ("name" "a b.pdf") NIL NIL "7bit" 78 NIL NIL NIL)': [
        ("1", "a b.pdf", 76)
    ],
    '("image" "png" ("name" "=?utf-8?q?=C3=BC=0A.png?=") NIL NIL "7bit" 78)': [("1", "ü .png", 76)],
    '("text" "plain" NIL NIL NIL "7bit" 78 1 NIL ("attachment" ("filename" "q\\"uo\\\\te.txt")))': [
        ("1", "quote.txt", 76)
    ],
    "(" * 50_000: [],
    "(" * 50_000 + ")" * 50_000: [],
    '("image" "png" NIL': [],
    '("image" "png" NIL NIL NIL "base64" "many")': [],
    '("a\r\nX: y" "b;c" ("name" "x\r\nY: z") NIL NIL NIL 78)': [("1", "x Y: z", 76)],
    "": [],
    '"': [],
    ")))": [],
}
"""What a server tells of a large mail's parts, and the files in it."""


@pytest.mark.parametrize("told", STRUCTURES)
async def test_the_files_of_a_large_mail_are_those_that_the_server_tells_of(
    parser: MailParser, told: str
) -> None:
    read = await parser.read(b"From: ann@example.org\r\n\r\ntext", told.encode("latin-1"))
    assert [(one.number, one.name, one.size) for one in read.files] == STRUCTURES[told]
    assert read.text == "text"
