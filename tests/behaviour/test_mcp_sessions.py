"""An MCP server over HTTP that has lost its sessions: a new one is begun, and the call goes on (A22)."""

from pathlib import Path

import pytest

from daemon.core.events import Outcome
from tests.fakes.mcp import keeping
from tests.fakes.mcp_sessions import SessionServer, serving_sessions
from tests.fakes.tools import Bench

EFFECTS = {"look": "read", "send": "write"}
CALLS = ["far__look", "far__send"]
INVALID = '{"jsonrpc": "2.0", "id": %s, "error": {"code": -32600, "message": "Session not found"}}'
OTHER = '{"jsonrpc": "2.0", "id": %s, "error": {"code": %d, "message": "who are you?"}}'
CERTAIN = [
    (404, ""),
    (400, INVALID % '"server-error"'),
    (400, INVALID % "null"),
    (400, INVALID % "$ID"),
    (200, INVALID % "$ID"),
    (404, OTHER % ("null", -32001)),
    (400, OTHER % ("null", -32000)),
    (400, '{"error": "gone with the wind"}'),
    (400, "Bad Request: no valid session"),
    (401, "please say hello first"),
    (403, ""),
    (410, "expired"),
]


def willing() -> Bench:
    return Bench(granted=tuple(CALLS))


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("refusal", CERTAIN)
async def test_a_lost_session_is_begun_anew_and_the_call_is_carried_out_once(
    tmp_path: Path, refusal: tuple[int, str], tool: str
) -> None:
    async with serving_sessions(SessionServer(refusal)) as server:
        table = {"url": server.url, "effects": EFFECTS}
        async with keeping(tmp_path, {"far": table}, willing()) as kept:
            first = await kept.one(tool, n=1)
            server.restart()
            second = await kept.one(tool, n=2)
            third = await kept.one(tool, n=3)
            assert kept.servers.problems() == {}
    assert [one.text for one in (first, second, third)] == ["done"] * 3
    assert len(server.executed) == 3
    assert len(server.sessions) == 2


async def test_an_effect_that_may_have_happened_is_not_repeated_and_the_next_call_works(
    tmp_path: Path,
) -> None:
    refusal = 400, OTHER % ("$ID", -32001)
    async with serving_sessions(SessionServer(refusal, runs_first=True)) as server:
        table = {"url": server.url, "effects": EFFECTS}
        async with keeping(tmp_path, {"far": table}, willing()) as kept:
            server.restart()
            refused = await kept.one("far__send", n=1)
            assert (refused.outcome, len(server.executed)) == (Outcome.ERROR, 1)
            assert "who are you?" in refused.text and "HTTP 400" in refused.text
            assert (await kept.one("far__send", n=2)).text == "done"
    assert len(server.executed) == 2


async def test_a_reading_call_goes_on_however_the_lost_session_is_refused(tmp_path: Path) -> None:
    async with serving_sessions(SessionServer((400, OTHER % ("$ID", -32001)))) as server:
        table = {"url": server.url, "effects": EFFECTS}
        async with keeping(tmp_path, {"far": table}, willing()) as kept:
            server.restart()
            assert (await kept.one("far__look")).text == "done"


@pytest.mark.parametrize("tool", CALLS)
async def test_what_a_new_session_is_refused_too_is_said_once_and_not_asked_for_again(
    tmp_path: Path, tool: str
) -> None:
    server = SessionServer((400, INVALID % "null"), refuses_calls=True)
    async with serving_sessions(server):
        table = {"url": server.url, "effects": EFFECTS}
        async with keeping(tmp_path, {"far": table}, willing()) as kept:
            refused = await kept.one(tool, n=1)
            sessions = len(server.sessions)
            server.refuses_calls = False
            later = await kept.one(tool, n=2)
    assert refused.outcome is Outcome.ERROR
    assert "and again in a new session: HTTP 400: Session not found" in refused.text
    assert (sessions, later.text) == (2, "done")


@pytest.mark.parametrize("code", [-32601, -32602])
async def test_an_answer_about_the_call_itself_ends_no_session(tmp_path: Path, code: int) -> None:
    server = SessionServer((400, OTHER % ("$ID", code)), refuses_calls=True)
    async with serving_sessions(server):
        table = {"url": server.url, "effects": EFFECTS}
        async with keeping(tmp_path, {"far": table}, willing()) as kept:
            refused = await kept.one("far__send")
            assert kept.servers.problems() == {}
    assert refused.text == f"who are you? (code {code})"
    assert len(server.sessions) == 1
