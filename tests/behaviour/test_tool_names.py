"""The names of tools that are known without a daemon are those that one has (G9, B1)."""

from pathlib import Path

import pytest

from daemon.app.tool_names import list_own_names
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI

BOX = {"imap_host": "127.0.0.1", "username": "me@example.org", "password": "x"}


@pytest.mark.parametrize("mail", [None, BOX, {**BOX, "smtp_host": "127.0.0.1"}])
async def test_the_names_of_our_own_tools_are_those_of_a_running_daemon(
    tmp_path: Path, model: FakeOpenAI, mail: dict[str, object] | None
) -> None:
    config = {"email": mail} if mail else {}
    async with living(tmp_path, model, config) as it:
        offered = {*it.house.registry.names()}
        assert offered == {*list_own_names(it.house.config)} - {"git_commit"}  # for a repository
        sends = bool(mail and "smtp_host" in mail)
        assert ("mail_read" in offered, "mail_send" in offered) == (bool(mail), sends)
