"""`aidaemon chat` with agents at work, plans, checks, budgets: in a window, in a pipe, --once (A17, E3, E10, E12, F2, B9)."""

import asyncio
import json
from pathlib import Path

from tests.e2e.test_chat_plain import Pipe, pipe
from tests.fakes.chatting import write_config
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says, tokens
from tests.fakes.screen import window

PROMPT = "›"
DEAR = calls(("current_time", {}), usage=tokens(3900, 5))
TIGHT = "[agent]\nmax_input_tokens = 4000\n"
PLAN = [{"text": "ask the helper", "state": "doing"}, {"text": "sum it up", "state": "open"}]


def play(scripts: dict[str, list[Step]]) -> Step:
    """Each conversation has steps of its own, found by what somebody said in it latest that a script is there for."""

    def choose(body: Json) -> Step:
        said = [
            str(message["content"])
            for message in reversed(body["messages"])
            if message["role"] == "user"
        ]
        steps = next(
            (
                steps
                for text in said
                for begins, steps in scripts.items()
                if text.startswith(begins)
            ),
            [],
        )
        return steps.pop(0) if steps else says("nothing more")

    return by(choose)


def touching(name: str) -> Step:
    return calls(("shell", {"command": f"touch {name}; echo"}))


def family() -> dict[str, list[Step]]:
    """A parent that plans, sets an agent to work that asks, and claims what is not so; and the agent."""
    return {
        "arrange": [
            calls(("todo", {"items": PLAN})),
            calls(("spawn_agent", {"task": "errand: make it"})),
            says("The helper has made it."),
            says("The helper has made it."),  # once more: a step of its plan is open (E3)
        ],
        "errand": [touching("made"), says("Made, says the helper.")],
    }


async def test_a17_e3_agents_and_plans_are_seen_in_the_window_and_what_an_agent_asks_is_answered_there(
    tmp_path: Path,
) -> None:
    """A17, E3: and `show` draws the run with the sub-agent's in it (B9)."""
    async with FakeOpenAI() as model:
        model.otherwise(play(family()))
        write_config(tmp_path, scripted(model.base_url))
        async with window("chat", "--home", str(tmp_path)) as shown:
            await shown.sees(PROMPT)
            shown.types("arrange it\r")
            await shown.sees(
                "· plan → 0 of 2 done, now: ask the helper", "[>] ask the helper", "[ ] sum it up",
                "• agent default: errand: make it", "agent default: allow shell?", "command: touch made; echo",
            )  # fmt: skip
            shown.types("y\r")
            over = "• agent default: errand: make it → done: Made, says the helper."
            screen = await shown.sees(over, "\nThe helper has made it.")
            assert "\nMade, says the helper." not in screen
            assert (tmp_path / "workspace" / "made").exists()
    runs = json.loads((await asyncio.to_thread(aidaemon, "runs", "--json", home=tmp_path)).stdout)
    (turn,), (child,) = (
        [run["turn"] for run in runs if bool(run["parent"]) is nested] for nested in (False, True)
    )
    picture = (await asyncio.to_thread(aidaemon, "show", turn, home=tmp_path)).stdout
    parts = (
        "plan  0 of 2 done",
        "[>] ask the helper",
        f"agent default  turn {child}",
        "task  errand: make it",
        "ended  done",
    )
    assert [part for part in parts if part not in picture] == [], picture
    told = json.loads(
        (await asyncio.to_thread(aidaemon, "show", turn, "--json", home=tmp_path)).stdout
    )
    (nested,) = told["children"]
    assert (nested["turn"], nested["parent"], nested["events"][0]["kind"]) == (
        child,
        turn,
        "UserSaid",
    )


async def test_a17_without_a_terminal_a_sub_agent_s_question_is_denied_and_yes_allows_it(
    tmp_path: Path,
) -> None:
    """A17: only the run's own reply is on stdout."""
    async with pipe(tmp_path) as at:
        at.model.otherwise(play(family()))
        ran = await at.chat("--once", "arrange it")
        assert (ran.code, ran.out) == (0, "The helper has made it.\n")
        assert not (tmp_path / "workspace" / "made").exists()
        assert (
            "• agent default: errand: make it" in ran.err
            and "agent default: not allowed: shell" in ran.err
        )
        at.model.otherwise(play(family()))
        ran = await at.chat("--yes", lines="arrange it\n")
        assert (ran.out, (tmp_path / "workspace" / "made").exists()) == (
            "The helper has made it.\n",
            True,
        )
        assert "Made, says the helper." in ran.err and "Made" not in ran.out


async def test_a17_through_a_daemon_that_runs_it_is_the_same(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path / "home", scripted(model.base_url)):
        model.otherwise(play(family()))
        ran = await Pipe(tmp_path / "home", model).chat("--once", "arrange it", "--yes")
        assert (ran.code, ran.out) == (0, "The helper has made it.\n")
        assert (tmp_path / "home" / "workspace" / "made").exists()


async def test_f2_where_nobody_can_be_asked_a_used_up_budget_ends_the_run_and_the_command(
    tmp_path: Path,
) -> None:
    """F2: promptly, with the work so far as its last word; --yes raises it once, and no more."""
    async with pipe(tmp_path) as at:
        (tmp_path / "config.toml").write_text(scripted(at.model.base_url, TIGHT))
        for words in ((), ("--deny-all",)):
            at.model.script(DEAR)
            ran = await at.chat("--once", "go", "--json", *words)
            told = json.loads(ran.out)
            assert (ran.code, told["stop_reason"]) == (0, "over_budget") and "current_time" in told[
                "reply"
            ], ran.err
            assert "Go on with 4,000 more? no" in ran.err
        at.model.script(DEAR, says("Done at last."))
        ran = await at.chat("--once", "go", "--yes")
        assert (ran.code, ran.out) == (0, "Done at last.\n") and "goes on, up to" in ran.err
        at.model.script(DEAR, DEAR, says("Too dear."))
        ran = await at.chat("--once", "go", "--yes", "--json")
        assert (
            json.loads(ran.out)["stop_reason"] == "over_budget"
            and "--yes raises the budget of a run once" in ran.err
        )


async def test_f2_a_used_up_budget_is_asked_in_words_in_the_window(tmp_path: Path) -> None:
    async with FakeOpenAI() as model:
        model.script(DEAR, says("Done at last."))
        write_config(tmp_path, scripted(model.base_url, TIGHT))
        async with window("chat", "--home", str(tmp_path)) as shown:
            await shown.sees(PROMPT)
            shown.types("go\r")
            await shown.sees(
                "The turn's tokens", "on with 4,000 more?", "[y]es · [n]o", "\nyes or no?"
            )
            shown.types("y\r")
            await shown.sees("· goes on, up to $2 and 8,000 tokens", "Done at last.")


async def test_e12_an_answer_that_a_check_sent_back_is_corrected_below_the_draft_and_once_prints_only_the_checked_one(
    tmp_path: Path,
) -> None:
    """E12, E10"""
    check = '[[agent.verify]]\nkind = "contains"\nvalue = "Sources:"\n'
    answers = says("It is so."), says("It is so. Sources: none.")
    async with FakeOpenAI() as model:
        write_config(tmp_path, scripted(model.base_url, check))
        model.script(*answers)
        async with window("chat", "--home", str(tmp_path)) as shown:
            await shown.sees(PROMPT)
            shown.types("tell me\r")
            screen = await shown.sees("Correction:", "It is so. Sources: none.")
            order = (
                "It is so.\n",
                "· sent back: contains: Sources: does not hold",
                "Correction:",
                "It is so. Sources: none.",
            )
            assert [screen.index(part) for part in order] == sorted(
                screen.index(part) for part in order
            ), screen
        model.script(*answers)
        assert (
            await Pipe(tmp_path, model).chat("--once", "tell me")
        ).out == "It is so. Sources: none.\n"


async def test_e10_a_review_shows_the_whole_answer_and_what_is_typed_is_what_to_change(
    tmp_path: Path,
) -> None:
    """E10: with nobody there, an answer that a person was to see is not passed off as accepted."""
    long = "\n".join(f"line {n}" for n in range(120))
    async with FakeOpenAI() as model:
        write_config(tmp_path, scripted(model.base_url, '[[agent.verify]]\nkind = "manual"\n'))
        model.script(says(long), says("Short."))
        async with window("chat", "--home", str(tmp_path)) as shown:
            await shown.sees(PROMPT)
            shown.types("tell me\r")
            await shown.sees(
                "Is this answer all right?", "line 0 ", "line 119", "or say what to change"
            )
            shown.types("shorter\r")
            await shown.sees("Is this answer all right? no (shorter)", "Short.", "\nyes or no?")
            shown.types("y\r")
            await shown.sees("\nShort.")
        model.otherwise(says("Never seen by anybody."))
        ran = await Pipe(tmp_path, model).chat("--once", "tell me", "--json")
        assert json.loads(ran.out)["stop_reason"] == "rejected"


async def test_a17_a_background_agent_s_question_is_asked_when_the_reply_has_long_come(
    tmp_path: Path,
) -> None:
    """A17: and its result comes as a message, which is answered."""
    scripts = {
        "begin": [
            calls(("spawn_agent", {"task": "errand: make it", "background": True})),
            says("It is under way."),
        ],
        "errand": [touching("made"), says("Made.")],
        "The background sub-agent": [says("The helper is back.")],
    }
    async with FakeOpenAI() as model:
        model.otherwise(play(scripts))
        write_config(tmp_path, scripted(model.base_url))
        async with window("chat", "--home", str(tmp_path)) as shown:
            await shown.sees(PROMPT)
            shown.types("begin\r")
            await shown.sees("It is under way.", "agent default: allow shell?")
            shown.types("y\r")
            await shown.sees(
                "• agent default: errand: make it → done: Made.", "The helper is back."
            )
            assert (tmp_path / "workspace" / "made").exists()
