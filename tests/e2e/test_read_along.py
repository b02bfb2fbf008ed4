"""What is the owner's alone is not shown where others read along, though the owner asks there (F10). One daemon serves all of these tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")
EDITOR = "editor-token"
USERS = f'[[http.users]]\nname = "ed"\nrole = "editor"\ntoken = "{EDITOR}"\n'
SHARED = "ed"  # the editor's own web session, in which the owner writes, too
GOAL, TASK = "leave the firm quietly", "call the head hunter"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    async with running_daemon(home, scripted(model.base_url, USERS)) as daemon:
        await command(daemon, f"/goal {GOAL}", "own")
        await command(daemon, f"/schedule tomorrow at 9:00: {TASK}", "own")
        await command(daemon, "/rules add never delete mail", "own")
        yield daemon


async def command(daemon: Daemon, text: str, session: str, **more: object) -> str:
    return str((await daemon.post("/v1/messages", 200, text=text, session=session, **more))["reply"])


@pytest.mark.parametrize(
    ("call", "word"),
    [(("goal", {"action": "list"}), GOAL), (("config_get", {"key": "http.users"}), "editor")],
)
async def test_a_tool_shows_it_in_a_chat_of_the_owners_own_only(
    daemon: Daemon, model: FakeOpenAI, call: tuple[str, dict[str, object]], word: str
) -> None:
    for session, is_shown in ((f"own-{call[0]}", True), (SHARED, False)):
        model.script(calls(call), says("I have looked."))
        await daemon.post("/v1/messages?wait=1", session=session, text="please look")
        told = str(model.requests[-1].last("tool")["content"])
        assert ("others read along here" not in told) == is_shown, told
        assert (word in told) == is_shown, told


@pytest.mark.parametrize("text", ["/goals", "/goal", "/goal 1", "/goal 1 pause", "/rules", "/people", "/grants", "/mcp", "/memory", "/forget it"])
async def test_a_command_shows_it_in_a_chat_of_the_owners_own_only(daemon: Daemon, text: str) -> None:
    assert "others read" not in await command(daemon, text, "own")
    told = await command(daemon, text, SHARED)
    assert f"{text.split()[0]} shows or changes what is yours alone" in told and GOAL not in told


async def test_of_schedules_a_shared_chat_is_shown_its_own(daemon: Daemon) -> None:
    own = await command(daemon, "/schedule", "own")
    name = own.split()[1]
    assert TASK in own
    empty = await command(daemon, "/schedule", SHARED)
    assert empty == "Nothing is scheduled here.\nMore is scheduled: a chat of your own lists it."
    for text in (f"/schedule show {name}", f"/schedule pause {name}", f"/schedule change {name} 8:00"):
        assert "There is no schedule" in await command(daemon, text, SHARED)
    made = await command(daemon, "/schedule tomorrow at 10:00: sum up the week", SHARED)
    assert "Scheduled as" in made
    listed = await command(daemon, "/schedule", SHARED)
    assert "sum up the week" in listed and TASK not in listed and "More is scheduled" in listed
    assert TASK in await command(daemon, "/schedule", "own")


async def test_an_editor_who_repeats_the_owners_id_gets_no_answer_to_the_owner(daemon: Daemon) -> None:
    head = {"Authorization": f"Bearer {EDITOR}"}
    body = {"session": SHARED, "text": "/schedule", "client_id": "X"}
    assert "scheduled" in await command(daemon, "/schedule", SHARED, client_id="X")
    async with daemon.http.post("/v1/messages", json=body, headers=head) as answer:
        assert "You may not use /schedule" in str((await answer.json())["reply"])
    await daemon.post("/v1/messages", 202, session=SHARED, text="hello", client_id="ed/K")
    for name in ("owner:K", "ed/K", "@owner/K"):
        own = {**body, "text": f"of the editor {name}", "client_id": name}
        async with daemon.http.post("/v1/messages", json=own, headers=head) as answer:
            assert answer.status == 202, name
    key = {"Idempotency-Key": "K"}
    async with daemon.http.post("/v1/messages", json={**body, "client_id": None}, headers=key) as answer:
        assert answer.status == 200
