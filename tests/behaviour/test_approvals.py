"""Questions and standing permissions through the whole house: chat commands, the gate, the journal (A15, B8; trust.md)."""

import asyncio
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.rows import GrantBounds, NotAllowedToAnswer
from daemon.core.trust import Effect, Person, Role
from daemon.tools.signature import bind, tool
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, Step, calls, says


def hammer(struck: list[str]) -> Overrides:
    @tool(effect=Effect.DESTRUCTIVE)
    async def smash(what: str) -> str:
        """Break something."""
        struck.append(what)
        return "broken"

    return Overrides(tools=bind([smash], {}))


def smash(*what: str) -> Step:
    return calls(*(("smash", {"what": one}) for one in what))


async def waits(it: Living, turn: str) -> None:
    await it.until(turn, "run.suspended")


async def test_B8_several_questions_are_listed_and_answered_by_their_numbers(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("pots", "pans", "cups"), says("done"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        turn = await it.say("smash it all")
        await waits(it, turn)
        listed = await it.command("/approve")
        assert "3 questions wait" in listed and "2. smash" in listed and struck == []
        assert "pans" in await it.command("/approve 2")
        assert "pots" in await it.command("/deny 1 too dear")
        assert "cups" in await it.command("/approve 3")
        view = await it.settled(turn)
        assert sorted(struck) == ["cups", "pans"] and "too dear" in str(view.calls[0].result)


@pytest.mark.parametrize("words", ["/deny bbbb not this", "/approve bbbb"])
async def test_B8_the_code_of_a_question_that_waits_no_more_answers_no_other(
    tmp_path: Path, model: FakeOpenAI, words: str
) -> None:
    struck: list[str] = []
    model.script(smash("pots"), says("done"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        turn = await it.say("smash it")
        await waits(it, turn)
        told = await it.command(words)
        assert "No question that waits has the code bbbb." in told and "smash" in told
        assert struck == [] and "Denied" in await it.command("/deny not this")
        view = await it.settled(turn)
        assert "not this" in str(view.calls[0].result)


async def test_B8_all_means_all_that_were_listed(tmp_path: Path, model: FakeOpenAI) -> None:
    struck: list[str] = []
    model.script(smash("pots", "pans"), says("one"), smash("cups", "jars"), says("two"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        first = await it.say("smash")
        await waits(it, first)
        assert "2 questions wait" in await it.command(
            "/approve all"
        )  # nothing was listed yet: so they are
        assert struck == []
        assert (await it.command("/approve all")).count("Approved") == 2
        await it.settled(first)
        second = await it.say("again")
        await waits(it, second)
        assert "2 questions wait" in await it.command(
            "/approve all"
        )  # the others are gone; these were not seen
        assert (await it.command("/deny all")).count("Denied") == 2
        await it.settled(second)
        assert sorted(struck) == ["pans", "pots"]


async def test_A6_a_number_means_the_question_that_was_shown_with_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("pots", "pans", "cups"), says("done"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        turn = await it.say("smash")
        await waits(it, turn)
        await it.command("/approve")
        first = (await it.house.client.list_approvals())[0]
        await it.house.client.answer_approval(
            turn, first.call_id, Answer.DENY
        )  # from another window: the rest would move up
        assert "pans" in await it.command("/approve 2")
        assert "1 question waits" in await it.command("/approve 1")
        await it.command("/deny all")
        await it.settled(turn)
        assert struck == ["pans"]


async def test_A6_a_long_question_is_looked_at_whole_before_a_yes_counts(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("p" * 600 + "THE END"), says("done"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        turn = await it.say("smash")
        await waits(it, turn)
        refused = await it.command("/approve")
        assert "see it whole first" in refused and "THE END" not in refused
        assert "Not answered" in await it.command("/approve") and struck == []
        assert "THE END" in await it.command("/approve show")
        assert "Approved" in await it.command("/approve")
        await it.settled(turn)
        assert len(struck) == 1


async def test_A6_nothing_hides_in_a_question_that_a_chat_is_shown(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        smash("https://раypal.com/\u202egpj.exe\u200b", "x\n2. smash nothing"), says("done")
    )
    async with living(tmp_path, model, parts=hammer([])) as it:
        turn = await it.say("smash")
        await waits(it, turn)
        listed = await it.command("/approve")
        assert (
            "\\u202e" in listed
            and "\\u200b" in listed
            and "\u202e" not in listed
            and "xn--ypal-43d9g.com" in listed
        )
        assert [line[:2] for line in listed.split("\n") if line[1:2] == "."] == ["1.", "2."]
        await it.command("/deny all")
        await it.settled(turn)


async def test_a_permission_for_two_times_holds_two_times(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(*(one for _ in range(4) for one in (smash("pots"), says("ok"))))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        first = await it.say("smash")
        await waits(it, first)
        assert "2 times more" in await it.command("/approve session 2 times")
        await it.settled(first)
        for _ in range(2):
            assert (await it.ask("again")).calls[0].decision == "allow"
        [grant] = await it.house.client.list_grants() or [None]
        assert grant is None  # used up: it stands no longer
        last = await it.say("again")
        await waits(it, last)
        await it.command("/deny")
        await it.settled(last)
        assert struck == ["pots"] * 3


async def test_two_calls_of_one_reply_cannot_both_have_the_last_use(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("pots"), says("ok"), smash("pots", "pots"), says("ok"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        first = await it.say("smash")
        await waits(it, first)
        await it.command("/approve always 1 time")
        await it.settled(first)
        second = await it.say("again")
        await waits(it, second)
        assert len(await it.house.client.list_approvals()) == 1
        await it.command("/deny")
        await it.settled(second)
        assert len(struck) == 2


async def test_two_conversations_cannot_both_have_the_last_use(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("pots"), says("ok"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        first = await it.say("smash")
        await waits(it, first)
        await it.command("/approve always 1 time")
        await it.settled(first)
        model.otherwise(smash("pots"))
        turns = await asyncio.gather(*(it.say("again", f"web:{n}") for n in range(4)))
        for turn in turns:
            async for event in it.house.client.stream_events(turn):
                if event.name in ("tool_result", "run.suspended"):
                    break
        assert len(struck) == 2
        for turn in turns:
            await it.house.client.cancel_run(turn)


async def test_a_permission_for_places_covers_them_and_no_others(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    gone: list[str] = []

    @tool(effect=Effect.DESTRUCTIVE, critical=("path",), paths=("path",))
    async def clear(path: str, how: str) -> str:
        """Empty a file."""
        gone.append(path)
        return "cleared"

    def clears(path: str) -> Step:
        return calls(("clear", {"path": path, "how": f"how to {path}"}))

    model.script(
        *(
            one
            for path in ("reports/may", "reports/june", "notes")
            for one in (clears(path), says("ok"))
        )
    )
    async with living(tmp_path, model, parts=Overrides(tools=bind([clear], {}))) as it:
        first = await it.say("report")
        await waits(it, first)
        assert "does not match" in await it.command("/approve always paths notes/*")
        assert "would be everything" in await it.command("/approve always paths **")
        assert "on reports/*" in await it.command("/approve always paths reports/*")
        await it.settled(first)
        assert (await it.ask("another")).calls[0].decision == "allow"
        third = await it.say("elsewhere")
        await waits(it, third)
        await it.command("/deny")
        await it.settled(third)
        assert gone == ["reports/may", "reports/june"]


async def test_a_permission_for_places_is_not_given_where_more_than_places_counts(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("pots"), says("ok"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        turn = await it.say("smash")
        await waits(it, turn)
        assert "more than a path" in await it.command("/approve always paths reports/*")
        assert struck == [] and await it.house.client.list_grants() == []
        await it.command("/deny")
        await it.settled(turn)


async def test_grants_lists_bounds_and_uses_and_revoking_asks_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(*(one for _ in range(3) for one in (smash("pots"), says("ok"))))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        first = await it.say("smash")
        await waits(it, first)
        await it.command("/approve always")
        await it.settled(first)
        await it.ask("again")
        [view] = await it.house.client.list_grants()
        assert view.expires and view.uses == 1 and view.uses_left is None
        listed = await it.command("/grants")
        assert (
            "everywhere" in listed
            and "used once" in listed
            and "until" in listed
            and view.id in listed
        )
        assert "Revoked" in await it.command(f"/grants revoke {view.id}")
        last = await it.say("again")
        await waits(it, last)
        await it.command("/deny")
        await it.settled(last)
        assert len(struck) == 2 and await it.command("/grants") == "None."


async def test_C9_another_role_may_not_say_yes_and_is_told_so(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("pots"), says("ok"))
    async with living(tmp_path, model, parts=hammer(struck)) as it:
        turn = await it.say("smash")
        await waits(it, turn)
        [question] = await it.house.client.list_approvals(session=SESSION)
        for role in (Role.ADMIN, Role.EDITOR, Role.VIEWER, Role.GUEST):
            with pytest.raises(NotAllowedToAnswer):
                await it.house.client.answer_approval(
                    turn, question.call_id, Answer.ONCE, Person("ann", role)
                )
        with pytest.raises(UsageError):
            await it.house.client.answer_approval(
                turn, question.call_id, Answer.ONCE, bounds=GrantBounds(uses=2)
            )
        assert len(await it.house.client.list_approvals()) == 1 and struck == []
        await it.command("/deny")
        await it.settled(turn)


async def test_always_under_approvals_always_says_that_it_is_asked_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    struck: list[str] = []
    model.script(smash("pots"), says("done"), smash("pots"), says("done"))
    always = {"tools": {"approvals": "always"}}
    async with living(tmp_path, model, always, hammer(struck)) as it:
        turn = await it.say("smash it")
        await waits(it, turn)
        assert "The same will be asked again" in await it.command("/approve always")
        await it.settled(turn)
        again = await it.say("once more")
        await waits(it, again)
        assert struck == ["pots"]
