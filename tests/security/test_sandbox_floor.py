"""What a command and an MCP server may do, started by root and by an ordinary user: many probes, each in the real sandbox."""

from pathlib import Path

import pytest

from daemon.core.errors import ConfigError
from daemon.tools.base import ToolError
from daemon.tools.config import ShellConfig
from daemon.tools.mcp.address import server_address
from daemon.tools.mcp.config import McpConfig
from daemon.tools.shell.sandbox import Sandbox, SandboxKind
from daemon.tools.shell.tool import Shell
from tests.security.probes import IS_ROOT, LEFT, USERS, probe


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_command_may_do_nothing_beyond_its_workspace(
    user: str, kind: SandboxKind, network: bool
) -> None:
    may = {name for name, is_possible in probe(user, kind, network).items() if is_possible}
    expected = {"reach a service of this machine"} if network else set[str]()
    assert may - expected <= LEFT[kind]


def test_the_probes_bite() -> None:
    """Without a sandbox most of them succeed, and all that matter as root."""
    may = {name for name, is_possible in probe(USERS[0], "none").items() if is_possible}
    assert len(may) >= (20 if IS_ROOT else 15), may
    if IS_ROOT:
        assert {"is root of the machine", "has capabilities", "write core_pattern"} <= may


@pytest.mark.parametrize("user", USERS)
def test_an_mcp_server_may_do_no_more_than_a_command(user: str) -> None:
    may = {
        name for name, is_possible in probe(user, "bubblewrap", server=True).items() if is_possible
    }
    assert may == set()


@pytest.mark.skipif(not IS_ROOT, reason="only root is refused")
async def test_a_root_daemon_without_bubblewrap_runs_no_command_and_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = await Sandbox.open(tmp_path)
    assert sandbox.kind == "landlock"
    with pytest.raises(ToolError, match="ordinary user"):
        Shell(sandbox, ShellConfig()).check_allowed(False, False)
    with pytest.raises(ConfigError, match="runs as root"):
        server_address("notes", McpConfig(command="/bin/cat"), sandbox, tmp_path / "mcp")
