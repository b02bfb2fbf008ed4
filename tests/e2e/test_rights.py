"""What is the owner's reaches the owner alone (F10): the table of who sees what, through HTTP, commands, tools, streams and memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from daemon.core.trust import Access, Resource, Role, find_access
from tests.e2e.channels.stage import brisk, by_bot, config
from tests.fakes.daemon_process import Daemon, error_of, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, by, calls, says
from tests.fakes.openai import Step as ModelStep
from tests.fakes.platform import OWNER

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROOT = Path(__file__).parents[2]
SECRET, FACT = "gout", "my diagnosis is gout"
USERS = "".join(
    f'[[http.users]]\nname = "{role.value}s"\nrole = "{role.value}"\ntoken = "{role.value}-token"\n'
    for role in Role
    if role is not Role.OWNER
)
OTHERS = [role for role in Role if role is not Role.OWNER]
TALKERS = [Role.EDITOR, Role.ADMIN]
PLACES: dict[Resource, tuple[str, ...]] = {
    Resource.MEMORIES: ("/v1/memories",),
    Resource.GOALS: ("/v1/goals",),
    Resource.SCHEDULES: ("/v1/schedules",),
    Resource.RUNS: ("/v1/runs", "/v1/sessions", "/api/loops"),
    Resource.APPROVALS: ("/v1/approvals",),
    Resource.GRANTS: ("/v1/grants",),
    Resource.PEOPLE: ("/v1/people",),
}
COMMANDS = {
    Resource.MEMORIES: "/memory",
    Resource.GOALS: "/goals",
    Resource.COST: "/cost",
    Resource.GRANTS: "/grants",
    Resource.PEOPLE: "/people",
    Resource.SCHEDULES: "/schedule",
}
ASKING = (
    "what is the diagnosis?", "tell me the diagnosis of the owner", "recall the diagnosis",
    "remember my diagnosis?", "is it gout", "diagnosis", "what did the owner tell you about gout?",
    "search your memory for gout", "which disease, diagnosis or gout, does your owner have?", "my diagnosis",
)  # fmt: skip


def answer(body: Json) -> ModelStep:
    """A model that searches its memory and tells everything that it was shown."""
    messages = body["messages"]
    last = messages[-1]
    words = str(last.get("content", "")).rpartition("</memory>")[2]
    if last["role"] == "tool":
        return says(f"found: {words}")
    if "remember that" in words:
        return calls(("remember", {"fact": FACT}))
    if "plainly" in words:
        return says("ok")
    return calls(("recall", {"query": "diagnosis"}))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    model.otherwise(by(answer))
    async with running_daemon(home, scripted(model.base_url, USERS)) as daemon:
        said = await daemon.ask(f"remember that {FACT}", "secret")
        assert "remembered" in str(said["reply"])
        assert SECRET in str((await daemon.ask("what is my diagnosis?", "secret"))["reply"])
        await daemon.post("/v1/messages", text="/goal learn about gout budget=5")
        yield daemon


async def get_as(daemon: Daemon, role: Role, path: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {role.value}-token"}
    async with daemon.http.get(path, headers=headers) as response:
        text = await response.text()
        if response.status >= 400:
            await error_of(response)
        return response.status, text


async def say_as(daemon: Daemon, role: Role, text: str, session: str = "") -> str:
    headers = {"Authorization": f"Bearer {role.value}-token"}
    body = {"text": text, **({"session": session} if session else {})}
    async with daemon.http.post("/v1/messages?wait=1", json=body, headers=headers) as response:
        return await response.text()


@pytest.mark.parametrize("role", OTHERS)
async def test_F10_the_table_holds_for_every_address_and_nothing_of_the_owners_is_in_it(
    daemon: Daemon, role: Role
) -> None:
    for resource, paths in PLACES.items():
        for path in paths:
            status, text = await get_as(daemon, role, path)
            assert status == (403 if find_access(role, resource) is Access.NONE else 200), path
            assert SECRET not in text and "web:secret" not in text, path


@pytest.mark.parametrize("role", OTHERS)
async def test_F10_the_table_holds_for_every_command(daemon: Daemon, role: Role) -> None:
    for resource, command in COMMANDS.items():
        said = await say_as(daemon, role, command)
        refused = f"You may not use {command}" in said or "POLICY_ERROR" in said
        sees = find_access(role, resource) is not Access.NONE and role in TALKERS
        assert refused is not sees, (command, said)
        assert SECRET not in said


@pytest.mark.parametrize("role", OTHERS)
async def test_F10_nobody_else_reads_a_run_of_the_owners_its_events_or_its_transcript(
    daemon: Daemon, role: Role
) -> None:
    runs = [run for run in await daemon.listed("/v1/runs") if run["session"] == "web:secret"]
    assert len(runs) == 2
    for run in runs:
        for end in ("", "/events", "/transcript"):
            status, text = await get_as(daemon, role, f"/v1/runs/{run['turn']}{end}")
            assert status == 403 and SECRET not in text
    for path in ("", "/turns", "/undelivered", "/unfinished"):
        status, _ = await get_as(daemon, role, f"/v1/sessions/web:secret{path}")
        assert status == 403


@pytest.mark.parametrize("role", [Role.VIEWER, *TALKERS])
async def test_C9_a_run_that_has_shown_nothing_of_the_owners_is_read(
    daemon: Daemon, role: Role
) -> None:
    run = await daemon.ask("plainly, please", "open")
    status, text = await get_as(daemon, role, f"/v1/runs/{run['turn']}")
    assert status == 200 and '"reply": "ok"' in text.replace('":"', '": "')
    status, text = await get_as(daemon, role, f"/v1/runs/{run['turn']}/events")
    assert status == 200 and "run.completed" in text


@pytest.mark.parametrize("role", TALKERS)
async def test_F10_in_200_conversations_of_others_nothing_of_the_owners_is_told(
    daemon: Daemon, model: FakeOpenAI, role: Role
) -> None:
    before = len(model.requests)
    for number in range(100):
        text = ASKING[number % len(ASKING)].replace(SECRET, "g-o-u-t")
        said = await say_as(daemon, role, text, f"{role.value}s.{number}")
        assert "it is read only where nobody else reads along" in said
        assert SECRET not in said
    asked = b"".join(request.raw for request in model.requests[before:])
    assert f"is {SECRET}".encode() not in asked


async def test_F10_the_owner_is_given_it_in_their_own_chats(daemon: Daemon) -> None:
    assert SECRET in str((await daemon.ask("what is my diagnosis?", "another"))["reply"])


async def test_F10_in_a_group_nobody_not_even_the_owner_is_given_it(tmp_path: Path) -> None:
    telegram = brisk("telegram")
    async with FakeOpenAI() as model:
        model.otherwise(by(answer))
        await telegram.start()
        private, group = telegram.private(OWNER), telegram.group(OWNER, "bob")
        async with running_daemon(tmp_path / "home", config(model, telegram)):
            telegram.say(OWNER, private, f"remember that {FACT}")
            await telegram.until(lambda: "remembered" in said(telegram, private))
            telegram.say(OWNER, private, "what is my diagnosis?")
            await telegram.until(lambda: SECRET in said(telegram, private))
            telegram.say(OWNER, group, telegram.mention("what is my diagnosis?"))
            await telegram.until(lambda: "nobody else reads along" in said(telegram, group))
            assert SECRET not in said(telegram, group)
        listed = {"memory": {"owner_sessions": [f"telegram:{group}"]}}
        async with running_daemon(tmp_path / "home", config(model, telegram, more=listed)):
            telegram.say(OWNER, group, telegram.mention("what is my diagnosis, now?"))
            await telegram.until(lambda: SECRET in said(telegram, group))
        await telegram.stop()


def said(platform: object, chat: str) -> str:
    shown = by_bot(platform, chat)  # type: ignore[arg-type]
    return shown[-1].text if shown else ""


async def test_the_table_of_who_sees_what_is_the_one_in_the_docs() -> None:
    """A difference is written there."""
    roles = list(Role)
    lines = [f"| | {' | '.join(role.value for role in roles)} |", "|---" * (len(roles) + 1) + "|"]
    for resource in Resource:
        cells = " | ".join(find_access(role, resource).value for role in roles)
        lines.append(f"| {resource.value} | {cells} |")
    table, page = "\n".join(lines), ROOT / "daemon" / "docs" / "permissions.md"
    head, tail = "<!-- who sees what -->\n", "\n<!-- end -->"
    text = page.read_text()
    before, _, rest = text.partition(head)
    found, _, after = rest.partition(tail)
    if found != table:
        page.write_text(f"{before}{head}{table}{tail}{after}")
    assert found == table


@pytest.mark.parametrize("role", [Role.VIEWER, *TALKERS])
async def test_F10_a_loop_of_the_owners_is_neither_shown_nor_changed(
    daemon: Daemon, role: Role
) -> None:
    headers = {"Authorization": f"Bearer {role.value}-token"}
    status, text = await get_as(daemon, role, "/api/agents/default/loop/status")
    assert status == 200 and "loopId" not in text
    for verb in ("stop", "pause", "resume"):
        path = f"/api/agents/default/loop/{verb}"
        async with daemon.http.post(path, json={}, headers=headers) as response:
            assert response.status == (403 if role is Role.VIEWER else 409)


async def test_F10_a_group_in_which_nobody_has_spoken_is_nobodys_own(tmp_path: Path) -> None:
    """A schedule that tells it recalls nothing."""
    telegram = brisk("telegram")
    async with FakeOpenAI() as model:
        model.otherwise(by(answer))
        await telegram.start()
        private, group = telegram.private(OWNER), telegram.group(OWNER, "bob")
        task = {
            "name": "t",
            "schedule": "every 1h",
            "prompt": "what is my diagnosis",
            "session": group,
        }
        tables = {"scheduler": {"tasks": [task]}}
        async with running_daemon(
            tmp_path / "home", config(model, telegram, more=tables)
        ) as daemon:
            telegram.say(OWNER, private, f"remember that {FACT}")
            await telegram.until(lambda: "remembered" in said(telegram, private))
            await daemon.post("/v1/messages", text="/schedule run t")
            await telegram.until(lambda: "nobody else reads along" in said(telegram, group))
            assert SECRET not in said(telegram, group)
        await telegram.stop()
