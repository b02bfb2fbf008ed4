"""What of a mail's parts are its words (A14): read in the child, as the mailbox reads them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from channels.email.channel import make_inbound
from channels.email.imap import RawMail
from channels.email.parser import MailParser, ReadMail
from tests.fakes.mail.dovecot import SERVER

HEAD = "From: ann@example.org\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\n"
REPLY = "In-Reply-To: <q@example.net>\r\nReferences: <q@example.net>\r\n"
STORY = (
    "<p>Dear all, the summer party is on the 4th of July at six in the evening, in the garden.</p>"
    "<table><tr><td>Bring</td><td>a salad</td></tr><tr><td>Parking</td><td>behind the mill</td></tr></table>"
)
STUBS = (
    "Your mail program shows no HTML. Open this mail in one that does.",
    "Ihr Programm zeigt kein HTML an.",
    "このメールはHTMLで書かれています。",
    "Dear all, the summer party is on",
    "View it in your browser: https://example.org/view?id=123456",
    "",
    " \u00a0\u200b\r\n\r\n\ufeff",
    "_______________________________________________\r\nTalk mailing list\r\nTalk@lists.example.org\r\n"
    "https://lists.example.org/listinfo/talk",
)


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


def text(words: str, kind: str = "plain", more: str = "") -> str:
    """A part."""
    return f"Content-Type: text/{kind}; charset=utf-8{more}\r\n\r\n{words}\r\n"


def parts(kind: str, *inner: str) -> str:
    """A part of parts."""
    mark = f"b{abs(hash(inner))}"
    body = "".join(f"--{mark}\r\n{one}\r\n" for one in inner)
    return f'Content-Type: multipart/{kind}; boundary="{mark}"\r\n\r\n{body}--{mark}--\r\n'


def mail(body: str, *, reply: bool = False, subject: str = "hello") -> bytes:
    """A mail with this part."""
    return (HEAD.format(subject=subject) + REPLY * reply + body).encode()


async def read(parser: MailParser, body: str, **more: bool) -> ReadMail:
    return await parser.read(mail(body, **more))  # type: ignore[arg-type]


PLACES = {
    "alone": lambda one: one,
    "mixed": lambda one: parts("mixed", one, "Content-Type: image/png; name=a.png\r\n\r\nx"),
    "related": lambda one: parts("related", one, "Content-Type: image/png\r\nContent-ID: <a>\r\n\r\nx"),
    "signed": lambda one: parts("signed", one, "Content-Type: application/pgp-signature\r\n\r\nx"),
    "passed on": lambda one: parts(
        "mixed", text("fyi"), f"Content-Type: message/rfc822\r\n\r\nFrom: bob@example.com\r\nSubject: party\r\n{one}"
    ),
    "a list's": lambda one: parts("mixed", one, text(STUBS[-1])),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stub", STUBS)
async def test_a_plain_text_that_leaves_out_what_the_html_says_is_not_the_mail(
    parser: MailParser, stub: str, place: str
) -> None:
    for page in (
        text(STORY, "html"),
        parts("related", text(STORY, "html"), "Content-Type: image/gif\r\n\r\nx"),
    ):
        found = await read(parser, PLACES[place](parts("alternative", text(stub), page)))
        assert "behind the mill" in found.text and "six in the evening" in found.text
        assert found.text.count("Dear all") == 1
        if place != "a list's":
            assert (
                not stub.strip()
                or stub.strip() not in found.text.replace("\n", "\r\n")
                or stub in STORY
            )


async def test_of_a_plain_text_and_html_that_say_the_same_the_plain_text_is_the_mail(
    parser: MailParser,
) -> None:
    plain = (
        "Dear bot, see *the plan* <https://example.org/plan>\r\nand tell me by\r\nnoon. Yours, Ann"
    )
    page = "<p>Dear bot, see <b><a href='https://example.org/plan'>the plan</a></b> and tell me by noon.<br>Yours, Ann</p>"
    found = await read(parser, parts("alternative", text(plain), text(page, "html")))
    assert found.text == plain.replace("\r\n", "\n")


@pytest.mark.parametrize(
    "page", ["", "<html><body>&nbsp;<img src=x></body></html>", "<div hidden>x</div>"]
)
async def test_html_that_says_nothing_hides_no_plain_text(parser: MailParser, page: str) -> None:
    found = await read(parser, parts("alternative", text("At noon, then."), text(page, "html")))
    assert found.text == "At noon, then."


async def test_a_short_page_beside_a_long_text_takes_nothing_away(parser: MailParser) -> None:
    long = " ".join(f"word{n}" for n in range(300))
    found = await read(parser, parts("alternative", text(long), text("<p>Talk list</p>", "html")))
    assert "word299" in found.text and "Talk list" in found.text


async def test_a_stub_is_not_the_mail_wherever_it_stands_and_however_short_the_page_is(
    parser: MailParser,
) -> None:
    for inner in (
        (text(STORY, "html"), text(STUBS[0])),
        (text(STUBS[0]), text("<p>The party: noon.</p>", "html")),
        (text(""), parts("alternative", text(STUBS[1]), text("<p>The party: noon.</p>", "html"))),
        (
            text(STUBS[0]),
            text("<p>The party</p>", "x-amp-html"),
            text("<p>The party: noon.</p>", "html"),
        ),
    ):
        found = (await read(parser, parts("alternative", *inner))).text
        assert "party" in found and "HTML" not in found


async def test_a_footer_in_a_part_of_its_own_replaces_nothing(parser: MailParser) -> None:
    found = await read(parser, parts("mixed", text(STORY, "html"), text(STUBS[-1])))
    assert "behind the mill" in found.text and "Talk mailing list" in found.text


async def test_a_mail_that_is_passed_on_is_the_words_of_another(parser: MailParser) -> None:
    inner = f"Content-Type: message/rfc822\r\n\r\nFrom: bob@example.com\r\nSubject: party\r\n{text('come all')}"
    found = await read(parser, parts("mixed", text("fyi"), inner))
    [quoted] = found.quoted
    assert make_inbound("email", found, RawMail(b"", 0, ""), "1/1").data == (quoted,)
    assert found.text.startswith("fyi\n\n") and found.text.endswith(quoted)
    assert "From: bob@example.com" in quoted and "come all" in quoted and "fyi" not in quoted
    assert [one.mime for one in found.files] == ["message/rfc822"]


QUESTIONS = [f"Question {n}: what do you say about it, and by when?" for n in range(4)]
LEADS = (
    "On Sat, Nov 21, 2026 at 8:00 PM Bot <bot@example.net> wrote:",
    "Am 21.11.2026 um 20:00 schrieb Bot <bot@example.net>:",
    "Den 21.11.2026 20:00, skrev Bot <bot@example.net>:",
    "2026年11月21日(土) 20:00 Bot <bot@example.net>:",
)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("kind", ["plain", "html", "both"])
async def test_answers_between_the_questions_are_kept_with_them(
    parser: MailParser, kind: str, lead: str
) -> None:
    plain = f"See my answers below.\r\n\r\n{lead}\r\n\r\n" + "".join(
        f"> {one}\r\n\r\nAnswer {n}.\r\n\r\n" for n, one in enumerate(QUESTIONS)
    ) + "> The end of what was asked\r\n"  # fmt: skip
    shown = lead.replace("<", "&lt;").replace(">", "&gt;")
    page = f"<div>See my answers below.</div><div>{shown}</div>" + "".join(
        f'<blockquote type="cite"><p>{one}</p></blockquote><div>Answer {n}.</div>'
        for n, one in enumerate(QUESTIONS)
    ) + "<blockquote>The end of what was asked</blockquote>"  # fmt: skip
    both = parts("alternative", text(plain), text(page, "html"))
    body = {"plain": text(plain), "html": text(page, "html"), "both": both}[kind]
    found = await read(parser, body, reply=True)
    for n, one in enumerate(QUESTIONS):
        assert f"> {one}" in found.text and f"Answer {n}." in found.text
        assert f"> {one}" in found.quoted and "See my answers below." in found.text
    assert "The end of what was asked" not in found.text
    assert "The end of what was asked" in found.history
    assert not [one for one in found.quoted if "Answer" in one]


OLD = "The report of last week says that all is well, and that we go on as before."
OUTLOOK = "From: Bot <bot@example.net>\r\nSent: Saturday, November 21, 2026 8:00 PM\r\nTo: Ann <ann@example.org>\r\nSubject: hello\r\n\r\n"
SWEDISH = (
    OUTLOOK.replace("From:", "Från:")
    .replace("Sent:", "Skickat:")
    .replace("To:", "Till:")
    .replace("Subject:", "Ämne:")
)


def old_mail(style: str, size: int) -> str:
    """So many characters of an earlier mail, as programs put them below an answer."""
    lines = [OLD] * (size // len(OLD) + 1)
    match style:
        case "marks":
            return "".join(f"{LEADS[0]}\r\n\r\n") + "".join(f"> {one}\r\n" for one in lines)
        case "deep marks":
            return f"{LEADS[1]}\r\n" + "".join(f">> {one}\r\n>\r\n" for one in lines)
        case "head":
            return OUTLOOK + "\r\n".join(lines)
        case "ruled head":
            return "-----Original Message-----\r\n" + OUTLOOK + "\r\n".join(lines)
        case "foreign head":
            return "________________________________\r\n" + SWEDISH + "\r\n".join(lines)
        case _:
            return f"{LEADS[0]}\r\n" + "\r\n".join(lines)


@pytest.mark.parametrize("size", [500, 49_000, 51_000, 500_000])
@pytest.mark.parametrize(
    "style", ["marks", "deep marks", "head", "ruled head", "foreign head", "a lead"]
)
async def test_quotes_below_a_new_line_are_cut_at_any_length(
    parser: MailParser, style: str, size: int
) -> None:
    body = text(f"Yes, do it.\r\n\r\n{old_mail(style, size)}")
    found = await parser.read(mail(body, reply=True, subject="Re: hello"))
    assert found.text == "Yes, do it." and not found.cut
    assert OLD in found.history


@pytest.mark.parametrize("size", [500, 51_000, 500_000])
async def test_a_page_with_a_quote_below_a_new_line_is_cut_at_any_length(
    parser: MailParser, size: int
) -> None:
    old = "".join(f"<p>{OLD}</p>" for _ in range(size // len(OLD) + 1))
    lead = LEADS[0].replace("<", "&lt;")
    page = f"<div>Yes, do it.</div><div>{lead}<br></div><blockquote class=gmail_quote>{old}</blockquote>"
    assert (await read(parser, text(page, "html"), reply=True)).text == "Yes, do it."


async def test_of_a_long_quote_above_an_answer_only_its_end_is_shown(parser: MailParser) -> None:
    old = "".join(f"> {OLD} {n}\r\n" for n in range(3_000))
    found = await read(parser, text(f"{LEADS[0]}\r\n{old}\r\nYes, do it."), reply=True)
    assert found.text.endswith("Yes, do it.") and f"{OLD} 2999" in found.text
    assert len(found.text) < 2_000 and f"{OLD} 10\n" in found.history


async def test_what_a_list_or_a_signature_adds_below_a_quote_is_no_answer(
    parser: MailParser,
) -> None:
    old = "".join(f"> {OLD}\r\n" for _ in range(900))
    for end in ("-- \r\nAnn", STUBS[-1]):
        found = await read(
            parser, text(f"Yes, do it.\r\n\r\n{LEADS[0]}\r\n{old}\r\n{end}"), reply=True
        )
        assert found.text == "Yes, do it."


async def test_words_that_look_a_little_like_a_head_stay(parser: MailParser) -> None:
    words = "Please order:\n\nFlour: two pounds\nSugar: one pound\nMilk: a pint\n\nThe address: the old mill, at 8:00"
    assert (await read(parser, text(words), reply=True)).text == words


@pytest.mark.parametrize(
    "body",
    [
        "> \r\nyes\r\n" * 150_000,
        "a:\r\n" * 300_000,
        "On a:\r\n" * 200_000,
        "From: a\r\n" * 100_000,
        ">" * 1_000_000,
        "<blockquote>" * 80_000 + "x",
        "> x\r\n" * 300_000 + "y",
    ],
    ids=["answers", "colons", "leads", "heads", "one mark", "blockquotes", "a quote"],
)
@pytest.mark.parametrize("kind", ["plain", "html"])
async def test_quotes_that_are_made_to_cost_much_take_little_time(
    parser: MailParser, body: str, kind: str
) -> None:
    child = await parser.start()
    found = await read(parser, text(f"findme\r\n{body}", kind), reply=True)
    assert "findme" in found.text and len(found.text) <= 100_000
    assert (await parser.start()) is child and child.returncode is None


async def test_words_that_are_struck_out_in_the_html_are_not_taken_as_said(parser: MailParser) -> None:
    html = text("<p>Please take <s>the red one</s> the blue one today.</p>", "html")
    both = parts("alternative", text("Please take the red one the blue one today."), html)
    assert (await read(parser, both)).text == "Please take ~~the red one~~ the blue one today."
