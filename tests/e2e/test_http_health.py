"""What the HTTP door says when the daemon is not well, and when it cannot even start."""

import resource
import socket
from pathlib import Path

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, error_of, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI

MESSAGE = {"text": "hello", "client_id": "c1"}


def fill_disk(daemon: Daemon, *, full: bool) -> None:
    """Every write beyond the first byte of a file fails, as on a full disk; or no longer."""
    hard = resource.RLIM_INFINITY
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (1 if full else hard, hard))


async def test_health_is_503_while_the_journal_cannot_be_written_and_recovers(
    tmp_path: Path,
) -> None:
    """K20: nothing is acknowledged, and nothing lost when the client sends it again."""
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        fill_disk(daemon, full=True)
        async with daemon.http.post("/v1/messages", json=MESSAGE) as response:
            status, kind, message = await error_of(response)
            assert (status, kind) == (503, "unavailable") and message
        async with daemon.http.get("/health") as response:
            health = await response.json()
            assert (
                response.status == 503
                and not health["ok"]
                and "journal" in " ".join(health["problems"])
            )
        assert model.count == 0
        fill_disk(daemon, full=False)
        run = await daemon.post("/v1/messages?wait=1", **MESSAGE)
        assert run["reply"] == "ok"
        assert await daemon.get("/health") == {
            "ok": True,
            "version": health["version"],
            "problems": [],
        }


async def test_health_is_200_with_a_version_and_no_problems(tmp_path: Path) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        health = await daemon.get("/health")
        assert (
            isinstance(health, dict)
            and health["ok"]
            and health["version"]
            and health["problems"] == []
        )


def test_a_port_that_is_taken_is_a_wrong_config_that_names_the_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "config.toml").write_text(
            scripted("http://127.0.0.1:9/v1").replace("port = 0", f"port = {port}")
        )
        done = aidaemon("run", home=tmp_path)
    assert done.returncode == 2
    assert "http.port" in done.stderr and str(port) in done.stderr


def test_an_address_that_other_machines_could_reach_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(scripted("http://127.0.0.1:9/v1") + 'host = "0.0.0.0"\n')
    done = aidaemon("run", home=tmp_path)
    assert done.returncode == 2
    assert "http.host" in done.stderr and "127.0.0.1" in done.stderr


async def test_sigterm_ends_the_daemon_in_good_order(tmp_path: Path) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        await daemon.ask("hello")
        assert await daemon.terminate() == 0
