"""A secret goes to the hosts it is bound to, and nowhere else; the keyring keeps values out of the file (issue 4.10)."""

import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.compat import properties
from keyring.errors import PasswordDeleteError

from daemon.core.errors import ConfigError, SecretRefused
from daemon.settings.secrets import SecretEntry, SecretStore


class Drawer(KeyringBackend):
    """A keyring that forgets everything at the end."""

    @properties.classproperty
    def priority(self) -> float:
        return 1.0

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.held.pop((service, username), None) is None:
            raise PasswordDeleteError(username)


@pytest.fixture
def drawer() -> Iterator[Drawer]:
    before, drawer = keyring.get_keyring(), Drawer()
    keyring.set_keyring(drawer)
    yield drawer
    keyring.set_keyring(before)


@pytest.fixture
def secrets(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "secrets.toml")


def written(secrets: SecretStore, text: str) -> SecretStore:
    secrets.path.write_text(text)
    secrets.path.chmod(0o600)
    return secrets


def test_a_secret_is_given_for_its_hosts_in_whatever_letters_and_at_any_port_where_none_was_said(
    secrets: SecretStore,
):
    secrets.put("api", "hunter2", ["API.example.com.", "127.0.0.1:8443", "[::1]:9", "::2"])
    for host in (
        "api.example.com",
        "Api.Example.COM",
        "api.example.com:443",
        "api.example.com:80",
        "127.0.0.1:8443",
        "[::1]:9",
    ):
        assert secrets.get_for_host("api", host) == "hunter2"
    for host in ("::2", "[::2]", "[::2]:80"):
        assert secrets.get_for_host("api", host) == "hunter2"


@pytest.mark.parametrize(
    "host",
    [
        "example.com", "evil.example.com", "api.example.com.evil.com", "127.0.0.1:8443:1", "127.0.0.1", "127.0.0.1:84",
        "api.example.com@evil.com", "", "*", "api.example.com/", " api.example.com",
    ],
)  # fmt: skip
def test_no_other_host_gets_it_and_the_refusal_names_those_that_do(secrets: SecretStore, host: str):
    secrets.put("api", "hunter2", ["api.example.com", "127.0.0.1:8443"])
    with pytest.raises(SecretRefused) as caught:
        secrets.get_for_host("api", host)
    assert "only to api.example.com, 127.0.0.1:8443" in str(caught.value) and "hunter2" not in str(
        caught.value
    )


def test_a_secret_without_hosts_is_the_configs_alone(secrets: SecretStore):
    secrets.put("openai", "sk-1")
    assert (
        secrets.read_values() == {"openai": "sk-1"}
        and secrets.path.read_text() == 'openai = "sk-1"\n'
    )
    with pytest.raises(
        SecretRefused, match=r"may be sent to no host, not to api\.openai\.com; nothing was sent"
    ):
        secrets.get_for_host("openai", "api.openai.com")


def test_an_unknown_name_names_the_nearest_and_how_to_add_it(secrets: SecretStore):
    secrets.put("github", "hunter2", ["api.github.com"])
    with pytest.raises(SecretRefused, match=r"did you mean 'github'\?.*aidaemon secret set githb"):
        secrets.get_for_host("githb", "api.github.com")


def test_a_table_in_the_file_is_an_entry_and_an_edit_holds_at_once(secrets: SecretStore):
    written(secrets, 'plain = "a"\n[api]\nvalue = "b"\nhosts = ["API.example.com"]\n')
    assert secrets.list_entries() == {
        "plain": SecretEntry("plain", "a"),
        "api": SecretEntry("api", "b", ("api.example.com",)),
    }
    written(secrets, '[api]\nvalue = "c"\nhosts = ["api.example.com"]\n')
    assert secrets.get_for_host("api", "api.example.com") == "c"
    assert "'c'" not in repr(secrets.list_entries()["api"])


@pytest.mark.parametrize(
    "host",
    [
        "https://api.example.com",
        "*.example.com",
        "a b",
        "",
        "x/y",
        "user@host",
        "host:port",
        "a..b",
        "x:123456",
    ],
)
def test_what_is_no_host_is_refused_in_the_file_and_on_the_way_in(secrets: SecretStore, host: str):
    with pytest.raises(ConfigError, match=r"is no host; expected one like api\.example\.com"):
        secrets.put("api", "hunter2", [host])
    assert not secrets.path.exists()
    written(secrets, f'[api]\nvalue = "hunter2"\nhosts = ["{host}"]\n')
    with pytest.raises(ConfigError, match=r"secrets.toml: api.hosts: ") as caught:
        secrets.read_values()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        'hosts = ["x"]',
        'value = "hunter2"\nkeyring = true',
        'value = "hunter2"\nhosts = "x"',
        'valu = "hunter2"',
    ],
)
def test_a_table_of_another_form_is_refused_by_name(secrets: SecretStore, body: str):
    with pytest.raises(ConfigError, match="api: expected api = ") as caught:
        written(secrets, f"[api]\n{body}\n").list_entries()
    assert "hunter2" not in str(caught.value)


def test_a_deleted_one_is_gone_and_the_others_stay(secrets: SecretStore):
    assert not secrets.delete("a")
    secrets.put("a", "1", ["x"])
    secrets.put("b", "2")
    assert secrets.delete("a") and not secrets.delete("a")
    assert (
        secrets.read_values() == {"b": "2"} and stat.S_IMODE(secrets.path.stat().st_mode) == 0o600
    )


def test_many_who_change_it_at_once_lose_nothing(secrets: SecretStore):
    threads = [
        threading.Thread(target=secrets.put, args=(f"s{i}", f"value {i}")) for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert secrets.read_values() == {f"s{i}": f"value {i}" for i in range(12)}


def test_a_value_in_the_keyring_is_not_in_the_file_and_is_used_like_any_other(
    secrets: SecretStore, drawer: Drawer
):
    secrets.put("mail", "hunter2", ["mail.example.com"], keyring=True)
    assert "hunter2" not in secrets.path.read_text()
    assert secrets.read_values() == {"mail": "hunter2"}
    assert secrets.get_for_host("mail", "mail.example.com") == "hunter2"
    assert secrets.delete("mail") and not drawer.held


def test_one_that_moves_to_the_file_leaves_the_keyring(secrets: SecretStore, drawer: Drawer):
    secrets.put("mail", "hunter2", keyring=True)
    secrets.put("mail", "hunter3")
    assert secrets.read_values() == {"mail": "hunter3"} and not drawer.held


def test_one_that_the_keyring_has_lost_says_how_to_put_it_back(
    secrets: SecretStore, drawer: Drawer
):
    secrets.put("mail", "hunter2", keyring=True)
    drawer.held.clear()
    with pytest.raises(
        ConfigError, match="it is not there; expected: aidaemon secret set mail --keyring"
    ):
        secrets.read_values()
    assert secrets.delete("mail")


def test_a_machine_without_a_keyring_says_so_and_what_to_do(secrets: SecretStore, drawer: Drawer):
    keyring.set_keyring(NoKeyring())
    with pytest.raises(ConfigError, match=r"the keyring cannot be used here.*leave --keyring out"):
        secrets.put("mail", "hunter2", keyring=True)
    assert not secrets.path.exists()
