"""Mails as the programs of the day write them, with what is to be read of each, and what is not."""

from base64 import b64encode
from collections.abc import Mapping

from tests.fakes.mail.dovecot import SERVER, USER

HEAD = f"""Return-Path: <ann@example.org>
Received: from mail.example.org by {SERVER} with ESMTPS id 1; Sat, 21 Nov 2026 20:00:01 +0000
Authentication-Results: {SERVER}; dmarc=pass header.from=example.org
MIME-Version: 1.0
From: =?utf-8?Q?Ann_M=C3=BCller?= <ann@example.org>
To: {USER}
Message-ID: <a1@example.org>
Date: Sat, 21 Nov 2026 20:00:00 -0000
Subject: Re: the plan
"""
ANSWERS = "In-Reply-To: <q1@example.net>\nReferences: <q0@example.net> <q1@example.net>\n"
LEAD = "On Sat, Nov 21, 2026 at 7:00 PM Bot <bot@example.net> wrote:"
EVENT = """BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
TZOFFSETTO:+0100
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
UID:1
SUMMARY:Budget\\, second round
DTSTART;TZID=Europe/Berlin:20261123T100000
DTEND;TZID=Europe/Berlin:20261123T113000
RRULE:FREQ=WEEKLY
LOCATION:Room 5
ORGANIZER;CN="Lee, Ann":mailto:ann@example.org
ATTENDEE;PARTSTAT=NEEDS-ACTION;CN=Bot:mailto:bot@example.net
END:VEVENT
END:VCALENDAR
"""


def _lines(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def _base64(data: bytes) -> str:
    text = b64encode(data).decode()
    return "\n".join(text[at : at + 76] for at in range(0, len(text), 76))


GMAIL = _lines(f"""{HEAD}{ANSWERS}Content-Type: multipart/alternative; boundary="g1"

--g1
Content-Type: text/plain; charset="UTF-8"
Content-Transfer-Encoding: quoted-printable

Yes, Gr=C3=BC=C3=9Fe.

{LEAD}

> May I do it?
>

--g1
Content-Type: text/html; charset="UTF-8"
Content-Transfer-Encoding: quoted-printable

<div dir=3D"ltr">Yes, Gr=C3=BC=C3=9Fe.</div><br><div class=3D"gmail_quote"><div>{LEAD.replace("<", "&lt;")}<br></div><blockquote class=3D"gmail_quote">May I do it?<br></blockquote></div>

--g1--
""")
OUTLOOK = _lines(f"""{HEAD}{ANSWERS}Content-Type: multipart/alternative; boundary="_000_o"

--_000_o
Content-Type: text/plain; charset="iso-8859-1"
Content-Transfer-Encoding: base64

{_base64(b" ")}

--_000_o
Content-Type: text/html; charset="us-ascii"
Content-Transfer-Encoding: quoted-printable

<html><head><style>p {{color: red}}</style></head><body><p class=3D"MsoNormal"><o:p>&nbsp;</o:p></p></body></html>

--_000_o
Content-Type: text/calendar; charset="utf-8"; method=REQUEST
Content-Transfer-Encoding: base64

{_base64(EVENT.encode())}

--_000_o--
""")
LIST = _lines(f"""{HEAD}List-Id: <talk.example.org>
Content-Type: multipart/mixed; boundary="===m=="

--===m==
Content-Type: multipart/alternative; boundary=inner

--inner
Content-Type: text/plain; charset=utf-8

This is a message in HTML. Please use a program that shows it.

--inner
Content-Type: multipart/related; boundary=rel

--rel
Content-Type: text/html; charset=utf-8

<table><tr><td><h1>Summer party</h1></td></tr><tr><td>We meet on the 4th of July, behind the mill.</td></tr></table>
<img src="cid:1"><a href="https://example.org/party">all about it</a>

--rel
Content-Type: image/png; name="a.png"
Content-ID: <1>
Content-Transfer-Encoding: base64

{_base64(bytes(200))}
--rel--

--inner--

--===m==
Content-Type: text/plain; charset="us-ascii"
Content-Disposition: inline

_______________________________________________
Talk mailing list
--===m==--
""")
THUNDERBIRD = _lines(f"""{HEAD}{ANSWERS}Content-Type: text/plain; charset=UTF-8; format=flowed
Content-Transfer-Encoding: 8bit

See my answers \nbelow.

Am 21.11.2026 um 19:00 schrieb Bot:
> May I do it, and if so, \n> when?
Yes, on Monday.
> Who pays?
The house.
> Regards

-- \nAnn
""")
FORWARD = _lines(f"""{HEAD.replace("Re:", "Fwd:")}Content-Type: multipart/mixed; boundary=fw

--fw
Content-Type: text/plain; charset=windows-1252

fyi

--fw
Content-Type: message/rfc822
Content-Disposition: attachment; filename="the offer.eml"

From: Bob <bob@example.com>
Subject: the offer
Date: Fri, 20 Nov 2026 10:00:00 +0100
Content-Type: multipart/signed; boundary=sig; protocol="application/pgp-signature"

--sig
Content-Type: text/html; charset=utf-8

<p>It costs <b>100 euros</b>.</p>

--sig
Content-Type: application/pgp-signature; name=signature.asc

-----BEGIN PGP SIGNATURE-----
--sig--

--fw
Content-Type: application/pdf; name*=utf-8''Gr%C3%B6%C3%9Fe.pdf
Content-Transfer-Encoding: base64

{_base64(b"%PDF" + bytes(300))}
--fw--
""")
CHINESE = _lines(f"""{HEAD.replace("Subject: Re: the plan", "Subject: =?gb2312?B?" + _base64("朱镕基".encode("gbk")) + "?=")}Content-Type: text/plain; charset=gb2312
Content-Transfer-Encoding: base64

{_base64("朱镕基，你好。".encode("gbk"))}
""")
RECORDED: Mapping[str, tuple[bytes, tuple[str, ...], tuple[str, ...]]] = {
    "Gmail's answer": (GMAIL, ("Yes, Grüße.",), ("May I", "wrote")),
    "Outlook's invitation": (
        OUTLOOK,
        ("[Invitation: Budget, second round]", "Monday 2026-11-23 10:00 to 11:30 (Europe/Berlin", "Room 5", "Lee, Ann"),
        ("BEGIN", "color"),
    ),
    "a list's": (LIST, ("Summer party", "behind the mill", "https://example.org/party", "Talk mailing list"), ("Please use",)),
    "Thunderbird's answers": (
        THUNDERBIRD,
        ("See my answers below.", "> May I do it, and if so, when?\nYes, on Monday.", "> Who pays?\nThe house."),
        (),
    ),
    "a mail passed on": (FORWARD, ("fyi", "From: Bob <bob@example.com>", "It costs 100 euros."), ("PGP",)),
    "a Chinese one": (CHINESE, ("朱镕基，你好。",), ()),
}  # fmt: skip
