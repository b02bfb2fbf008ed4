"""Invitations by mail as words (m05): what, when, where, who, and whether it is asked, taken back or answered."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from channels.email.parser import MailParser
from tests.fakes.mail.dovecot import SERVER
from tests.unit.test_mail_parts import mail, parts, text

ZONE = """BEGIN:VTIMEZONE
TZID:W. Europe Standard Time
BEGIN:STANDARD
DTSTART:16010101T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010101T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
END:DAYLIGHT
END:VTIMEZONE
"""
EVENT = """SUMMARY;LANGUAGE=en-us:Budget\\, second
  round\\; final
DTSTART;TZID=W. Europe Standard Time:20261123T100000
DTEND;TZID="W. Europe Standard Time":20261123T113000
LOCATION:Room 5\\nground floor
ORGANIZER;CN="Lee, Ann";SENT-BY="mailto:desk@example.org":mailto:ann@example.org
ATTENDEE;ROLE=REQ-PARTICIPANT;PARTSTAT=NEEDS-ACTION;RSVP=TRUE;CN=Bob
 by:MAILTO:bob@example.net
ATTENDEE;PARTSTAT=ACCEPTED;ROLE=OPT-PARTICIPANT:mailto:eve@example.com
DESCRIPTION:Bring the numbers\\, please.\\nSee https://example.org/a;b
"""
ALARM = "BEGIN:VALARM\nACTION:DISPLAY\nDESCRIPTION:REMINDER\nTRIGGER:-PT15M\nEND:VALARM\n"
BLANK = parts(
    "alternative", text(" \u00a0"), text("<html><body><p>&nbsp;</p></body></html>", "html")
)


def calendar(*events: str, method: str = "REQUEST", more: str = "") -> str:
    """An object with these events."""
    inner = "".join(f"BEGIN:VEVENT\nUID:1\n{one}{ALARM}END:VEVENT\n" for one in events)
    named = f"METHOD:{method}\n" * bool(method)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{named}{ZONE}{more}{inner}END:VCALENDAR\n".replace(
        "\n", "\r\n"
    )


def part(body: str, more: str = "; method=REQUEST") -> str:
    return text(body, "calendar", more)


@pytest_asyncio.fixture
async def parser() -> AsyncIterator[MailParser]:
    made = MailParser(SERVER)
    yield made
    await made.aclose()


async def words(parser: MailParser, body: str) -> str:
    """What is read of a mail with this part, all of it another's words."""
    found = await parser.read(mail(body))
    assert not found.text or found.quoted[-1] in found.text
    return found.text


FORMS = {
    "alone": part(calendar(EVENT)),
    "an alternative": parts("alternative", text("Please come."), part(calendar(EVENT))),
    "Outlook's": parts(
        "alternative", text(" \u00a0"), text("<p>&nbsp;</p>", "html"), part(calendar(EVENT))
    ),
    "Google's": parts(
        "mixed",
        parts(
            "alternative",
            text("Please come."),
            text("<p>Please come.</p>", "html"),
            part(calendar(EVENT)),
        ),
        f"Content-Type: application/ics; name=invite.ics\r\nContent-Disposition: attachment; filename=invite.ics\r\n\r\n{calendar(EVENT)}",
    ),
    "a file": parts(
        "mixed",
        BLANK,
        part(calendar(EVENT), "; name=meeting.ics\r\nContent-Disposition: attachment"),
    ),
    "passed on": parts(
        "mixed", f"Content-Type: message/rfc822\r\n\r\nSubject: x\r\n{part(calendar(EVENT))}"
    ),
}


@pytest.mark.parametrize("form", FORMS)
async def test_an_invitation_is_told_in_words_whatever_stands_beside_it(
    parser: MailParser, form: str
) -> None:
    said = await words(parser, FORMS[form])
    assert said.count("[Invitation: Budget, second round; final]") == 1
    for line in (
        "When: Monday 2026-11-23 10:00 to 11:30 (W. Europe Standard Time, UTC+01:00, UTC+02:00 in summer)",
        "Where: Room 5 ground floor",
        "Organizer: Lee, Ann <ann@example.org>",
        "Attendees: Bobby <bob@example.net> (has not answered); eve@example.com (accepted, optional)",
        "Bring the numbers, please.\nSee https://example.org/a;b",
    ):
        assert line in said
    assert "REMINDER" not in said and "BEGIN:" not in said


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("CANCEL", "[Cancellation: "),
        ("REPLY", "[Answer to an invitation: "),
        ("COUNTER", "[Another time is proposed: "),
        ("PUBLISH", "[Event: "),
        ("", "[Invitation: "),
    ],
)
async def test_it_is_told_whether_it_is_asked_taken_back_or_answered(
    parser: MailParser, method: str, told: str
) -> None:
    assert (await words(parser, part(calendar(EVENT, method=method)))).startswith(told)


async def test_a_series_says_how_it_repeats_and_which_of_it_is_off(parser: MailParser) -> None:
    series = (
        EVENT + "RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=8\nEXDATE;TZID=Europe/Berlin:20261130T100000\n"
    )
    one = EVENT + "RECURRENCE-ID:20261207T090000Z\nSTATUS:CANCELLED\n"
    said = await words(parser, part(calendar(series, one)))
    assert "Repeats: FREQ=WEEKLY;BYDAY=MO;COUNT=8" in said
    assert "Except: Monday 2026-11-30 10:00 (Europe/Berlin)" in said
    assert "[Cancellation: Budget" in said and "only: Monday 2026-12-07 09:00 UTC" in said


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ("DTSTART:20261123T100000Z\nDTEND:20261124T010000Z\n", "Monday 2026-11-23 10:00 to Tuesday 2026-11-24 01:00 UTC"),
        ("DTSTART:20261123T100000Z\nDURATION:PT1H30M\n", "Monday 2026-11-23 10:00 to 11:30 UTC"),
        ("DTSTART;VALUE=DATE:20261123\nDTEND;VALUE=DATE:20261124\n", "Monday 2026-11-23 (all day)"),
        ("DTSTART;VALUE=DATE:20261123\nDTEND;VALUE=DATE:20261126\n", "Monday 2026-11-23 (all day) to Wednesday 2026-11-25"),
        ("DTSTART:20261123T100000\n", "Monday 2026-11-23 10:00 (no zone is given)"),
        ("DTSTART;TZID=Asia/Tokyo:20261123T100000\nDTEND;TZID=Europe/Berlin:20261123T180000\n", "Monday 2026-11-23 10:00 (Asia/Tokyo) to Monday 2026-11-23 18:00 (Europe/Berlin)"),
        ("DTSTART:tomorrow\n", "tomorrow"),
        ("DTSTART:99999999T999999Z\nDURATION:P9999W\n", "99999999T999999Z"),
        ("DTSTART:99991231T230000Z\nDURATION:P9999W\n", "Friday 9999-12-31 23:00 UTC P9999W"),
        ("DTSTART;VALUE=DATE:00010101\nDTEND;VALUE=DATE:00010101\n", "Monday 0001-01-01 (all day)"),
    ],
)  # fmt: skip
async def test_times_are_told_with_their_zone(parser: MailParser, times: str, told: str) -> None:
    said = await words(parser, part(calendar(f"SUMMARY:x\n{times}")))
    assert f"\nWhen: {told}" in said


@pytest.mark.parametrize(
    "body", ["", "BEGIN:VCALENDAR", "hello", calendar(), "\0\r\n:;=\r\nEND:X\r\nBEGIN"]
)
async def test_a_calendar_that_cannot_be_read_is_named(parser: MailParser, body: str) -> None:
    assert "cannot be read" in await words(parser, part(body))


async def test_what_the_organizer_wrote_beside_it_is_theirs_and_the_rest_is_quoted(
    parser: MailParser,
) -> None:
    found = await parser.read(mail(FORMS["an alternative"]))
    assert found.text.startswith("Please come.\n\n[Invitation") and "Please" not in found.quoted[0]
