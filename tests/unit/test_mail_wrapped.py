"""Words that stand inside of something else (A14): a signature, Outlook's package, an encoded mail, a report; and what is encrypted."""

from base64 import b64encode
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from channels.email.parser import MailParser, ReadMail
from tests.fakes.mail.dovecot import SERVER

SIGNED, ENVELOPED = (bytes.fromhex(f"2a864886f70d01070{n}") for n in (2, 3))
INNER = b"Content-Type: text/plain; charset=utf-8\r\n\r\nThe key is under the mat.\r\n"
WITH_FILE = (
    b"Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n" + INNER + b"--c\r\n"
    b"Content-Type: application/pdf; name=plan.pdf\r\n\r\nx\r\n--c--\r\n"
)
UNREADABLE = "[It is encrypted, and cannot be read here]"


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


def part(kind: str, data: bytes) -> str:
    """A part with these bytes."""
    return f"Content-Type: {kind}\r\nContent-Transfer-Encoding: base64\r\n\r\n{b64encode(data).decode()}\r\n"


async def read(parser: MailParser, body: str, subject: str = "hello", more: str = "") -> ReadMail:
    head = f"From: ann@example.org\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\n{more}"
    return await parser.read((head + body).encode())


def ber(tag: int, *inner: bytes, is_open: bool = False) -> bytes:
    """An element, of which the length comes first, or two zeros at the end."""
    held = b"".join(inner)
    if is_open:
        return bytes((tag, 0x80)) + held + b"\0\0"
    size = len(held).to_bytes(3)
    return bytes((tag, 0x83)) + size + held


def cms(content: bytes, *, name: bytes = SIGNED, is_open: bool = False) -> bytes:
    """As mail programs make it, in one piece or, as it is written, in many."""
    pieces = [ber(4, content[at : at + 40]) for at in range(0, len(content), 40)]
    octets = ber(0x24, *pieces, is_open=True) if is_open else ber(4, content)
    held = ber(0x30, ber(6, name[:-1] + b"\1"), ber(0xA0, octets, is_open=is_open), is_open=is_open)
    data = ber(0x30, ber(2, b"\1"), ber(0x31), held, ber(0x31), is_open=is_open)
    return ber(0x30, ber(6, name), ber(0xA0, data, is_open=is_open), is_open=is_open)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("kind", ["pkcs7-mime; smime-type=signed-data", "x-pkcs7-mime"])
async def test_the_words_inside_of_a_signature_are_the_mail(parser: MailParser, kind: str, is_open: bool) -> None:
    found = await read(parser, part(f"application/{kind}; name=smime.p7m", cms(INNER, is_open=is_open)))
    assert (found.text, found.quoted) == ("The key is under the mat.", [])
    assert [one.name for one in found.files] == ["smime.p7m"]


async def test_the_files_inside_of_a_signature_are_named(parser: MailParser) -> None:
    found = await read(parser, part("application/pkcs7-mime; name=smime.p7m", cms(WITH_FILE)))
    assert found.text == "The key is under the mat.\n\n[Files in smime.p7m: plan.pdf]"


async def test_a_signed_file_is_a_file(parser: MailParser) -> None:
    found = await read(parser, part("application/pkcs7-mime; name=a.pdf.p7m", cms(b"%PDF-1.7 \x00")))
    assert (found.text, [one.name for one in found.files]) == ("", ["a.pdf.p7m"])


@pytest.mark.parametrize(
    "body",
    [
        part("application/pkcs7-mime; name=smime.p7m", cms(b"x", name=ENVELOPED)),
        part("application/pkcs7-mime; name=smime.p7m", cms(INNER)[:60]),
        part("application/pkcs7-mime; name=smime.p7m", b"\x30" * 5_000),
        part("application/pkcs7-mime; name=smime.p7m", b"\x30\x80" * 5_000),
        "Content-Type: multipart/encrypted; boundary=c\r\n\r\n--c\r\n"
        "Content-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n--c\r\n"
        "Content-Type: application/octet-stream\r\n\r\n-----BEGIN PGP MESSAGE-----\r\n--c--\r\n",
    ],
)
async def test_what_is_encrypted_or_broken_says_so(parser: MailParser, body: str) -> None:
    assert (await read(parser, body)).text == UNREADABLE


def tnef(*held: tuple[int, bytes]) -> bytes:
    """Outlook's package."""
    rows = (
        b"\1" + kind.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data + b"\0\0"
        for kind, data in held
    )
    return bytes.fromhex("789f3e220100") + b"".join(rows)


async def test_of_outlooks_package_the_text_is_seen_and_its_files_are_named(parser: MailParser) -> None:
    data = tnef((0x2800C, b"See the plan.\0"), (0x18010, b"plan.pdf\0"), (0x6800F, b"%PDF"), (0x18010, b"b.xls\0"))
    found = await read(parser, part("application/ms-tnef; name=winmail.dat", data))
    assert found.text == "See the plan.\n\n[Files in winmail.dat: plan.pdf, b.xls]"
    assert found.quoted == ["[Files in winmail.dat: plan.pdf, b.xls]"]
    body = f"--c\r\nContent-Type: text/plain\r\n\r\nSee the plan.\r\n--c\r\n{part('application/ms-tnef', data)}--c--\r\n"
    found = await read(parser, f"Content-Type: multipart/mixed; boundary=c\r\n\r\n{body}")
    assert found.text == "See the plan.\n\n[Files in it: plan.pdf, b.xls]"


@pytest.mark.parametrize("data", [b"", b"no package", tnef((0x18010, b"plan.pdf\0"))[:9]])
async def test_a_broken_package_is_a_file(parser: MailParser, data: bytes) -> None:
    found = await read(parser, part("application/ms-tnef; name=winmail.dat", data))
    assert (found.text, [one.name for one in found.files]) == ("", ["winmail.dat"])


async def test_a_mail_in_a_mail_may_be_encoded(parser: MailParser) -> None:
    found = await read(parser, part("message/rfc822", b"From: bob@example.org\r\nSubject: rent\r\n\r\nIt is due."))
    assert found.text == "[A mail that came with it]\nFrom: bob@example.org\nSubject: rent\n\nIt is due."


@pytest.mark.parametrize("charset", ["gb2312", "big5", "euc-kr", "iso-2022-jp", "utf-8"])
@pytest.mark.parametrize("form", ["b", "q"])
async def test_a_letter_of_a_subject_may_be_cut_in_two(parser: MailParser, charset: str, form: str) -> None:
    words = {"euc-kr": "안녕하세요", "iso-2022-jp": "日本語"}.get(charset, "你好")
    raw = words.encode(charset)
    pieces = [raw[at : at + 3] for at in range(0, len(raw), 3)]
    texts = (
        b64encode(one).decode() if form == "b" else "".join(f"={sign:02X}" for sign in one) for one in pieces
    )
    subject = "\r\n ".join(f"=?{charset}?{form}?{text}?=" for text in texts)
    assert (await read(parser, "Content-Type: text/plain\r\n\r\nx", subject=f"Re: {subject}")).subject == f"Re: {words}"


COPY = "Return-Path: <bot@example.net>\r\nMessage-ID: <k.0123456789abcdef@example.net>\r\nSubject: hi\r\n\r\nhello\r\n"
QMAIL = (
    "Hi. This is the qmail-send program at mx.example.org.\r\nI'm afraid I wasn't able to deliver your message\r\n\r\n"
    "<Bob@example.org>:\r\n10.5.1.1 does not like recipient.\r\nRemote host said: 550 5.1.1 No such user\r\n\r\n"
    f"--- Below this line is a copy of the message.\r\n\r\n{COPY}\r\n\r\n<eve@example.org>:\r\n"
)
EXIM = (
    "A message that you sent could not be delivered:\r\n\r\n  bob@example.org\r\n    550 5.1.1 no such user\r\n\r\n"
    f"------ This is a copy of the message, including all the headers. ------\r\n\r\n{COPY}"
)


@pytest.mark.parametrize(
    ("body", "more", "people"),
    [
        (QMAIL, "", ["Bob@example.org", "bob@example.org"]),
        (EXIM, "X-Failed-Recipients: bob@example.org\r\n", ["bob@example.org"]),
    ],
)
async def test_a_report_in_one_text_says_what_did_not_arrive(
    parser: MailParser, body: str, more: str, people: list[str]
) -> None:
    found = (await read(parser, f"Content-Type: text/plain\r\n\r\n{body}", more=f"Return-Path: <>\r\n{more}")).returned
    assert found is not None
    assert (found.id, found.people, found.status) == ("<k.0123456789abcdef@example.net>", people, "5.1.1")


async def test_a_person_who_quotes_a_report_reports_nothing(parser: MailParser) -> None:
    assert (await read(parser, f"Content-Type: text/plain\r\n\r\nWhat is this?\r\n\r\n{QMAIL}")).returned is None
