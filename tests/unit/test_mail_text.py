"""Charsets, flowed text and dates of mails, as programs write them (A14)."""

from base64 import b64encode
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from channels.email.parser import MailParser
from tests.fakes.mail.dovecot import SERVER

HEAD = b"From: ann@example.org\r\n"


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


def plain(kind: str, body: bytes, *more: bytes) -> bytes:
    """A mail of one text."""
    head = b"".join(line + b"\r\n" for line in more)
    return HEAD + head + f"Content-Type: text/plain; {kind}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("charset", "codec", "words"),
    [
        ("gb2312", "gbk", "朱镕基說："),
        ("GB2312", "gb18030", "㐀 龴"),
        ("gb_2312-80", "gbk", "朱镕基"),
        ("gbk", "gb18030", "㐀"),
        ("iso-8859-1", "cp1252", "100 € – “so”"),
        ("latin1", "cp1252", "100 €"),
        ("iso-8859-9", "cp1254", "“Işık” €"),
        ("iso-8859-11", "cp874", "“ไทย” €"),
        ("windows-874", "cp874", "“ไทย”"),
        ("ks_c_5601-1987", "cp949", "뷁 똠방각하"),
        ("euc-kr", "cp949", "뷁"),
        ("shift_jis", "cp932", "①㈱髙﨑"),
        ("x-sjis", "cp932", "①"),
        ("big5", "big5hkscs", "你好 嘅"),
        ("koi8-r", "koi8-r", "Привет"),
    ],
)
async def test_a_charset_is_read_as_what_programs_send_under_its_name(
    parser: MailParser, charset: str, codec: str, words: str
) -> None:
    body = words.encode(codec)
    found = await parser.read(plain(f"charset={charset}", body))
    assert found.text == words


async def test_one_broken_letter_spoils_no_others(parser: MailParser) -> None:
    body = "你好，朱镕基".encode("gbk") + b"\xff\xff" + "再见".encode("gbk") + b" and so on"
    found = await parser.read(plain("charset=gb2312", body))
    assert found.text.startswith("你好，朱镕基") and "再见" in found.text


async def test_a_subject_and_a_name_are_read_with_the_charset_that_holds_all_their_letters(
    parser: MailParser,
) -> None:
    word = b"=?gb2312?B?" + b64encode("朱镕基".encode("gbk")) + b"?="
    raw = b"From: " + word + b" <ann@example.org>\r\nSubject: " + word + b"\r\n\r\nx"
    found = await parser.read(raw)
    assert (found.subject, found.name, found.sender) == ("朱镕基", "朱镕基", "ann@example.org")


@pytest.mark.parametrize(
    ("date", "read"),
    [
        ("Sat, 21 Nov 2026 20:00:00 -0000", "2026-11-21T20:00:00+00:00"),
        ("Sat, 21 Nov 2026 20:00:00 +0000", "2026-11-21T20:00:00+00:00"),
        ("21 Nov 2026 20:00:00 +0530", "2026-11-21T20:00:00+05:30"),
        ("Sat, 21 Nov 2026 20:00:00 GMT", "2026-11-21T20:00:00+00:00"),
        ("Sat, 21 Nov 2026 20:00:00", "2026-11-21T20:00:00+00:00"),
        ("yesterday", ""),
    ],
)
async def test_a_date_without_a_zone_is_utc(parser: MailParser, date: str, read: str) -> None:
    assert (await parser.read(HEAD + f"Date: {date}\r\n\r\nx".encode())).date == read


FLOWED = "One line that \r\ngoes on and \r\nends.\r\n\r\n> A quote that \r\n> goes on.\r\n>> Deeper \r\n> no more\r\n From here\r\n-- \r\nAnn\r\n"


async def test_flowed_text_is_unfolded(parser: MailParser) -> None:
    found = await parser.read(plain("format=flowed", FLOWED.encode()))
    assert found.text == (
        "One line that goes on and ends.\n\n> A quote that goes on.\n>> Deeper \n> no more\nFrom here\n-- \nAnn"
    )


async def test_flowed_text_whose_spaces_are_none_is_joined_without_them(parser: MailParser) -> None:
    body = "これは長い \r\n文です。\r\nNext  \r\nword\r\n".encode()
    found = await parser.read(plain("charset=utf-8; Format=Flowed; DelSp=YES", body))
    assert found.text == "これは長い文です。\nNext word"


async def test_text_that_is_not_flowed_stays_as_it_is(parser: MailParser) -> None:
    found = await parser.read(plain("format=fixed", b"One line \r\n two"))
    assert found.text == "One line \n two"
