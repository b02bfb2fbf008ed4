"""The bodies of events, as clients of HTTP send them (A16)."""

import pytest

from daemon.http.payloads import FORM, read_payload

JSON = "application/json"
PARTS = 'multipart/form-data; boundary="b1"'


def form(*parts: tuple[str, bytes]) -> bytes:
    """A form with files: each part's own heads and content."""
    whole = (b"--b1\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (heads.encode(), data) for heads, data in parts)
    return b"".join(whole) + b"--b1--\r\n"



@pytest.mark.parametrize(
    ("kind", "charset", "raw", "payload"),
    [
        (FORM, "utf-8", b'{"state": "a=b&c"}', {"state": "a=b&c"}),
        (FORM, "utf-8", b'payload={"state":"on"}', {"state": "on"}),
        (FORM, "utf-8", b"payload=%7B%22state%22%3A%22on%22%7D&v=1", {"state": "on"}),
        (FORM, "utf-8", b"From=%2B49&Body=on+fire&To=a&To=b", {"From": "+49", "Body": "on fire", "To": ["a", "b"]}),
        (JSON, "utf-8", b'\xef\xbb\xbf{"state": "on"}', {"state": "on"}),
        (JSON, "iso-8859-1", '{"state": "zurück"}'.encode("latin-1"), {"state": "zurück"}),
        (JSON, "utf-16", '{"state": "on"}'.encode("utf-16"), {"state": "on"}),
        (JSON, "utf-8", b'{"text": "cut \\ud83d"}', {"text": "cut \ufffd"}),
        ("", "utf-8", b'{"state": "on"}', {"state": "on"}),
        ("text/plain", "utf-8", b"disk /dev/sda1 is full\n", "disk /dev/sda1 is full\n"),
        ("text/plain", "utf-8", b'{"state": "on"}', {"state": "on"}),
        ("text/xml", "utf-8", b"<alarm level='2'/>", "<alarm level='2'/>"),
        (FORM, "utf-8", b"disk is full", "disk is full"),  # curl -d
        (PARTS, "utf-8", form(('name="payload"', b'{"event": "media.play"}'), ('name="thumb"; filename="t.jpg"', b"\xff\xd8")), {"event": "media.play"}),
        (PARTS, "utf-8", form(('name="from"', b"a@b.c"), ('name="subject"', "grün".encode())), {"from": "a@b.c", "subject": "grün"}),
        (PARTS, "utf-8", form(("name=note", b"1"), ("name=pic; filename*=UTF-8''gr%C3%BCn.jpg", b"\xff")), {"note": "1", "pic": "[file UTF-8''gr%C3%BCn.jpg, 1 bytes]"}),
        (PARTS, "utf-8", form(('name="note"', b"1"), ('name="note"', b"2"), ('name="log"; filename="a.log"', b"12345")), {"note": ["1", "2"], "log": "[file a.log, 5 bytes]"}),
    ],
)
def test_a_body_is_read_as_it_is_sent(kind: str, charset: str, raw: bytes, payload: object):
    assert read_payload(kind, charset, raw) == payload


@pytest.mark.parametrize(
    ("kind", "charset", "raw"),
    [
        (JSON, "utf-8", b"state=on"),
        (JSON, "utf-8", b"\xff"),
        (JSON, "hex", b"7b7d"),
        (JSON, "no-such", b"{}"),
        (JSON, "utf-8", b'{"n": NaN}'),
        (FORM, "utf-8", b""),
        (FORM, "utf-8", b" \n"),
        (FORM, "utf-8", b'{"state": '),  # JSON that is broken, not a text
        ("application/octet-stream", "utf-8", b"on"),
        ("", "utf-8", b"on"),
        ("text/plain", "utf-8", b""),
        ("text/plain", "utf-8", b"\xff"),
        (PARTS, "utf-8", b"nothing"),
        (PARTS, "utf-8", b""),
        (PARTS, "utf-8", form(('name="payload"', b"on"))),
        ("application/vnd.github+json", "utf-8", b"on"),
        (FORM, "utf-8", b"payload=on"),
        (FORM, "utf-8", b"&".join(b"a=1" for _ in range(200))),
        (JSON, "utf-7", b'{"a": "+2AA-"}'),
    ],
)
def test_what_is_no_payload_is_a_named_fault(kind: str, charset: str, raw: bytes):
    with pytest.raises(ValueError):
        read_payload(kind, charset, raw)
