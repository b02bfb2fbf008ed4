"""Which values are secrets in this house, and that logs keep them to themselves (A6 of the reference)."""

import logging
import os
import subprocess
import sys
from functools import partial
from io import StringIO
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

from daemon.app.config import load_config, make_redactor, parse_config
from daemon.core.errors import ConfigError
from daemon.settings.edit import ConfigEditor, mask_text, render_value
from daemon.settings.paths import resolve_paths
from daemon.settings.redaction import RedactedStream, Redactor
from daemon.settings.secrets import (
    ActiveSecrets,
    RedactingFormatter,
    SecretStore,
    find_config_secrets,
)
from tests.security.encodings import ENCODINGS

CONFIG = """
[provider]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
api_key = "${KEY}"
[provider.extra_headers]
Authorization = "Bearer header-secret-1"
X-Title = "my assistant"
[[provider.fallbacks]]
kind = "anthropic"
api_key = "fallback-secret"
[http]
token = "secret:door"
"""


def test_keys_of_the_config_that_are_nobodys_business_are_secrets_wherever_their_values_come_from(
    tmp_path: Path,
):
    (tmp_path / "config.toml").write_text(CONFIG)
    loaded = load_config(
        tmp_path / "config.toml",
        env={"KEY": "from-the-environment"},
        secrets={"door": "from-the-store"},
    )
    assert find_config_secrets(loaded.config) == {
        "from-the-environment": "provider.api_key",
        "header-secret-1": "provider.extra_headers.Authorization",
        "fallback-secret": "provider.fallbacks.0.api_key",
        "from-the-store": "http.token",
    }


def test_of_what_an_mcp_server_is_given_that_is_secret_whose_name_says_so(tmp_path: Path):
    (tmp_path / "config.toml").write_text(
        '[mcp.one]\ncommand = "cat"\nenv = { AWS_SECRET_ACCESS_KEY = "aws-1234", PGPASSWORD = "pg-1234", MODE = "production" }\n'
        '[mcp.two]\nurl = "https://x/"\nheaders = { Authorization = "Bearer hdr-1234", Accept = "application/json" }\n'
    )
    loaded = load_config(tmp_path / "config.toml", env={}, secrets={})
    assert find_config_secrets(loaded.config) == {
        "aws-1234": "mcp.one.env.AWS_SECRET_ACCESS_KEY",
        "pg-1234": "mcp.one.env.PGPASSWORD",
        "hdr-1234": "mcp.two.headers.Authorization",
    }
    shown = render_value(loaded, "mcp") + mask_text(loaded.text)
    assert not any(value in shown for value in ("aws-1234", "pg-1234", "hdr-1234"))


def test_what_an_address_carries_in_it_is_a_secret_too(tmp_path: Path):
    (tmp_path / "config.toml").write_text(
        '[mcp.far]\nurl = "https://me:hunter2@far.example/mcp?api_key=hunter3&mode=plain"\n[tools.web]\nbase_url = "http://a.example/"\n'
    )
    loaded = load_config(tmp_path / "config.toml", env={}, secrets={})
    assert find_config_secrets(loaded.config) == {
        "hunter2": "mcp.far.url",
        "hunter3": "mcp.far.url",
    }
    shown = render_value(loaded, "mcp") + mask_text(loaded.text)
    assert "hunter" not in shown and "https://***@far.example/mcp?api_key=***&mode=plain" in shown


@pytest.mark.parametrize(
    "address", ["https://me:{}@far.example/", "https://far.example/?api_key={}"]
)
def test_A20_another_password_in_an_address_is_a_change_that_can_be_seen(
    tmp_path: Path, address: str
):
    (tmp_path / "config.toml").write_text(f'[mcp.far]\nurl = "{address.format("hunter2")}"\n')
    plan = ConfigEditor(tmp_path / "config.toml", partial(parse_config, env={}, secrets={})).plan(
        "mcp.far.url", address.format("hunter3")
    )
    assert "*** (new)" in plan.diff and "hunter" not in plan.diff


@pytest.mark.parametrize("key", ["http.host", "tools.web.base_url", "mcp.x.url"])
def test_A20_a_fault_of_the_config_does_not_tell_what_a_reference_stands_for(
    tmp_path: Path, key: str
):
    editor = ConfigEditor(
        tmp_path / "config.toml",
        partial(parse_config, env={"OTHERS": "hunter2-env"}, secrets={"store": "hunter2-store"}),
    )
    for written in ("${OTHERS}", "secret:store"):
        with pytest.raises(ConfigError) as refused:
            editor.plan(key, written)
        assert "hunter2" not in str(refused.value) and written in str(refused.value)


def test_nothing_is_a_secret_of_the_defaults(tmp_path: Path):
    assert (
        find_config_secrets(load_config(tmp_path / "config.toml", env={}, secrets={}).config) == {}
    )


def test_what_is_set_while_the_daemon_runs_is_known_at_once_and_what_was_a_secret_stays_one(
    tmp_path: Path,
):
    secrets = SecretStore(tmp_path / "secrets.toml")
    known = Redactor(ActiveSecrets(secrets, {"configured-1": "provider.api_key"}))
    assert known.redact_text("hunter2-old configured-1") == "hunter2-old [secret provider.api_key]"
    secrets.put("api", "hunter2-old")
    assert known.redact_text("hunter2-old") == "[secret api]"
    secrets.put("api", "hunter2-new")
    assert known.redact_text("hunter2-old hunter2-new") == "[secret api] [secret api]"
    secrets.delete("api")
    assert known.redact_text("hunter2-new configured-1") == "[secret api] [secret provider.api_key]"


def test_no_thread_goes_on_without_a_secret_that_another_is_reading(tmp_path: Path):
    reading, go_on = Event(), Event()

    class Slow(SecretStore):
        def read_values(self) -> dict[str, str]:
            if current_thread().name == "slow":
                reading.set()
                assert go_on.wait(20)
            return super().read_values()

    store = Slow(tmp_path / "secrets.toml")
    known = Redactor(ActiveSecrets(store, {}), look_every_s=3600.0)
    store.put("late", "late-secret-1a2b3c4d5e")
    slow = Thread(target=known.redact_text, args=("nothing",), name="slow")
    slow.start()
    try:
        assert reading.wait(20)
        assert known.redact_text("it is late-secret-1a2b3c4d5e") == "it is [secret late]"
    finally:
        go_on.set()
        slow.join()


def test_who_looks_anew_knows_what_was_set_just_now(tmp_path: Path):
    store = SecretStore(tmp_path / "secrets.toml")
    known, text = Redactor(ActiveSecrets(store, {}), look_every_s=3600.0), "it is late-1a2b3c4d5e"
    assert known.redact_text(text) == text
    store.put("late", "late-1a2b3c4d5e")
    assert known.redact_text(text) == text
    assert known.redact_text(text, known.look(anew=True)) == "it is [secret late]"
    assert known.redact_text(text) == "it is [secret late]"


def test_needles_are_made_once_per_change_of_the_file(tmp_path: Path):
    secrets = SecretStore(tmp_path / "secrets.toml")
    secrets.put("api", "hunter2-old")
    known = Redactor(ActiveSecrets(secrets, {"configured-1": "provider.api_key"}))
    stream, made = RedactedStream(known), [known.look()]

    def work() -> None:
        for number in range(50):
            known.redact_text(f"a text, {number}")
            known.redact_value({"a": [f"one of many, {number}"]})
            stream.feed(f"a piece, {number} ")
            assert known.is_clean([f"a message, {number}"])
            if known.look() is not made[-1]:
                made.append(known.look())

    work()
    assert len(made) == 1
    secrets.put("api", "hunter2-new")
    work()
    assert len(made) == 2 and known.redact_text("hunter2-new") == "[secret api]"
    secrets.put("more", "another-value")
    work()
    assert len(made) == 3
    assert stream.feed("\\u0061nother%2Dvalue another\\u002dvalue ") + stream.flush() == (
        "\\u0061nother%2Dvalue [secret more] "
    )


@pytest.mark.parametrize("way", ENCODINGS)
def test_no_encoding_of_a_secret_is_logged(way: str):
    value, stream, log = 'pa"ss/w+r d=\\é', StringIO(), logging.Logger("test")
    handler, known = logging.StreamHandler(stream), {value: "api"}
    handler.setFormatter(
        RedactingFormatter(logging.Formatter("%(message)s"), Redactor(lambda: known))
    )
    log.addHandler(handler)
    try:
        raise ValueError(f"refused: {ENCODINGS[way](value)}")
    except ValueError:
        log.exception("the service says: %s", ENCODINGS[way](value))
    assert stream.getvalue().count("[secret api]") == 2
    assert ENCODINGS[way](value) not in stream.getvalue()


def test_a_store_that_breaks_meanwhile_is_told_of_and_what_was_known_is_kept(
    tmp_path: Path, caplog
):
    secrets = SecretStore(tmp_path / "secrets.toml")
    secrets.put("api", "hunter2-old")
    known = Redactor(ActiveSecrets(secrets, {}))
    assert known.redact_text("hunter2-old") == "[secret api]"
    secrets.path.chmod(0o644)
    secrets.path.write_text("broken")
    assert known.redact_text("hunter2-old") == "[secret api]"
    assert "secrets that were added since the start are not known" in caplog.text


def test_a_config_that_does_not_load_leaves_the_store(tmp_path: Path):
    (tmp_path / "config.toml").write_text("[nonsense")
    SecretStore(tmp_path / "secrets.toml").put("api", "hunter2-old")
    assert (
        make_redactor(resolve_paths(str(tmp_path), None)).redact_text("hunter2-old")
        == "[secret api]"
    )


def test_a_log_line_is_clean_with_its_arguments_and_its_traceback():
    known = {"hunter2-abc": "api"}
    stream, log = StringIO(), logging.Logger("test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        RedactingFormatter(logging.Formatter("%(levelname)s %(message)s"), Redactor(lambda: known))
    )
    log.addHandler(handler)
    try:
        raise ValueError("the key hunter2-abc is refused")
    except ValueError:
        log.exception("call of %s failed", {"key": "hunter2-abc"})
    assert "hunter2-abc" not in stream.getvalue()
    assert stream.getvalue().startswith("ERROR call of {'key': '[secret api]'} failed\nTraceback")
    assert "ValueError: the key [secret api] is refused" in stream.getvalue()


def test_an_error_that_nobody_foresaw_shows_no_secret_with_and_without_debug(tmp_path: Path):
    SecretStore(tmp_path / "secrets.toml").put("api", "hunter2-abc")
    crash = "import sys, daemon.cli.review.runs as c; c.run = lambda args, paths: 1 / len([]) if not args else int('hunter2-abc')"
    for more in ((), ("--debug",)):
        words = ["runs", "--home", str(tmp_path), *more]
        code = f"{crash}; from daemon.cli import main; sys.exit(main({words!r}))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        assert (
            done.returncode == 1 and "ValueError" in done.stderr and "[secret api]" in done.stderr
        ), done.stderr
        assert "hunter2-abc" not in done.stderr.replace(code, "")


def test_who_runs_beside_the_daemon_cannot_look_into_it():
    code = "from daemon.settings.secrets import disable_core_dumps; disable_core_dumps(); import ctypes; print(ctypes.CDLL(None).prctl(3))"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=env,
    )
    assert done.stdout == "0\n", done.stderr
