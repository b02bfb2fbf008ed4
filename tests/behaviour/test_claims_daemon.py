"""What a reply says was done is held against what the tools did, before the user sees it (F6, on by default by E10)."""

from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import Coached, Verified
from daemon.core.trust import Effect
from daemon.tools.base import ToolError
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says

CLAIM = "I have sent the mail to Eva."
NOTE = "(Note: no tool result of this turn shows that"


@tool(effect=Effect.WRITE)
async def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@tool(effect=Effect.WRITE)
async def send_fax(to: str) -> str:
    """Send a fax."""
    raise ToolError("the line is dead")


@tool(effect=Effect.READ)
async def look(about: str) -> str:
    """Look."""
    return f"nothing about {about}"


PARTS = Overrides(tools=bind((send_mail, send_fax, look), {}))


async def coached(it: Living, turn: str) -> list[str]:
    return [event.kind for event in await it.events(turn) if isinstance(event, Coached)]


async def test_a_claim_that_nothing_shows_gets_one_round_to_be_put_right_f6(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(says(CLAIM), says("I have not sent it yet. Shall I?"))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask("write to Eva")
        assert (run.stop_reason, run.reply) == ("done", "I have not sent it yet. Shall I?")
        assert len(model.requests) == 2  # one call more, no other
        assert await coached(it, run.turn) == ["claims"]
        told = str(model.requests[1].last("user")["content"])
        assert CLAIM in told and "does not show it" in told


async def test_one_that_is_made_true_in_its_round_is_delivered_as_it_is_f6(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(says(CLAIM), calls(("send_mail", {"to": "Eva"})), says(CLAIM))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask("write to Eva")
        assert (run.stop_reason, run.reply) == ("done", CLAIM)


async def test_one_that_is_insisted_upon_gets_an_honest_line_f6(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(says(CLAIM), says("Yes. " + CLAIM))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask("write to Eva")
        assert run.stop_reason == "done"
        assert run.reply and run.reply.startswith(f"Yes. {CLAIM}\n\n{NOTE}")
        assert (run.reply.count(NOTE), len(model.requests)) == (1, 2)


async def test_with_a_real_result_there_is_no_alarm_f6(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(calls(("send_mail", {"to": "Eva"})), says(CLAIM))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask("write to Eva")
        assert (run.reply, len(model.requests), await coached(it, run.turn)) == (CLAIM, 2, [])


@pytest.mark.parametrize(
    "tried",
    [("send_fax", {"to": "Eva"}), ("look", {"about": "Eva"})],
    ids=["failed", "only looked"],
)
async def test_what_failed_or_only_looked_is_no_proof_f6(
    tmp_path: Path, model: FakeOpenAI, tried: tuple[str, dict[str, str]]
) -> None:
    model.script(calls(tried), says(CLAIM), says("I could not send it."))
    async with living(tmp_path, model, parts=PARTS) as it:
        assert (await it.ask("write to Eva")).reply == "I could not send it."


async def test_it_can_be_switched_off_f6(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(says(CLAIM))
    async with living(tmp_path, model, {"agent": {"check_claims": False}}, PARTS) as it:
        run = await it.ask("write to Eva")
        assert (run.reply, len(model.requests)) == (CLAIM, 1)


async def test_what_a_sub_agent_did_is_proof_for_who_asked_it_f6(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A17: its own claims were held against its own record before."""

    def choose(body: Json) -> Step:
        first = next(
            str(message["content"]) for message in body["messages"] if message["role"] == "user"
        )
        done = [message for message in body["messages"] if message["role"] == "tool"]
        if first.startswith("child"):
            return says("I sent it.") if done else calls(("send_mail", {"to": "Eva"}))
        return says(CLAIM) if done else calls(("spawn_agent", {"task": "child: send it to Eva"}))

    model.otherwise(by(choose))
    async with living(tmp_path, model, parts=PARTS) as it:
        run = await it.ask("write to Eva")
        assert (run.reply, await coached(it, run.turn)) == (CLAIM, [])


async def test_the_last_word_of_a_turn_that_is_stopped_is_held_against_it_too_f6(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E9: a closing text is no place to claim what was never done."""
    model.script(calls(("look", {"about": "one"})), calls(("look", {"about": "two"})), says(CLAIM))
    async with living(tmp_path, model, {"agent": {"max_iterations": 2}}, PARTS) as it:
        run = await it.ask("write to Eva")
        assert run.stop_reason == "max_iterations"
        assert run.reply and run.reply.startswith(CLAIM) and NOTE in run.reply


async def test_a_declared_end_is_held_against_it_too_f6(tmp_path: Path, model: FakeOpenAI) -> None:
    """B2: the end stands as its author declared it; the line below it is honest."""
    spec = '[iteration]\nmax_cycles = 5\n[[iteration.termination_conditions]]\nkind = "text-includes"\ntext = "<done>"\n'
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "clerk.toml").write_text(f'[identity]\nname = "clerk"\n{spec}')
    model.script(says(f"{CLAIM} <done>"))
    async with living(tmp_path, model, parts=PARTS) as it:
        await it.command("/agent clerk")
        run = await it.ask("write to Eva")
        assert (run.stop_reason, len(model.requests)) == ("condition", 1)
        assert run.reply and run.reply.startswith(f"{CLAIM} <done>\n\n{NOTE}")


async def test_a_correction_after_a_check_is_looked_at_again_f6(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """E10: what is put right for one check may not claim anew; notes stand in the order in which they were found."""
    verify = [{"kind": "contains", "value": "Regards"}]
    model.script(says(CLAIM), says("I have not sent it."), says(f"{CLAIM} Regards"))
    async with living(tmp_path, model, {"agent": {"verify": verify}}, PARTS) as it:
        run = await it.ask("write to Eva")
        assert await coached(it, run.turn) == ["claims", "verify"]
        assert run.reply and run.reply.startswith(f"{CLAIM} Regards\n\n{NOTE}")
        checks = [event.check for event in await it.events(run.turn) if isinstance(event, Verified)]
        assert checks == ["claims", "contains: Regards", "contains: Regards"]


async def test_the_next_turn_is_shown_the_honest_line_f6(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(says(CLAIM), says(CLAIM), says("No, it was not sent."))
    async with living(tmp_path, model, parts=PARTS) as it:
        await it.ask("write to Eva")
        await it.ask("was it sent?")
        assert NOTE in str([message["content"] for message in model.requests[-1]["messages"]])


async def test_a_plain_answer_costs_one_call_f6(tmp_path: Path, model: FakeOpenAI) -> None:
    """architecture.md: the check is no model call."""
    model.script(says("Eva's address is in your contacts."))
    async with living(tmp_path, model, parts=PARTS) as it:
        await it.ask("where does Eva live?")
        assert len(model.requests) == 1
