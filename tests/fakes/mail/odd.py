"""Mails as they should not be, and yet come: broken, and made to cost much. Each has a text that still is to be seen, but where that
cannot be.
"""

from collections.abc import Mapping

HEAD = b"From: ann@example.org\r\nSubject: odd\r\n"
WORD = b"findme"


def plain(kind: bytes, body: bytes, *more: bytes) -> bytes:
    """A mail of one part."""
    head = b"\r\n".join((b"Content-Type: " + kind, *more))
    return HEAD + head + b"\r\n\r\n" + body


def headed(*lines: bytes) -> bytes:
    """A mail with these headers, and the word as its text."""
    return HEAD + b"\r\n".join(lines) + b"\r\n\r\n" + WORD + b"\r\n"


def nested(depth: int) -> bytes:
    """Parts in parts."""
    open_ = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (n, n)
        for n in range(depth)
    )
    return HEAD + open_ + b"Content-Type: text/plain\r\n\r\n" + WORD + b"\r\n"


def many(parts: int) -> bytes:
    """Parts beside each other."""
    part = b"--b\r\nContent-Type: text/plain\r\n\r\n" + WORD + b"\r\n"
    return HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * parts + b"--b--\r\n"


BROKEN: Mapping[str, bytes] = {
    "no head": b"\r\n" + WORD,
    "no boundary": plain(b"multipart/mixed", b"--x\r\n\r\n" + WORD),
    "another boundary": plain(b"multipart/mixed; boundary=y", b"--x\r\n\r\n" + WORD),
    "no end": plain(b"multipart/mixed; boundary=x", b"--x\r\nContent-Type: text/plain\r\n\r\n" + WORD),
    "a part without a head": plain(b"multipart/mixed; boundary=x", b"--x\r\n" + WORD),
    "base64 that breaks off": plain(b"text/plain", b"ZmluZG1lIGZpbmRt", b"Content-Transfer-Encoding: base64"),
    "base64 with a letter more": plain(b"text/plain", b"ZmluZG1l\r\nZ", b"Content-Transfer-Encoding: base64"),
    "quoted-printable that is none": plain(
        b"text/plain", WORD + b"=ZZ=4=", b"Content-Transfer-Encoding: quoted-printable"
    ),
    "an unknown encoding": plain(b"text/plain", WORD, b"Content-Transfer-Encoding: \xff\xfe"),
    "an unknown charset": plain(b"text/plain; charset=klingon", WORD),
    "a charset of bytes": plain(b'text/plain; charset="\xff\xfe"', WORD),
    "a charset that is none": plain(b"text/plain; charset=zlib", WORD),
    "a charset with a NUL": plain(b"text/plain; charset=utf-\0", WORD + b" \xff"),
    "a charset that knows no errors": plain(b"text/plain; charset=idna", WORD + b" \xff"),
    "another charset": plain(b"text/plain; charset=us-ascii", WORD + " Grüße".encode("latin-1")),
    "surrogates": plain(b"text/plain; charset=unicode_escape", WORD + b" \\ud800"),
    "half a letter": plain(b"text/plain; charset=utf-8", WORD + b" \xe2\x82"),
    "bytes in every header": headed(
        b"To: \xff <a@b>", b"List-Unsubscribe-Post: \xff", b"Message-ID: <\xff@x>", b"References: <\xff@x> <a\xe9@y>",
        b"In-Reply-To: <\xff>", b"Date: \xff", b"X-Any: \xff",
    ),
    "a day that is none": headed(b"Date: Fri, 31 Feb 9999 99:99:99 +9999"),
    "a NUL": headed(b"X-Any: a\0b", b"Reply-To: \0"),
    "bare CR": HEAD.replace(b"\r\n", b"\r") + b"\r" + WORD,
    "bare LF": HEAD.replace(b"\r\n", b"\n") + b"\n" + WORD,
    "a line that is no header": HEAD + b"not a header\r\n\r\n" + WORD,
    "a space before all": b" \r\n" + HEAD + b"\r\n" + WORD,
    "an mbox line": b"From ann Sat Nov 21 20:00:00 2026\r\n" + HEAD + b"\r\n" + WORD,
    "HTML that never ends": plain(b"text/html", b"<html><p>" + WORD + b"<a href='"),
    "HTML with an odd declaration": plain(b"text/html", WORD + b"<![if gte mso 9]><!x[<p>"),
}  # fmt: skip
"""As programs get them wrong. In each the word is to be found."""

COSTLY: Mapping[str, bytes] = {
    "parts in parts, 100": nested(100),
    "parts in parts, 3,000": nested(3_000),
    "5,000 parts": many(5_000),
    "30,000 parts": many(30_000),
    "mails in a mail": HEAD + b"Content-Type: message/rfc822\r\n\r\n" * 500 + b"\r\n" + WORD,
    "100,000 headers": headed(*[b"X-A: b"] * 100_000),
    "a long Subject": headed(b"Subject: " + b"word " * 200_000),
    "a Subject of encoded words": headed(b"Subject:" + b" =?utf-8?q?a?=\r\n" * 60_000 + b" x"),
    "20,000 people": headed(b"To: " + b",\r\n ".join(b"P <p%d@example.org>" % n for n in range(20_000))),
    "comments": headed(b"To: " + b"(" * 100_000, b"List-Id: " + b"(" * 100_000),
    "names without end": headed(b"Cc: " + b"a, " * 100_000),
    "parameters": plain(b"text/plain" + b"; a=b" * 50_000, WORD),
    "numbered parameters": plain(
        b"text/plain" + b"".join(b"; name*%d*=x" % n for n in range(20_000)), WORD
    ),
    "references": headed(b"References: " + b"<a@b> " * 100_000),
    "a long boundary": plain(b'multipart/mixed; boundary="' + b"b" * 100_000 + b'"', WORD),
    "charset punycode": plain(b"text/plain; charset=punycode", b"findme-" + b"a" * 500_000),
    "HTML, deep": plain(b"text/html", WORD + b"<div hidden>" * 50_000 + b"</p>" * 50_000),
    "HTML, open attributes": plain(b"text/html", WORD + b"<a href='" * 100_000),
    "HTML, declarations": plain(b"text/html", WORD + b"<!" * 400_000),
    "a reply": plain(b"text/plain", WORD + b" On" * 16_000, b"In-Reply-To: <a@b>"),
    "a reply of quotations": plain(b"text/plain", WORD + b"\r\nOn a wrote:" * 3_000, b"In-Reply-To: <a@b>"),
    "a statement": headed(b"Authentication-Results: mx.example.net" + b"; dkim=pass header.d=a" * 40_000),
}  # fmt: skip
"""Made to cost time or memory."""
