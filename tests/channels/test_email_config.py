"""What is wrong in [email] is named, with its key and what is expected."""

from pathlib import Path

import pytest
import tomli_w

from daemon.app.config import load_config
from daemon.core.errors import ConfigError

GOOD = {"imap_host": "imap.example.org", "username": "me@example.org", "password": "pw-4711"}
RULE = {"prompt": "Sum it up."}
BAD = {
    "no address": ({"username": "me"}, "from_address"),
    "no password": ({"password": ""}, "a password, or [email.oauth]"),
    "no TLS": ({"imap_tls": False}, "imap_tls = false sends the password in the clear"),
    "no TLS to send": (
        {"smtp_host": "smtp.example.org", "smtp_tls": False},
        "smtp_tls = false sends the password in the clear",
    ),
    "a name among senders": ({"allowed_senders": ["Ann <ann@b.c>"]}, "expected ann@example.org"),
    "a domain is trusted": ({"trusted_senders": ["@example.org"]}, "expected a whole address"),
    "nothing to answer by": ({"trusted_senders": ["ann@example.org"]}, "expected smtp_host"),
    "nobody to tell": ({"notify": "ann"}, "a conversation such as"),
    "a rule's nobody": ({"rules": [{**RULE, "notify": "ann"}]}, "a conversation such as"),
    "a rule of nothing": ({"rules": [{"match": {"from": "a"}}]}, "expected a prompt"),
    "a rule by a header": ({"rules": [{**RULE, "match": {"to": "a"}}]}, "match.to"),
    "a condition of another kind": (
        {"rules": [{**RULE, "condition": {"url": "https://example.org"}}]},
        "condition.url",
    ),
    "a folder that ends its line": ({"folder": "IN\r\nBOX"}, "expected a folder"),
    "a token of no provider": (
        {"password": "", "oauth": {"refresh_token": "r"}},
        "expected provider and client_id",
    ),
}


@pytest.mark.parametrize(("wrong", "words"), BAD.values(), ids=BAD)
def test_it_is_named_with_what_is_expected_and_no_password(
    tmp_path: Path, wrong: dict[str, object], words: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(tomli_w.dumps({"email": {**GOOD, **wrong}}))
    with pytest.raises(ConfigError) as error:
        load_config(path, env={}, secrets={})
    assert "config.toml: email" in str(error.value) and words in str(error.value)
    assert "pw-4711" not in str(error.value)
