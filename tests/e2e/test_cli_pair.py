"""`aidaemon pair` as a real process: beside a daemon, and alone (trust.md)."""

import re
from contextlib import aclosing
from pathlib import Path

from daemon.access.directory import Directory
from daemon.core.clock import SystemClock
from daemon.core.trust import Role
from daemon.store.sqlite import SqliteStore
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI

CODE = re.compile(r"[0-9A-Z]{4}-[0-9A-Z]{4}\n")


async def paired(home: Path, channel: str, code: str) -> Role | None:
    """What the house makes of somebody who sends this code, asked of the journal itself."""
    async with aclosing(await SqliteStore.open(home / "journal.db")) as store:
        return await Directory(store, SystemClock()).pair(channel, "", "42", code)


async def test_a_code_of_a_command_on_its_own_lets_one_in_once(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(scripted("http://127.0.0.1:9/v1"))
    done = aidaemon("pair", home=tmp_path)
    assert done.returncode == 0 and CODE.fullmatch(done.stdout)
    assert "is editor here" in done.stderr and "within 10 minutes" in done.stderr
    assert await paired(tmp_path, "slack", done.stdout) is Role.EDITOR
    assert await paired(tmp_path, "slack", done.stdout) is None


async def test_a_code_of_a_running_daemon_is_in_its_journal(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path, scripted(model.base_url)) as daemon:
        done = aidaemon("pair", "--role", "owner", "--channel", "telegram", home=tmp_path)
        assert done.returncode == 0 and CODE.fullmatch(done.stdout)
        assert await daemon.terminate() == 0
    assert await paired(tmp_path, "slack", done.stdout) is None
    assert await paired(tmp_path, "telegram", done.stdout) is Role.OWNER


def test_a_role_that_nobody_knows_is_wrong_usage(tmp_path: Path) -> None:
    assert aidaemon("pair", "--role", "emperor", home=tmp_path).returncode == 2
