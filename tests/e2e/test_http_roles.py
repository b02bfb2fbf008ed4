"""Who may do what at the HTTP door (C9, trust.md). One daemon serves all of these tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from daemon.core.trust import Resource, Right, Role, has_right
from daemon.http.app import STREAM_ROUTE, build_app
from daemon.http.auth import EVENTS_PATH, OPEN_PATHS
from daemon.http.openapi import OPENAPI
from daemon.http.resources import ROUTES, EventEndpoint
from daemon.http.sign_in import LOOK, REDEEM, SIGN_IN, SIGN_OUT, WHO
from daemon.triggers.events import EventTrigger
from tests.fakes.daemon_process import TOKEN, Daemon, Json, error_of, running_daemon, scripted
from tests.fakes.door import FakeClient
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.wordy_model import Script, shell

pytestmark = pytest.mark.asyncio(loop_scope="module")
NAMES = {role: f"{role.value}s" for role in Role}
USERS = "".join(
    f'[[http.users]]\nname = "{NAMES[role]}"\nrole = "{role.value}"\ntoken = "{role.value}-token"\n'
    for role in Role
)
REFUSED = (403, "POLICY_ERROR")
ROUTE_RIGHTS = {
    STREAM_ROUTE: Resource.RUNS,
    **{place: route.right for place, route in ROUTES.items()},
}
SIGNING = {LOOK, REDEEM, SIGN_OUT}
OPEN_ROUTES = (
    {("POST", EVENTS_PATH)}
    | {("POST", path) for path in SIGNING}
    | {("GET", path) for path in OPEN_PATHS - SIGNING}
)
OWN_ROUTES = {("POST", SIGN_IN), ("GET", WHO), ("GET", OPENAPI)}
LOOPING = "[agent.loop]\nenabled = true\n"


def shows(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {role.value}-token"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    async with running_daemon(home, scripted(model.base_url, USERS + LOOPING)) as daemon:
        yield daemon


async def test_two_people_who_use_one_idempotency_key_are_two(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    turns = set[str]()
    for role in (Role.OWNER, Role.EDITOR):
        head = {**shows(role), "Idempotency-Key": "1"}
        body = {"session": f"web:{NAMES[Role.EDITOR]}", "text": f"from {role.value}"}
        async with daemon.http.post("/v1/messages", json=body, headers=head) as response:
            told = await response.json()
            assert response.status == 202, told
            turns.add(str(told.get("turn") or told["steered"]))
    assert len(turns) == 2


async def says_as(
    daemon: Daemon, role: Role, path: str = "/v1/messages?wait=1", **body: object
) -> tuple[int, Json]:
    """The status and the answer, whatever they are."""
    async with daemon.http.post(path, json=body, headers=shows(role)) as response:
        return response.status, await response.json()


async def kind_as(
    daemon: Daemon, role: Role, path: str = "/v1/messages", **body: object
) -> tuple[int, str]:
    """The status and the type of a refusal."""
    async with daemon.http.post(path, json=body, headers=shows(role)) as response:
        return (await error_of(response))[:2]


async def told_as(daemon: Daemon, role: Role, text: str) -> str:
    """What a command replies."""
    return str((await says_as(daemon, role, text=text))[1]["reply"])


async def test_C9_every_address_has_its_rule_and_every_rule_its_address() -> None:
    unused = cast(EventTrigger, None)
    app = build_app(FakeClient(), TOKEN, events=EventEndpoint(unused, {}))
    served = {
        (route.method, route.resource.canonical) for route in app.router.routes() if route.resource
    }
    assert {place for place in served if place[0] != "HEAD"} == (
        set(ROUTE_RIGHTS) | OPEN_ROUTES | OWN_ROUTES
    )


async def test_C9_what_changes_something_needs_more_than_the_right_to_read() -> None:
    changing = {right for (method, _), right in ROUTE_RIGHTS.items() if method != "GET"}
    assert not changing & {Right.CONTACT, Right.READ, *Resource}


@pytest.mark.parametrize("role", Role)
async def test_C9_whoever_lacks_the_right_is_refused_everywhere(daemon: Daemon, role: Role) -> None:
    for (method, pattern), right in ROUTE_RIGHTS.items():
        path = pattern.replace("{turn}", "t").replace("{agent}", "nobody")
        path = path.replace("{id}", "g").replace("{name}", "main")
        path = path.replace("{session}", f"web:{NAMES[role]}")
        async with daemon.http.request(method, path, headers=shows(role), json={}) as response:
            if not has_right(role, right):
                assert (await error_of(response))[:2] == REFUSED, (method, path)
            elif "terminal" not in path:
                assert response.status not in (401, 403), (method, path)


async def test_C9_a_viewer_reads_and_does_nothing(daemon: Daemon) -> None:
    run = await daemon.ask("hello", "shared")
    async with daemon.http.get(f"/v1/runs/{run['turn']}", headers=shows(Role.VIEWER)) as response:
        assert (await response.json())["reply"] == "ok"
    for path, body in (
        ("/v1/messages", {"text": "hi"}),
        ("/api/agents/default/loop/start", {"message": "again"}),
        ("/api/agents/default/loop/stop", {}),
        ("/api/agents/default/loop/approve", {"loopId": "x", "approved": True}),
        (f"/v1/runs/{run['turn']}/cancel", {}),
    ):
        assert await kind_as(daemon, Role.VIEWER, path, **body) == REFUSED


@pytest.mark.parametrize("role", [Role.EDITOR, Role.ADMIN, Role.OWNER])
async def test_lines_of_the_owners_settings_are_shown_to_nobody_else(
    daemon: Daemon, home: Path, role: Role
) -> None:
    """Whoever chooses an agent whose file is broken, talks to it or starts its loop; the log has the line for its owner."""
    agents = home / "agents"
    agents.mkdir(exist_ok=True)
    place, name = agents / f"frail{role.value}.toml", f"frail{role.value}"
    valid = f'[identity]\nname = "{name}"\n'
    place.write_text(valid)
    session = NAMES[role]
    assert "Agent: " in str(await says_as(daemon, role, session=session, text=f"/agent {name}"))
    place.write_text(f'{valid}planted = "plan-77"\n')
    heard = [
        str((await says_as(daemon, role, session=session, text="hello"))[1]["reply"]),
        str((await says_as(daemon, role, session=session, text=f"/agent {name}"))[1]["reply"]),
        str(await says_as(daemon, role, session=session, text="/loop start again")),
        str(await says_as(daemon, role, session=session, text="hi", agent=name)),
        str(await says_as(daemon, role, f"/api/agents/{name}/loop/start", message="again")),
    ]
    owner, other = "planted", "its owner finds it in the log"
    for line in heard:
        assert (owner in line, other in line) == (role is Role.OWNER, role is not Role.OWNER), line
        assert str(home) not in line or role is Role.OWNER
    assert any("planted" in line for line in daemon.log)
    await says_as(daemon, role, session=session, text="/agent default")


@pytest.mark.parametrize("role", [Role.EDITOR, Role.ADMIN])
async def test_C9_an_editor_and_an_admin_start_and_stop_loops(daemon: Daemon, role: Role) -> None:
    started, loop = await says_as(
        daemon, role, "/api/agents/default/loop/start", message="again", maxIterations=100
    )
    assert (started, loop["session"]) == (202, f"web:{NAMES[role]}")
    assert (await says_as(daemon, role, "/api/agents/default/loop/stop"))[0] in (200, 409)


@pytest.mark.parametrize("role", [Role.EDITOR, Role.ADMIN])
async def test_C9_an_editor_and_an_admin_say_yes_to_a_loops_review(
    daemon: Daemon, role: Role
) -> None:
    """A viewer is refused, and it waits on."""
    where = "/api/agents/default/loop"
    asked, begun = await says_as(
        daemon, role, f"{where}/start", message="again", criterion="manual", value=""
    )
    assert asked == 202, begun
    status: Json = begun
    while not status.get("review"):
        async with daemon.http.get(f"{where}/status", headers=shows(role)) as response:
            status = await response.json()
    yes = {"loopId": begun["loopId"], "approved": True}
    assert await kind_as(daemon, Role.VIEWER, f"{where}/approve", **yes) == REFUSED
    done, loop = await says_as(daemon, role, f"{where}/approve", **yes)
    assert (done, loop["status"], loop["error"]) == (200, "completed", None)


@pytest.mark.parametrize("role", [Role.EDITOR, Role.ADMIN])
async def test_C9_nobody_but_the_owner_brings_a_command_along_that_runs_unasked(
    daemon: Daemon, home: Path, role: Role
) -> None:
    start, criterion = (
        "/api/agents/default/loop/start",
        {"criterion": "test_pass", "value": "touch brought"},
    )
    assert await kind_as(daemon, role, start, message="again", **criterion) == REFUSED
    assert await kind_as(daemon, role, start, message="again", value="touch brought") == REFUSED
    started, loop = await says_as(
        daemon, role, start, message="again", criterion="regex", value="ok"
    )
    assert started == 202
    assert "'value': 'ok'" in str(loop)
    await says_as(daemon, role, "/api/agents/default/loop/stop")
    assert not (home / "workspace" / "brought").exists()


async def test_C9_people_stand_in_the_journal_under_their_own_names(daemon: Daemon) -> None:
    status, run = await says_as(daemon, Role.EDITOR, text="hello")
    assert (status, run["session"], run["label"]) == (200, "web:editors", "trusted")
    (first, *_) = await daemon.listed(f"/v1/runs/{run['turn']}/transcript")
    assert first["sender"] == "editors"
    assert (await told_as(daemon, Role.EDITOR, "/whoami")).startswith(
        "You are editors, editor, in web:editors"
    )
    assert str((await daemon.post("/v1/messages", text="/whoami"))["reply"]).startswith(
        "You are owner, owner, in web:default"
    )


@pytest.mark.parametrize("session", ["default", "web:default", "admins", "editorsx", "web:owner"])
async def test_nobody_speaks_in_the_conversations_of_others(daemon: Daemon, session: str) -> None:
    assert await kind_as(daemon, Role.EDITOR, text="hello", session=session) == REFUSED


async def test_a_user_has_as_many_conversations_as_they_like(daemon: Daemon) -> None:
    assert (await says_as(daemon, Role.ADMIN, text="hello", session="admins.work"))[1][
        "session"
    ] == "web:admins.work"


async def test_what_a_conversation_cost_that_is_not_there_is_told_without_its_name(
    daemon: Daemon,
) -> None:
    gone = "terminal:gone"
    asked = {"rules": "Judge.", "said": ["Is it kind?"]}
    await daemon.post(f"/v1/sessions/{gone}/judge", **asked)
    costs = await daemon.get("/v1/costs")
    assert isinstance(costs, dict) and gone not in str(costs)
    assert [one["calls"] for one in costs["sessions"] if not one["name"]] == [1]


async def test_terminals_are_the_owners(daemon: Daemon) -> None:
    assert (await says_as(daemon, Role.ADMIN, "/v1/terminal/main/messages", text="hello"))[0] == 403


async def test_only_an_owner_says_yes_to_a_command(daemon: Daemon, model: FakeOpenAI) -> None:
    word = Script(model).on("dangerous", shell("echo a; rm -f a"), says("done"))
    turn = str((await says_as(daemon, Role.EDITOR, "/v1/messages", text=word))[1]["turn"])
    call_id = str((await daemon.until(turn, "approval.asked")).data["call_id"])
    for role in (Role.GUEST, Role.VIEWER, Role.EDITOR, Role.ADMIN):
        assert await kind_as(daemon, role, f"/v1/runs/{turn}/approve", call_id=call_id) == REFUSED
    assert "/approve" in await told_as(daemon, Role.EDITOR, "/help")
    await says_as(daemon, Role.EDITOR, text="/approve")
    assert [row["turn"] for row in await daemon.listed("/v1/approvals")] == [turn]
    assert (await says_as(daemon, Role.OWNER, f"/v1/runs/{turn}/approve", call_id=call_id))[
        0
    ] == 200
    await daemon.until(turn, "run.completed")
    assert (await daemon.run(turn))["reply"] == "done"


async def test_an_editor_may_take_back_what_they_asked_for_and_nobody_elses(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    script = Script(model)
    word = script.on("retracted", shell("echo b; rm -f b"), says("I did not"))
    turn = str((await says_as(daemon, Role.EDITOR, "/v1/messages", text=word))[1]["turn"])
    call_id = str((await daemon.until(turn, "approval.asked")).data["call_id"])
    assert (await says_as(daemon, Role.EDITOR, f"/v1/runs/{turn}/reject", call_id=call_id))[
        0
    ] == 200
    word = script.on("owners", shell("echo c; rm -f c"), says("I did not"))
    other = await daemon.begin(word, "default")
    call_id = str((await daemon.until(other, "approval.asked")).data["call_id"])
    assert (await says_as(daemon, Role.EDITOR, f"/v1/runs/{other}/reject", call_id=call_id))[
        0
    ] == 403
    await daemon.post(f"/v1/runs/{other}/reject", call_id=call_id)


async def test_managing_the_daemon_by_a_command_is_the_owners(daemon: Daemon) -> None:
    for command in ("/people", "/people remove x", "/rules add never delete mail without asking"):
        for role in (Role.ADMIN, Role.EDITOR):
            reply = await told_as(daemon, role, command)
            assert reply.endswith(f"you are {NAMES[role]}, {role.value}. Nothing was done.")


async def test_a_code_is_made_by_the_owner_and_people_are_listed_and_removed(
    daemon: Daemon,
) -> None:
    invited = await daemon.post("/v1/people/codes", role="admin", channel="telegram")
    assert (invited["role"], invited["channel"], len(str(invited["code"]))) == (
        "admin",
        "telegram",
        9,
    )
    assert await daemon.listed("/v1/people") == []
    assert await daemon.post("/v1/people/remove", name="telegram//1") == {"removed": False}
    assert "aidaemon pair" in str((await daemon.post("/v1/messages", text="/people"))["reply"])
    async with daemon.http.post("/v1/people/codes", json={"role": "emperor"}) as response:
        assert (await error_of(response))[:2] == (400, "invalid")


async def test_the_table_of_roles_is_the_one_that_is_used_here() -> None:
    assert {
        role for role in Role if all(has_right(role, one) for one in ROUTE_RIGHTS.values())
    } == {Role.OWNER}
