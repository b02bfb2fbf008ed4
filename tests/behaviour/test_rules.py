"""Pinned rules hold at the gate, whatever becomes of the conversation, and name themselves (F5)."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import CallJudged, HistoryCompressed
from daemon.core.trust import Decision, Effect
from daemon.tools.signature import bind, tool
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, calls, fails, says


@dataclass
class Mailbox:
    """What became of the mail."""

    gone: list[str] = field(default_factory=list)


@tool(effect=Effect.WRITE)
async def drop_letter(mailbox: Mailbox, which: str) -> str:
    """Move an e-mail to the bin."""
    mailbox.gone.append(which)
    return "gone"


@tool(effect=Effect.DESTRUCTIVE)
async def mail__expunge(mailbox: Mailbox, which: str) -> str:
    """Delete for good."""
    mailbox.gone.append(which)
    return "gone for good"


def parts(mailbox: Mailbox) -> Overrides:
    return Overrides(tools=bind([drop_letter, mail__expunge], {Mailbox: mailbox}))


async def judged(it: Living, turn: str) -> CallJudged:
    return next(event for event in await it.events(turn) if isinstance(event, CallJudged))


async def tries(it: Living, name: str = "drop_letter", session: str = SESSION) -> str:
    """A turn whose model wants to delete a mail; it stands until it ends or asks."""
    it.model.script(calls((name, {"which": "13"})), says("done"))
    return await it.say("tidy up", session)


async def asked_about(it: Living, name: str = "drop_letter") -> str:
    """The turn, once it waits for a person."""
    turn = await tries(it, name)
    await it.until(turn, "run.suspended")
    return turn


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


async def test_F5_without_a_rule_the_tool_runs_and_with_one_a_person_is_asked(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        await it.settled(await tries(it))
        assert mailbox.gone == ["13"]
        told = await it.command("/rules add never delete mail without asking")
        assert "Rule 1 is understood as: ask before every call" in told and "about mail" in told
        assert "drop_letter" in told and "/rules confirm 1" in told
        turn = await asked_about(it)
        verdict = await judged(it, turn)
        assert (verdict.decision, mailbox.gone) == (Decision.ASK, ["13"])
        assert "rule 1 ('never delete mail without asking')" in verdict.reason


async def test_F5_a_yes_of_a_person_lets_that_one_call_run(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        await it.command("/rules add never delete mail without asking")
        turn = await asked_about(it)
        await it.command("/approve")
        await it.settled(turn)
        assert mailbox.gone == ["13"]
        await asked_about(it)
        assert mailbox.gone == ["13"]


async def test_F5_no_standing_permission_goes_before_a_rule(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        turn = await asked_about(it, "mail__expunge")
        await it.command("/approve always")
        await it.settled(turn)
        await it.settled(await tries(it, "mail__expunge"))
        assert mailbox.gone == ["13", "13"]
        await it.command("/rules add ask before deleting mail")
        await asked_about(it, "mail__expunge")
        assert mailbox.gone == ["13", "13"]


async def test_F5_what_is_forbidden_is_refused_and_the_model_is_told_by_which_rule(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        await it.command("/rules add never delete mail")
        run = await it.settled(await tries(it))
        assert (run.stop_reason, mailbox.gone) == ("done", [])
        assert (
            "rule 1 ('never delete mail') forbids this"
            in model.requests[-1].last("tool")["content"]
        )


async def test_F5_clear_a_restart_and_another_chat_change_nothing(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        await it.command("/rules add never delete mail")
        await it.command("/clear")
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        for session in (SESSION, "web:other"):
            await it.settled(await tries(it, session=session))
        assert mailbox.gone == []
        assert "1. never delete mail" in await it.command("/rules")


async def test_F5_a_history_that_was_cut_fifty_times_changes_nothing(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    small = {"agent": {"context_window": 2000}}
    async with living(tmp_path, model, small, parts=parts(mailbox)) as it:
        await it.command("/rules add never delete mail")
        model.script(*[says("well")] * 60)
        turns = [
            (await it.ask(f"remember number {number}: " + "blah " * 800)).turn
            for number in range(60)
        ]
        cut = [
            turn
            for turn in turns
            if any(isinstance(event, HistoryCompressed) for event in await it.events(turn))
        ]
        assert len(cut) >= 50
        await it.settled(await tries(it))
        assert mailbox.gone == []


async def test_F5_a_rule_of_one_chat_leaves_others_alone(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        assert "In this chat only." in await it.command("/rules add never delete mail in this chat")
        await it.settled(await tries(it))
        assert mailbox.gone == []
        await it.settled(await tries(it, session="web:other"))
        assert mailbox.gone == ["13"]


async def test_F5_a_rule_is_confirmed_listed_and_removed_by_its_number_which_is_never_given_again(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        assert (await it.command("/rules")).startswith("There are no rules.")
        await it.command("/rules add never delete mail")
        assert "not confirmed yet" in await it.command("/rules list")
        assert "is confirmed: never delete mail" in await it.command("/rules confirm 1")
        assert "not confirmed" not in await it.command("/rules")
        assert "is removed: never delete mail" in await it.command("/rules remove 1")
        assert "There is no rule '1'" in await it.command("/rules remove 1")
        await it.settled(await tries(it))
        assert mailbox.gone == ["13"]
        assert "Rule 2" in await it.command("/rules add never send mail")


async def test_F5_a_sentence_that_is_no_rule_makes_none_and_the_forms_are_told(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        model.script(says('{"problem": "It is no rule."}'), says("I do not know."))
        for sentence in ("hello there", "never frobnicate mail", ""):
            told = await it.command(f"/rules add {sentence}")
            assert told.startswith("No rule was added.") and "never delete mail" in told
        assert (await it.command("/rules")).startswith("There are no rules.")


async def test_F5_free_text_is_read_by_the_model_and_its_owner_confirms_the_reading(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        read = (
            '{"action": "deny", "effects": ["destructive"], "verbs": ["delete"], "about": ["mail"]}'
        )
        model.script(says(read))
        told = await it.command("/rules add lösche niemals Mails")
        assert "understood as: refuse every call" in told and "/rules confirm 1" in told
        run = await it.settled(await tries(it))
        assert (run.stop_reason, mailbox.gone) == ("done", [])
        assert (
            "rule 1 ('lösche niemals Mails') forbids this"
            in (model.requests[-1].last("tool")["content"])
        )


async def test_F5_without_an_answer_of_the_model_the_forms_are_told(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        model.script(fails(401))
        told = await it.command("/rules add lösche niemals Mails")
        assert told.startswith("No rule was added.") and "never delete mail" in told


async def test_F5_a_rule_that_no_tool_fits_says_so(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        assert "It applies to none of the tools" in await it.command(
            "/rules add never read tea leaves"
        )


async def test_F5_a_rule_that_cannot_be_read_any_more_asks_instead_of_being_forgotten(
    tmp_path: Path, model: FakeOpenAI, mailbox: Mailbox
) -> None:
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        await it.house.store.write(
            lambda tx: tx.add_rule("never pay", '{"from": "a later version"}', "", "owner")
        )
    async with living(tmp_path, model, parts=parts(mailbox)) as it:
        assert "1. cannot be read" in await it.command("/rules")
        await asked_about(it)
        assert mailbox.gone == []
