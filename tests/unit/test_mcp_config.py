"""[mcp.NAME]: what may stand there, and how the server is started."""

import json
from pathlib import Path

import pytest

from daemon.app.config import parse_config
from daemon.core.errors import ConfigError
from daemon.core.trust import Effect
from daemon.tools.mcp.address import server_address
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.packages import InstallFailed, find_npm_program, parse_command
from daemon.tools.mcp.tools import ProcessAddress, UrlAddress
from daemon.tools.shell.sandbox import Sandbox

HERE = Path("config.toml")


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, HERE, env={}, secrets={})
    return str(caught.value)


def test_what_is_not_said_is_the_safest() -> None:
    config = McpConfig(command="server")
    assert (config.default_effect, config.effects, config.critical) == (Effect.DESTRUCTIVE, {}, {})
    assert (config.trusted_output, config.sandbox, config.network, config.paths) == (
        [],
        "auto",
        False,
        [],
    )


def test_secrets_and_variables_are_filled_in() -> None:
    text = '[mcp.far]\nurl = "https://far.example/mcp"\nheaders = {Authorization = "secret:far", X = "${X}"}\n'
    config = parse_config(text, HERE, env={"X": "1"}, secrets={"far": "Bearer t"}).config
    assert config.mcp["far"].headers == {"Authorization": "Bearer t", "X": "1"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[mcp.a]\n", "expected either command or url"),
        ('[mcp.a]\ncommand = "x"\nurl = "http://h/"\n', "expected either command or url"),
        (
            '[mcp.a]\ncommand = "x"\nnetwork = true\ndomains = ["a.de"]\n',
            "without network = true",
        ),
        ('[mcp.a]\ncommand = "x"\ndomains = ["*"]\n', "'*' is no domain"),
        ('[mcp.a]\nurl = "ftp://h/"\n', "expected http://... or https://..."),
        ('[mcp.a__b]\ncommand = "x"\n', "cannot be the name of a server"),
        ('[mcp."a b"]\ncommand = "x"\n', "cannot be the name of a server"),
        ('[mcp.a]\ncommand = "x"\n[mcp.a.effects]\nlook = "reading"\n', "mcp.a.effects.look"),
        ('[mcp.a]\ncommand = "x"\nsandbox = "none"\n', "mcp.a.sandbox"),
        ('[mcp.a]\ncomand = "x"\n', "did you mean"),
    ],
)
def test_a_fault_names_its_key_and_what_was_expected(text: str, told: str) -> None:
    assert told in refused(text)


def test_an_address_needs_no_fence(tmp_path: Path) -> None:
    config = McpConfig(url="http://127.0.0.1:1/mcp", headers={"X": "1"})
    assert server_address("far", config, Sandbox(tmp_path, "none"), tmp_path / "mcp") == UrlAddress(
        "http://127.0.0.1:1/mcp", {"X": "1"}
    )


def test_a_command_is_fenced_in_and_its_environment_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    config = McpConfig(command="/bin/cat", env={"TOKEN": "t"}, paths=[str(tmp_path)])
    place = server_address("desk", config, Sandbox(tmp_path, "bubblewrap"), tmp_path / "desk")
    assert isinstance(place, ProcessAddress)
    assert set(place.env) == {"PATH", "HOME", "LANG", "PYTHONPYCACHEPREFIX", "TOKEN"}
    assert "--unshare-all" in place.argv or "--unshare-net" in place.argv
    assert not any("sk-ours" in word for word in place.argv)


def test_without_a_fence_it_is_not_started_unless_its_owner_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    nothing = Sandbox(tmp_path, "none")
    with pytest.raises(ConfigError, match=r"set sandbox = \"off\" in \[mcp.desk\]"):
        server_address("desk", McpConfig(command="/bin/cat"), nothing, tmp_path / "desk")
    place = server_address(
        "desk", McpConfig(command="/bin/cat", sandbox="off"), nothing, tmp_path / "desk"
    )
    assert isinstance(place, ProcessAddress)
    assert place.argv == ("/bin/cat",)
    assert "OPENAI_API_KEY" not in place.env


def test_what_an_installed_package_says_of_itself_opens_no_folder(tmp_path: Path) -> None:
    """A wheel may bring a pyvenv.cfg of its own, an npm package a program that is another's file."""
    private = tmp_path / "private"
    (private / "bin").mkdir(parents=True)
    folder = tmp_path / "mcp-packages" / "desk" / "abcd"
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {private / 'bin'}\n")
    (folder / "bin" / "serve").write_text("#!/bin/sh\n")
    (folder / "bin" / "serve").chmod(0o755)
    config = McpConfig(command=str(folder / "bin" / "serve"))
    sandbox = Sandbox(tmp_path / "workspace", "bubblewrap")
    place = server_address("desk", config, sandbox, tmp_path / "mcp" / "desk")
    assert isinstance(place, ProcessAddress)
    assert str(folder) in place.argv and not any(str(private) in word for word in place.argv)


@pytest.mark.parametrize("script", ["../../../../private/key", "/etc/passwd"])
def test_a_program_of_an_npm_package_lies_in_it(tmp_path: Path, script: str) -> None:
    place = tmp_path / "node_modules" / "thing"
    place.mkdir(parents=True)
    (place / "package.json").write_text(json.dumps({"name": "thing", "bin": script}))
    command = parse_command(["npx", "-y", "thing"])
    with pytest.raises(InstallFailed, match="not its own"):
        find_npm_program(command, tmp_path)
    (place / "package.json").write_text(json.dumps({"name": "thing", "bin": {"a": "a.js", "b": "b.js"}}))
    with pytest.raises(InstallFailed, match="its programs: a, b"):
        find_npm_program(command, tmp_path)
    both = parse_command(["npx", "-p", "thing@1.0.0", "b", "--flag"])
    assert find_npm_program(both, tmp_path)[1].endswith("node_modules/thing/b.js")
    assert both.args == ("--flag",)
