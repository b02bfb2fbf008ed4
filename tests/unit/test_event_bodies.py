"""The bodies of events, as clients of HTTP send them (A16)."""

import pytest

from daemon.http.resources import FORM, read_payload

JSON = "application/json"


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
        (FORM, "utf-8", b"on"),
        (FORM, "utf-8", b"payload=on"),
        (FORM, "utf-8", b"&".join(b"a=1" for _ in range(200))),
        (JSON, "utf-7", b'{"a": "+2AA-"}'),
    ],
)
def test_what_is_no_payload_is_a_named_fault(kind: str, charset: str, raw: bytes):
    with pytest.raises(ValueError):
        read_payload(kind, charset, raw)
