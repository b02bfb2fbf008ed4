"""Whether Outlook vouches for a sender (A16): its Authentication-Results bear no server's name, and are the topmost."""

import pytest

from channels.email.parse_child import read_mail

PASS = (
    "spf=pass (sender IP is 203.0.113.5) smtp.mailfrom=example.org; dkim=pass (signature was"
    " verified) header.d=example.org;dmarc=pass action=none header.from=example.org;compauth=pass"
    " reason=100"
)


def proven(*results: str) -> bool:
    """As Outlook's mailbox gives it, by these headers from the top."""
    lines = [f"Authentication-Results: {one}" for one in results]
    raw = "\r\n".join([*lines, "From: ann@example.org", "Subject: hello", "", "text"])
    return bool(read_mail(raw.encode(), "microsoft")["proven"])


def test_a_passed_dmarc_of_the_senders_domain_proves_it() -> None:
    assert proven(PASS)
    assert proven(PASS, "spf=fail smtp.mailfrom=other.example")


@pytest.mark.parametrize(
    "results",
    [
        (),
        (PASS.replace("dmarc=pass", "dmarc=fail"), PASS),
        (PASS.replace("header.from=example.org", "header.from=example.org.evil.net"),),
        (PASS.replace("header.from=example.org", "header.from=evil.net"),),
        (f"mx.evil.example; {PASS}",),
        (f"{PASS};dmarc=fail action=none header.from=example.org",),
        (PASS.replace("dmarc=pass", "dmarc=bestguesspass"),),
        ("dmarc=pass action=none header.from=example.org",),
        (PASS.replace("dmarc=pass action", "dmarc=none (dmarc=pass action"),),
    ],
)
def test_nothing_else_does(results: tuple[str, ...]) -> None:
    assert not proven(*results)
