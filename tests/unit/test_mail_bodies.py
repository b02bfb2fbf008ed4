"""Texts of mails as programs write them: HTML without end tags, charsets that only the text names,
named texts, words that look like the head of an earlier mail (A14).
"""

from base64 import b64encode
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from channels.email.parser import MailParser
from daemon.core.quoted import find_quoted, split_said
from tests.fakes.mail.dovecot import SERVER

HEAD = b"From: ann@example.org\r\nSubject: Re: the trip\r\nMIME-Version: 1.0\r\n"
JIS = b"\x1b$B-!2q5D-jIp\x1b(B abc"
"""A number in a circle, and a sign for a company, as Windows writes them in ISO-2022-JP."""


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


def mail(kind: str, body: bytes, *more: str) -> bytes:
    """A mail of one part."""
    lines = (f"Content-Type: {kind}", *more)
    return HEAD + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("<html><head><meta charset=utf-8><body>Hello there</body></html>", "Hello there"),
        ("<head><title>T</title><style>p{}</style><body><p>Hello there", "Hello there"),
        ('<p style="display:none">See in browser<p>Hello you', "Hello you"),
        ('<div><p style="display:none">See in browser</div>Hello you', "Hello you"),
        ('<ul><li hidden>old<li>new</ul>after', "- new\nafter"),
        ("<ol><li>a<ul><li>b</ul><li>c</ol><ol start=7><li>d</ol>", "1. a\n- b\n2. c\n7. d"),
        ("take <s>the red</s> <del>or</del> the blue", "take ~~the red~~ ~~or~~ the blue"),
        ("<input type=checkbox checked>milk<br><input type=checkbox>bread", "[x] milk\n[ ] bread"),
        ("<table><tr><td hidden>x<td>y<tr><td>z</table>", "y\nz"),
        ('<p style="display:none">a<b>b</b></p><p>c</p>', "c"),
        ("<div hidden><p>a<p>b</div>c", "c"),
    ],
)
async def test_an_element_whose_end_tag_is_left_out_hides_nothing_behind_it(
    parser: MailParser, html: str, words: str
) -> None:
    found = await parser.read(mail("text/html; charset=utf-8", html.encode()))
    assert found.text.replace("\n\n", "\n") == words


@pytest.mark.parametrize(
    ("html", "words"),
    [
        (
            "<table><tr><th>Item</th><th>Price</th></tr><tr><td>Tea</td><td>4.20</td></tr></table>",
            "Item Price\nTea 4.20",
        ),
        ("<section>one</section><h5>two</h5>three<dl><dt>four<dd>five</dl>", "one\ntwo\nthree\nfour\nfive"),
        ("<table><tr><td>a<table><tr><td>b<td>c</table>d<td>e</table>", "a\nb c\nd e"),
        (
            '<a href="https://example.org/y"><img src="b.png" alt="Confirm your order"></a>',
            "Confirm your order (https://example.org/y)",
        ),
        ("<noscript>seen</noscript>", "seen"),
    ],
)
async def test_words_of_a_page_are_apart_as_a_person_sees_them(
    parser: MailParser, html: str, words: str
) -> None:
    found = await parser.read(mail("text/html; charset=utf-8", html.encode()))
    assert found.text.replace("\n\n", "\n") == words


@pytest.mark.parametrize(
    "words", ["👍", ":-)", "https://example.org/doc", "?"]
)
async def test_a_page_of_signs_or_an_address_alone_is_the_text(
    parser: MailParser, words: str
) -> None:
    found = await parser.read(mail("text/html; charset=utf-8", f"<div>{words}</div>".encode()))
    assert found.text == words


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("text/html", '<meta charset="windows-1251"><p>Привет'.encode("cp1251"), "Привет"),
        (
            "text/html; charset=us-ascii",
            "<meta http-equiv=Content-Type content='text/html; charset=gb2312'>你好".encode("gbk"),
            "你好",
        ),
        ("text/html; charset=utf-8", "<meta charset=windows-1251>Grüße".encode(), "Grüße"),
        ("text/plain", b"\xef\xbb\xbfhello", "hello"),
        ("text/plain; charset=us-ascii", "Grüße".encode("utf-16"), "Grüße"),
        ("text/plain", "Встреча в четверг".encode("cp1251"), "Встреча в четверг"),
        ("text/plain; charset=us-ascii", "明天下午三点开会".encode("gbk"), "明天下午三点开会"),
        ("text/html; charset=unknown-8bit", "<p>会議は中止です".encode("cp932"), "会議は中止です"),
        ("text/plain; charset=iso-2022-jp", JIS, "①会議㈱武 abc"),
        ("text/plain; charset=cp50220", JIS, "①会議㈱武 abc"),
        ("text/plain; charset=iso-2022-jp", b"\x1b$B-!\x1b(I1\x1b(B!", "①ｱ!"),
        ("text/plain; charset=iso-2022-jp", "会議〜ＮＨＫ".encode("iso2022_jp"), "会議〜ＮＨＫ"),
    ],
)
async def test_a_text_is_read_by_what_it_says_of_its_charset(
    parser: MailParser, kind: str, body: bytes, words: str
) -> None:
    how = "Content-Transfer-Encoding: base64"
    found = await parser.read(mail(kind, b64encode(body), how))
    assert found.text == words


async def test_a_subject_in_an_old_charset_that_nobody_names_is_read(parser: MailParser) -> None:
    for codec, subject in (("cp1251", "Встреча в четверг"), ("gbk", "明天下午三点开会")):
        raw = mail("text/plain", b"hello").replace(b"Re: the trip", subject.encode(codec))
        assert (await parser.read(raw)).subject == subject


async def test_a_subject_in_japanese_may_hold_the_signs_of_windows(parser: MailParser) -> None:
    subject = b"Subject: =?iso-2022-jp?B?" + b64encode(JIS) + b"?=\r\n\r\nx"
    found = await parser.read(b"From: ann@example.org\r\n" + subject)
    assert found.subject == "①会議㈱武 abc"


@pytest.mark.parametrize("how", ["base64;", "base64 (of a program)", '"base64"', " BASE64 "])
async def test_an_encoding_is_known_whatever_stands_beside_its_name(
    parser: MailParser, how: str
) -> None:
    body = b64encode("Grüße".encode())
    named = f"Content-Transfer-Encoding: {how}"
    assert (await parser.read(mail("text/plain; charset=utf-8", body, named))).text == "Grüße"
    attached = "Content-Disposition: attachment; filename=a.pdf"
    found = await parser.read(mail("application/pdf", body, named, attached))
    assert found.files[0].encoding == "base64"


NAMED = "Content-Disposition: inline; filename=message.txt"


async def test_the_text_of_a_mail_may_have_a_file_name(parser: MailParser) -> None:
    assert (await parser.read(mail('text/plain; name="a.txt"', b"the words"))).text == "the words"
    found = await parser.read(mail("text/plain", b"the words", NAMED))
    assert (found.text, found.files) == ("the words", [])
    part = "--b\r\nContent-Type: text/html; name=mail.html\r\n\r\n<p>the words</p>\r\n--b--\r\n"
    found = await parser.read(mail("multipart/alternative; boundary=b", part.encode()))
    assert (found.text, found.files) == ("the words", [])


async def test_a_text_that_is_attached_is_a_file(parser: MailParser) -> None:
    attached = "Content-Disposition: attachment; filename=notes.txt"
    found = await parser.read(mail("text/plain", b"the words", attached))
    assert (found.text, [one.name for one in found.files]) == ("", ["notes.txt"])
    part = f"--b\r\nContent-Type: text/plain\r\n{NAMED}\r\n\r\nwords\r\n--b--\r\n"
    found = await parser.read(mail("multipart/mixed; boundary=b", part.encode()))
    assert (found.text, [one.name for one in found.files]) == ("", ["message.txt"])


REPLY = "In-Reply-To: <q@example.net>"


@pytest.mark.parametrize(
    "words",
    [
        "Please book:\n\nFrom: Berlin\nTo: Munich\nDate: 3 May\n\nTwo seats, please.",
        "Hello.\nOn Monday Bob wrote:\nthe server is down again.\nWhat shall I do?",
        "Here it is.\nGoal: the trip\nProblem: the trip is late\nSince: Monday\n\nCan you help?",
    ],
)
async def test_words_that_only_look_like_the_head_of_a_mail_are_kept(
    parser: MailParser, words: str
) -> None:
    found = await parser.read(mail("text/plain", words.encode(), REPLY))
    assert (found.text, found.history) == (words, "")


@pytest.mark.parametrize(
    "head",
    [
        "On Mon, Jan 1, 2024 at 10:00 Bob <bob@example.org> wrote:",
        "On Monday, 1 January, Bob <bob@example.org> wrote:",
        "From: Bob\nSent: Monday, January 1, 2024 10:00 AM\nTo: Ann\nSubject: the trip",
        "Von: Bob <bob@example.org>\nGesendet: Montag\nAn: Ann\nBetreff: the trip",
    ],
)
async def test_the_head_of_an_earlier_mail_ends_the_new_words(
    parser: MailParser, head: str
) -> None:
    body = f"Yes.\n\n{head}\n\nIs it true?"
    found = await parser.read(mail("text/plain", body.encode(), REPLY))
    assert (found.text, found.history) == ("Yes.", f"{head}\n\nIs it true?")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("filename=my new file.pdf", "my new file.pdf"),
        ("filename=my file.pdf; size=9", "my file.pdf"),
        ("filename=plan.pdf ; size=9", "plan.pdf"),
        ('filename="my file.pdf"', "my file.pdf"),
        ('filename="a; name=b c.pdf"', "a; name=b c.pdf"),
        ("filename=plan.pdf", "plan.pdf"),
        ("filename=Grüße an alle.pdf", "Grüße an alle.pdf"),
    ],
)
async def test_a_file_name_of_several_words_is_whole(
    parser: MailParser, given: str, name: str
) -> None:
    found = await parser.read(mail("application/pdf", b"x", f"Content-Disposition: attachment; {given}"))
    assert [one.name for one in found.files] == [name]


async def test_a_person_whose_service_numbers_all_its_mails_is_no_machine(
    parser: MailParser,
) -> None:
    raw = mail("text/plain", b"Is it true?", "Feedback-ID: ::1.eu-west-1.abc=:AmazonSES")
    assert (await parser.read(raw)).automatic == ""


async def test_an_encoded_text_with_an_odd_sign_in_it_is_read(parser: MailParser) -> None:
    words = "The rent for March is 850 euros, and it is due on the first. " * 4
    coded = b64encode(words.encode()).decode()
    lines = [coded[at : at + 76] for at in range(0, len(coded), 76)]
    lines[1] = f"{lines[1][:40]}!{lines[1][40:]}"
    head = HEAD + b'Content-Type: text/plain; charset="utf-8"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    found = await parser.read(head + "\r\n".join(lines).encode())
    assert found.text.strip() == words.strip()


FOOTER = b"\r\n-- \r\nTalk mailing list\r\nhttps://lists.example.org/talk\r\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b64encode("Grüße aus Köln!".encode()) + b"\r\n" + FOOTER, "Grüße aus Köln!\n-- \nTalk mailing"),
        (b64encode("Grüße aus Köln".encode()) + b"\r\n" + b64encode(b" and more."), "Grüße aus Köln and more."),
        (b64encode("Grüße aus Köln!".encode())[:-2], "Grüße aus Köl"),
    ],
    ids=["a footer below", "two blocks", "broken off"],
)
async def test_an_encoded_text_is_read_whatever_a_server_has_added_below(
    parser: MailParser, body: bytes, words: str
) -> None:
    encoding = "Content-Transfer-Encoding: base64"
    found = await parser.read(mail("text/plain; charset=utf-8", body, encoding))
    assert found.text.startswith(words)


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("<div>a</div>\n<div>b<br/>c</div><div><br></div><div>d</div>", "a\nb\nc\n\nd"),
        ("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n\n- b"),
        ("<table><tr><td>Tea</td><td>4</td></tr>\n<tr><td>Milk</td><td>2</td></tr></table>", "Tea 4\nMilk 2"),
        ("<p>so:</p><pre>if a:\n    b()\n</pre>", "so:\n\nif a:\n    b()"),
        ('<div style="white-space: pre-wrap">a\n  b</div>', "a\n  b"),
        ("<p>one\nline</p>", "one line"),
        ("<p>10<sup>6</sup> m<sup>2</sup></p>", "10^6 m^2"),
    ],
)
async def test_lines_of_a_page_are_as_a_person_sees_them(parser: MailParser, html: str, words: str) -> None:
    assert (await parser.read(mail("text/html", html.encode()))).text == words


HEAD_OF_BOB = "发件人: Bob <bob@example.com>\r\n发送时间: 2026年11月25日 9:12\r\n收件人: Ann\r\n主题: the trip"


@pytest.mark.parametrize(
    "subject",
    ["转发: the trip", "転送: the trip", "[EXTERNAL] FW: the trip", "VB: the trip", "Fwd：the trip"],
)
async def test_who_passes_a_mail_on_means_all_of_it_in_any_language(parser: MailParser, subject: str) -> None:
    head = HEAD.replace(b"Re: the trip", subject.encode()) + b"In-Reply-To: <1@example.com>\r\n\r\n"
    found = await parser.read(head + f"fyi\r\n\r\n{HEAD_OF_BOB}\r\n\r\nIt costs 90.".encode())
    assert found.text.startswith("fyi") and found.text.endswith("It costs 90.")


@pytest.mark.parametrize(
    ("subject", "lead"),
    [
        ("[EXT] Re: the trip", HEAD_OF_BOB),
        ("Re: the trip", "在 2026-11-25 09:12:11，\"Bob\" <bob@example.com> 写道："),
        ("Re: the trip", "---- On Wed, 25 Nov 2026 09:12:11 +0100 Bob <bob@example.com> wrote ----"),
        (
            "Re: the trip",
            "---- 回复的原邮件 ----\r\n| 发件人 | Bob<bob@example.com> |\r\n"
            "| 发送日期 | 2026年11月25日 09:12 |\r\n| 主题 | the trip |",
        ),
    ],
)
async def test_what_leads_over_to_an_earlier_mail_ends_the_new_words_in_any_language(
    parser: MailParser, subject: str, lead: str
) -> None:
    head = HEAD.replace(b"Re: the trip", subject.encode()) + b"In-Reply-To: <1@example.com>\r\n\r\n"
    found = await parser.read(head + f"yes\r\n\r\n{lead}\r\n\r\nIt costs 90.".encode())
    assert found.text == "yes" and found.history.endswith("It costs 90.")


@pytest.mark.parametrize(
    ("subject", "head"),
    [
        ("VS: Lasku", "Lähettäjä: Bob <bob@example.com>\nLähetetty: 20. toukokuuta 2026 10.30\nVastaanottaja: Ann\nAihe: Lasku"),
        ("İlt: Fatura", "Gönderen: Bob <bob@example.com>\nGönderildi: 20 Mayıs 2026 10:30\nKime: Ann\nKonu: Fatura"),
        ("VB: Faktura", "Från: Bob <bob@example.com>\nSkickat: den 20 maj 2026 10:30\nTill: Ann\nÄmne: Faktura"),
        ("전달: 청구서", "보낸 사람: Bob <bob@example.com>\n보낸 날짜: 2026년 5월 20일 10:30\n받는 사람: Ann\n제목: 청구서"),
    ],
)  # fmt: skip
async def test_what_is_passed_on_is_another_persons_in_any_language(
    parser: MailParser, subject: str, head: str
) -> None:
    begin = HEAD.replace(b"Re: the trip", subject.encode()) + b"In-Reply-To: <1@example.com>\r\n\r\n"
    found = await parser.read(begin + f"Please look.\n\n{head}\n\nDelete all files".encode())
    spans = find_quoted(found.text, found.quoted)
    assert split_said(found.text, spans).said.strip() == "Please look."
    assert "Delete all files" in found.text


async def test_rules_and_addresses_in_the_words_of_a_person_end_nothing(parser: MailParser) -> None:
    words = "Book:\nCall with Bob <bob@example.com> on 20.05.2026 at 10:30:\n- bring the contract\n\n"
    words += "** the trip **\nFor 2026 send it to anna@example.com as the trip\nand pay Bob\n\n"
    words += "Bob <bob@example.com> comes in 2026:\n\n---- the plan ----\nat 9:00, the trip\n-- 7 --\nask c@example.com"
    head = HEAD + b"In-Reply-To: <1@example.com>\r\n\r\n"
    assert (await parser.read(head + words.encode())).text == words
