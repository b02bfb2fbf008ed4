"""MCP servers that die, hang, come late or will not go: real processes, called through the dispatcher (A22, B5)."""

from contextlib import suppress
from pathlib import Path

import pytest

from daemon.core.events import Outcome
from daemon.tools.base import RetryableToolError
from tests.fakes.mcp import Script, keeping, until
from tests.fakes.tools import Bench

AT = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = {"name": "look", "description": "Look something up", "inputSchema": AT}
SEND = {
    "name": "send",
    "description": "Send a letter",
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
}
EFFECTS = {"effects": {"look": "read", "send": "egress"}}
SENDS = "desk__send"


@pytest.fixture
def script(tmp_path: Path) -> Script:
    made = Script(tmp_path / "server")
    made.write([LOOK, SEND], {"look": [{"text": "a bird"}], "send": [{"text": "sent"}]})
    return made


def willing() -> Bench:
    """A dispatcher whose owner has allowed the effect for good."""
    return Bench(granted=(SENDS,))


async def test_a_reading_call_is_asked_again_when_its_server_crashed_and_the_server_comes_back(
    tmp_path: Path, script: Script
) -> None:
    script.write(
        [LOOK], {"look": [{"arguments": {"at": "once"}, "crash": "after"}, {"text": "a bird"}]}
    )
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        lost = await kept.one("desk__look", at="once")
        found = await kept.one("desk__look", at="again")
    assert (lost.outcome, found.text) == (Outcome.ERROR, "a bird")
    assert "the connection to its MCP server broke off" in lost.text
    assert len(script.executed()) == 5, "four tries of the first, one of the second"
    assert script.starts() == 5


async def test_an_effect_is_executed_at_most_once_when_the_server_dies_over_it(
    tmp_path: Path, script: Script
) -> None:
    script.write(
        [SEND], {"send": [{"arguments": {"to": "bob"}, "crash": "after"}, {"text": "sent"}]}
    )
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}, willing()) as kept:
        result = await kept.one(SENDS, to="bob")
        later = await kept.one(SENDS, to="ann")
    assert result.outcome is Outcome.ERROR
    assert "may or may not have happened" in result.text
    assert later.text == "sent"
    assert script.executed() == [("send", {"to": "bob"}), ("send", {"to": "ann"})]


async def test_an_effect_waits_for_a_server_that_is_just_coming_back(
    tmp_path: Path, script: Script
) -> None:
    script.write([SEND], {"send": [{"text": "sent"}]})
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}, willing()) as kept:
        script.write(
            [SEND], {"send": [{"arguments": {"to": "bob"}, "crash": "before"}, {"text": "sent"}]}
        )
        first = await kept.one(SENDS, to="bob")
        second = await kept.one(SENDS, to="ann")
    assert (first.outcome, second.text) == (Outcome.ERROR, "sent")
    assert script.executed() == [("send", {"to": "ann"})]


async def test_a_server_that_cannot_be_started_leaves_the_others_alone(
    tmp_path: Path, script: Script
) -> None:
    broken = Script(tmp_path / "broken", "broken")
    broken.write([LOOK], crash_at="start", stderr="no licence\n")
    tables = {
        "desk": script.table(**EFFECTS),
        "broken": broken.table(),
        "absent": {"command": "/no/such", "sandbox": "off"},
    }
    async with keeping(tmp_path, tables) as kept:
        assert kept.tools.names() == ("desk__look", SENDS)
        assert set(kept.servers.problems()) == {"broken", "absent"}
        await until(lambda: broken.starts() >= 2)


async def test_a_message_without_end_cuts_the_server_off(tmp_path: Path, script: Script) -> None:
    script.write([LOOK], {"look": [{"text": "x" * (17 << 20)}]})
    async with keeping(tmp_path, {"desk": script.table(effects={"look": "fetch"})}) as kept:
        result = await kept.one("desk__look")
    assert result.outcome is Outcome.ERROR
    assert "may or may not have happened" in result.text


async def test_a_flood_of_what_is_no_message_cuts_the_server_off_and_does_not_fill_the_log(
    tmp_path: Path, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    script.write([LOOK], noise="x\n" * 100_000)
    async with keeping(tmp_path, {"desk": script.table()}) as kept:
        assert "lines that are no messages" in kept.servers.problems()["desk"]
    assert (
        len([record for record in caplog.records if "not a message" in record.getMessage()])
        <= 10 * script.starts()
    )


@pytest.mark.parametrize("sandbox", ["off", "auto"])
async def test_the_end_of_the_daemon_is_the_end_of_its_servers_however_stubborn(
    tmp_path: Path, script: Script, sandbox: str
) -> None:
    script.write([LOOK], stubborn=True)
    async with keeping(tmp_path, {"desk": script.table(sandbox=sandbox)}):
        assert running(script)
    await until(lambda: not running(script))


def running(script: Script) -> list[str]:
    """Processes that have this script on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(script.file).encode() in entry.read_bytes().split(b"\0"):
                found.append(entry.parent.name)
    return found


async def test_a_slow_server_holds_up_nobody_and_its_tools_come_later(
    tmp_path: Path, script: Script
) -> None:
    slow = Script(tmp_path / "slow", "slow")
    slow.write([LOOK], slow_start=1.5)
    async with keeping(
        tmp_path, {"desk": script.table(**EFFECTS), "slow": slow.table()}, wait=False
    ) as kept:
        await until(lambda: "desk__look" in kept.tools.names())
        assert "slow__look" not in kept.tools.names()
        assert not await kept.servers.ready(0.01)
        assert await kept.servers.ready(20)
        assert "slow__look" in kept.tools.names()


async def test_an_effect_waits_for_the_next_connection_when_the_last_has_just_broken(
    tmp_path: Path, script: Script
) -> None:
    script.write([LOOK, SEND], {"look": [{"crash": "after"}], "send": [{"text": "sent"}]})
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        look, send = kept.tools.get("desk__look"), kept.tools.get(SENDS)
        assert look and send
        kept.bench.asks(("desk__look", "{}"))
        with pytest.raises(RetryableToolError):
            await look.run({}, kept.bench.context())
        assert (await send.run({}, kept.bench.context())).text == "sent"
    assert [name for name, _ in script.executed()] == ["look", "send"]
