"""`aidaemon chat` in a terminal window, with a scripted model: what a person sees and what keys do."""

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tests.fakes.chatting import streams, write_config
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Step, breaks_midstream, by, calls, fails, hangs, says
from tests.fakes.screen import Window, window

CTRL_C, CTRL_D, ALT_ENTER = "\x03", "\x04", "\x1b\r"
PROMPT = "›"


@dataclass(slots=True)
class Desk:
    """A home with a scripted model."""

    home: Path
    model: FakeOpenAI
    words: tuple[str, ...] = field(default=())

    def chat(
        self, *words: str, columns: int = 80, **env: str
    ) -> AbstractAsyncContextManager[Window]:
        return window("chat", "--home", str(self.home), *words, columns=columns, env=env)


@asynccontextmanager
async def desk(home: Path, *steps: Step) -> AsyncIterator[Desk]:
    async with FakeOpenAI() as model:
        model.script(*steps)
        write_config(home, scripted(model.base_url))
        yield Desk(home, model)


async def test_E12_text_is_seen_and_rendered_while_it_comes(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    async with (
        desk(tmp_path, streams("The **first** half ", gate, "and the second")) as at,
        at.chat() as shown,
    ):
        await shown.sees("fake", "session main", PROMPT)
        shown.types("go\r")
        assert "**" not in await shown.sees("› go", "The first half", "writing")
        gate.set()
        screen = await shown.sees("The first half and the second")
        assert screen.count("The first half") == 1


async def test_a_draft_that_breaks_off_is_replaced_by_the_next_try(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with (
        desk(tmp_path, breaks_midstream("broken half"), streams("Sound ", gate, "answer")) as at,
        at.chat() as shown,
    ):
        await shown.sees(PROMPT)
        shown.types("go\r")
        await shown.sees("Sound")
        await shown.loses("broken")
        gate.set()
        await shown.sees("Sound answer")


async def test_a_tool_call_is_one_line_and_the_reply_follows(tmp_path: Path) -> None:
    async with (
        desk(tmp_path, calls(("current_time", {}), text="Let me look."), says("It is late.")) as at,
        at.chat() as shown,
    ):
        await shown.sees(PROMPT)
        shown.types("what time is it?\r")
        screen = await shown.sees("It is late.")
        assert "Let me look." in screen
        assert [line for line in screen.split("\n") if line.startswith("· current_time → ")]


async def test_yes_at_the_prompt_runs_the_command_and_no_does_not(tmp_path: Path) -> None:
    one, two = (calls(("shell", {"command": f"touch {name}; echo"})) for name in ("one", "two"))
    async with desk(tmp_path, one, says("Made."), two, says("Left.")) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("make one\r")
        screen = await shown.sees(
            "allow shell?", "command: touch one; echo", "destructive", "lapses in 5 min", "\nallow?"
        )
        assert "[y]es once" in screen
        shown.types("y\r")
        await shown.sees("allowed once", "Made.")
        shown.types("make two\r")
        await shown.sees("command: touch two; echo")
        shown.types("not on a Saturday\r")
        await shown.sees("not allowed: shell touch two; echo (not on a Saturday)", "Left.")
        assert (tmp_path / "workspace" / "one").exists() and not (
            tmp_path / "workspace" / "two"
        ).exists()
        assert "not on a Saturday" in str(at.model.requests[-1].last("tool")["content"])


async def test_E7_stop_acts_within_a_second_through_a_model_call_that_hangs(tmp_path: Path) -> None:
    async with desk(tmp_path, hangs()) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        await shown.sees("thinking")
        await at.model.hanging.wait()
        began = monotonic()
        shown.types("/stop\r")
        await shown.sees("Stopped.")
        assert monotonic() - began < 1
        async with asyncio.timeout(5):
            await at.model.gone.wait()


async def test_ctrl_c_stops_the_turn_and_pressed_again_leaves(tmp_path: Path) -> None:
    async with desk(tmp_path, hangs()) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        await at.model.hanging.wait()
        began = monotonic()
        shown.types(CTRL_C)
        await shown.sees("Stopped.", "Ctrl-C again to leave")
        assert monotonic() - began < 1
        shown.types(CTRL_C)
        assert await shown.ends() == 0


async def test_ctrl_c_at_the_prompt_clears_the_line_first(tmp_path: Path) -> None:
    async with desk(tmp_path) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("half a thought")
        await shown.sees("half a thought")
        shown.types(CTRL_C)
        await shown.loses("half a thought")
        await shown.sees("Ctrl-C again to leave")
        shown.types(CTRL_C)
        assert await shown.ends() == 0
        assert not at.model.requests


async def test_ctrl_d_leaves_and_the_terminal_is_as_before(tmp_path: Path) -> None:
    async with desk(tmp_path) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types(CTRL_D)
        assert await shown.ends() == 0
        assert (
            "\x1b[6n" not in shown.raw
        )  # nobody asks the terminal anything: the answer would be typed into the shell


async def test_a_key_pressed_before_the_prompt_stands_counts_like_any_other(tmp_path: Path) -> None:
    async with desk(tmp_path, says("Fine.")) as at:
        for keys, seen in (("early words\r", "› early words"), (CTRL_D, "aidaemon")):
            async with at.chat() as shown:
                await shown.sees("aidaemon")  # the greeting, drawn before there is a prompt
                shown.types(keys)
                screen = await shown.sees(seen)
                assert "^D" not in screen
                if keys != CTRL_D:
                    await shown.sees("Fine.")
                    shown.types(CTRL_D)
                assert await shown.ends() == 0


async def test_leaving_in_the_middle_waits_unless_ctrl_c_is_pressed_and_then_it_goes_on_later(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, hangs(), says("At last.")) as at:
        async with at.chat() as shown:
            await shown.sees(PROMPT)
            shown.types("a hard question\r")
            await at.model.hanging.wait()
            shown.types(CTRL_D)
            await shown.sees("finishing what runs; Ctrl-C leaves at once")
            began = monotonic()
            shown.types(CTRL_C)
            assert await shown.ends() == 130 and monotonic() - began < 5
        async with at.chat() as shown:
            await shown.sees("› a hard question", "At last.")


async def test_help_lists_the_commands_and_the_keys(tmp_path: Path) -> None:
    async with desk(tmp_path) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("/help\r")
        await shown.sees("/stop", "/status", "/cost", "Alt-Enter", "Ctrl-D")
        assert not at.model.requests


async def test_several_lines_make_one_message(tmp_path: Path) -> None:
    async with desk(tmp_path, says("Two lines."), says("Pasted.")) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types(f"first{ALT_ENTER}second\r")
        await shown.sees("› first\n  second", "Two lines.")
        shown.types("\x1b[200~third\nfourth\x1b[201~")
        await shown.sees("fourth")
        shown.types("\r")
        await shown.sees("Pasted.")
        assert [asked.last("user")["content"] for asked in at.model.requests] == [
            "first\nsecond",
            "third\nfourth",
        ]


async def test_E7_text_typed_while_it_works_steers_the_turn(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with (
        desk(tmp_path, streams("Working ", gate, "on it."), says("Blue, then.")) as at,
        at.chat() as shown,
    ):
        await shown.sees(PROMPT)
        shown.types("paint it\r")
        await shown.sees("Working")
        shown.types("in blue\r")
        await shown.sees("added to what it is working on")
        gate.set()
        await shown.sees("Blue, then.")
        assert at.model.requests[-1].last("user")["content"] == "in blue"


async def test_B5_killed_in_the_middle_it_gives_the_answer_after_the_next_start_without_a_key(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, hangs(), says("Here is your answer.")) as at:
        async with at.chat() as shown:
            await shown.sees(PROMPT)
            shown.types("a hard question\r")
            await at.model.hanging.wait()
            await shown.kill()
        async with at.chat() as shown:
            screen = await shown.sees(
                "› a hard question", "resuming the interrupted run", "Here is your answer."
            )
            assert (
                screen.index("› a hard question")
                < screen.index("resuming the interrupted")
                < screen.index("Here is your")
            )
            shown.types(CTRL_D)
            assert await shown.ends() == 0
        async with at.chat() as shown:
            screen = await shown.sees("Here is your answer.", PROMPT)
            assert (
                screen.count("Here is your answer.") == 1
                and "resuming the interrupted" not in screen
            )


async def test_the_last_session_goes_on_and_another_name_is_another_one(tmp_path: Path) -> None:
    async with desk(tmp_path, says("Noted."), says("Fresh.")) as at:
        async with at.chat() as shown:
            await shown.sees(PROMPT)
            shown.types("my dog is called Rex\r")
            await shown.sees("Noted.")
            shown.types(CTRL_D)
            assert await shown.ends() == 0
        async with at.chat() as shown:
            await shown.sees("› my dog is called Rex", "Noted.", "session main")
        async with at.chat("--session", "work") as shown:
            screen = await shown.sees("session work", PROMPT)
            assert "Rex" not in screen


async def test_it_is_a_client_of_a_daemon_that_runs_and_an_answer_that_was_missed_waits(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        model.script(says("Through the daemon."), streams("Slow ", gate, "answer."))
        at = Desk(tmp_path / "home", model)
        async with at.chat() as shown:
            await shown.sees(PROMPT)
            shown.types("hello\r")
            await shown.sees("Through the daemon.")
            shown.types("take your time\r")
            await shown.sees("Slow")
            shown.types(CTRL_D)
            await shown.sees("the daemon goes on")
            assert await shown.ends() == 0
        gate.set()
        [run] = await daemon.listed("/v1/runs", limit="1")
        await daemon.until(str(run["turn"]), "run.completed")
        async with at.chat() as shown:
            await shown.sees("› take your time", "Slow answer.")


async def test_A6_a_model_cannot_steer_the_terminal_or_hide_in_a_question(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202eclick"
    steps = [calls(("shell", {"command": "echo \u202e;\nrm x\u200b"}), text=evil), says(evil)]
    async with desk(tmp_path, *steps) as at, at.chat() as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        await shown.sees("command: echo \\u202e;\\n", "    rm x\\u200b")
        shown.types("n\r")
        await shown.sees("\\x1b]0;owned\\x07\\x1b[2J\\u202eclick", "not allowed")
        assert (
            "\x1b]0;" not in shown.raw and "\x1b[2J" not in shown.raw and "\u202e" not in shown.raw
        )


async def test_forty_columns_and_no_colour_are_enough(tmp_path: Path) -> None:
    wide = (
        "| name | meaning |\n|---|---|\n| " + "a " * 30 + "| " + "b " * 30 + "|\n\n" + "word " * 60
    )
    steps = [calls(("shell", {"command": "echo " + "x " * 60 + ";"})), says(wide)]
    async with desk(tmp_path, *steps) as at, at.chat(columns=40, NO_COLOR="1") as shown:
        await shown.sees(PROMPT)
        shown.types("go\r")
        await shown.sees("allow shell?")
        shown.types("n\r")
        screen = await shown.sees("word word")
        assert max(map(len, screen.split("\n"))) <= 40
        assert not any(f"\x1b[{colour}m" in shown.raw for colour in (31, 33, 36, 91, 93, 96))


async def test_a_provider_that_fails_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.model.otherwise(by(lambda body: fails(401)))
        async with at.chat() as shown:
            await shown.sees(PROMPT)
            shown.types("go\r")
            await shown.sees("I could not get an answer from the model")
            shown.types("/status\r")
            await shown.sees("Model: fake")


async def test_what_was_typed_is_remembered_for_the_owner_alone(tmp_path: Path) -> None:
    async with desk(tmp_path, says("One."), says("Two.")) as at:
        async with at.chat() as shown:
            await shown.sees(PROMPT)
            shown.types("remember this line\r")
            await shown.sees("One.")
        assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o600
        async with at.chat("--session", "other") as shown:
            await shown.sees(PROMPT)
            shown.types("\x1b[A")
            await shown.sees("› remember this line")


async def test_a_terminal_that_can_do_nothing_still_talks_and_asks(tmp_path: Path) -> None:
    steps = [calls(("shell", {"command": "touch one; echo"})), says("**Made.**")]
    async with desk(tmp_path, *steps) as at, at.chat(TERM="dumb") as shown:
        await shown.sees(">")
        shown.types("make it\n")
        await shown.sees("allow shell?", "command: touch one; echo", "[y]es once")
        shown.types("y\n")
        await shown.sees("**Made.**")
        assert "\x1b" not in shown.raw and (tmp_path / "workspace" / "one").exists()
        shown.types(CTRL_D)
        assert await shown.ends() == 0
