"""An interactive conversation through its own keys, against a scripted door."""

import asyncio
import io
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from daemon.cli.terminal.follower import AutoAnswer
from daemon.cli.terminal.interactive import InteractiveChat
from daemon.cli.terminal.markdown import create_console
from daemon.cli.terminal.screen import TerminalScreen
from daemon.client.view_types import ApprovalView, RunView, SendResult, UndeliveredText
from daemon.core.clock import SystemClock
from daemon.core.events import Answer
from tests.fakes.door import FAR, FakeClient

CTRL_C, CTRL_D, ALT_ENTER = "\x03", "\x04", "\x1b\r"


class Page(io.StringIO):
    """What was printed; `drawn` is set whenever something was."""

    def __init__(self, drawn: asyncio.Event) -> None:
        super().__init__()
        self.drawn = drawn

    def write(self, text: str, /) -> int:
        self.drawn.set()
        return super().write(text)


class Glass(DummyOutput):
    """The moving part of a screen; only that it was drawn is of interest."""

    def __init__(self, drawn: asyncio.Event) -> None:
        self.drawn = drawn

    def flush(self) -> None:
        self.drawn.set()


@dataclass(slots=True)
class Sitting:
    """A person at a terminal."""

    door: FakeClient
    keys: PipeInput
    talk: InteractiveChat
    page: Page
    running: asyncio.Task[None]

    async def sees(self, text: str) -> None:
        await self.until(lambda: text in self.page.getvalue())

    async def until(self, true: Callable[[], object]) -> None:
        """Look again whenever the screen was drawn."""
        async with asyncio.timeout(10):
            while not true():
                self.page.drawn.clear()
                await self.page.drawn.wait()

    def types(self, text: str) -> None:
        self.keys.send_text(text)

    async def left(self) -> None:
        async with asyncio.timeout(10):
            await self.running


@asynccontextmanager
async def sitting(
    home: Path, door: FakeClient | None = None, standing: Answer | None = None
) -> AsyncIterator[Sitting]:
    door, drawn = door or FakeClient(), asyncio.Event()
    page, glass = Page(drawn), Glass(drawn)
    console = create_console(80)
    console.file = page
    with create_pipe_input() as keys, create_app_session(input=keys, output=glass):
        screen = TerminalScreen(
            home / "history",
            {"/help": "this list", "/stop": "stop"},
            SystemClock().monotonic,
            console=console,
            input=keys,
            output=glass,
        )
        talk = InteractiveChat(
            client=door,
            session="terminal:main",
            clock=SystemClock(),
            auto=AutoAnswer(standing),
            screen=screen,
        )
        running = asyncio.create_task(talk.run("hello there"))
        sits = Sitting(door, keys, talk, page, running)
        try:
            await sits.sees("hello there")
            yield sits
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def typed(sits: Sitting) -> str:
    """What stands in the input."""
    session = sits.talk.screen._session
    return session.default_buffer.text if session else ""


async def test_a_line_is_sent_and_its_reply_is_shown_and_marked_as_delivered(
    tmp_path: Path,
) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("hi\r")
        await sits.door.until(sent=1)
        sits.door.ends("t1", "Hello to **you**")
        await sits.sees("Hello to you")
        await sits.door.until(marked=1)
        assert sits.page.getvalue().count("Hello to you") == 1 and "› hi" in sits.page.getvalue()


async def test_alt_enter_and_pasted_lines_make_one_message_of_several_lines(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types(f"one{ALT_ENTER}two\r")
        sits.types("\x1b[200~three\nfour\x1b[201~\r")
        await sits.door.until(sent=2)
        assert sits.door.sent == ["one\ntwo", "three\nfour"]


async def test_what_is_typed_while_a_turn_runs_is_sent_too(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.door.replies = [SendResult(turn="t1"), SendResult(steered="t1")]
        sits.types("begin\r")
        await sits.door.until(sent=1)
        sits.types("and also this\r")
        await sits.sees("added to what it is working on")
        sits.door.ends("t1", "both done")
        await sits.sees("both done")


async def test_a_command_is_answered_and_help_adds_the_keys(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.door.replies = [SendResult(command="help", reply="/stop - stop the run")]
        sits.types("/help\r")
        await sits.sees("/stop - stop the run")
        await sits.sees("Alt-Enter")


async def test_yes_at_the_prompt_allows_the_call_once(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("delete it\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "shell", '{"command": "rm x"}')
        await sits.sees("command: rm x")
        sits.types("y\r")
        await sits.door.until(answers=1)
        assert sits.door.answers == [("t1", "3.0", Answer.ONCE, "")]
        await sits.sees("allowed once: shell rm x")


async def test_any_other_text_at_an_approval_is_a_no_with_that_reason(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("delete it\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "shell", '{"command": "rm x"}')
        await sits.sees("command: rm x")
        sits.types("move it to the bin instead\r")
        await sits.sees("not allowed: shell rm x (move it to the bin instead)")
        assert sits.door.answers == [("t1", "3.0", Answer.DENY, "move it to the bin instead")]
        assert sits.door.sent == ["delete it"]


async def test_a_half_typed_line_does_not_answer_a_question_that_comes_up_and_is_there_again_after_it(
    tmp_path: Path,
) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("delete it\r")
        await sits.door.until(sent=1)
        sits.types("yes but")
        await sits.until(lambda: typed(sits) == "yes but")
        sits.door.asks("t1", "3.0", "shell", '{"command": "rm x"}')
        await sits.until(lambda: sits.talk.screen.question and not typed(sits))
        sits.types("n\r")
        await sits.door.until(answers=1)
        await sits.until(lambda: typed(sits) == "yes but")
        assert sits.door.answers[0][2] is Answer.DENY


async def test_A6_a_long_question_is_shown_whole_before_a_yes_counts(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("write\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "write_file", '{"text": "' + "x" * 3000 + ' END"}', "write")
        await sits.sees("v shows them all")
        sits.types("y\r")
        await sits.sees(" END")
        assert sits.door.answers == []
        sits.types("y\r")
        await sits.door.until(answers=1)


async def test_two_questions_are_asked_one_after_the_other(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("both\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "shell", '{"command": "rm a"}')
        sits.door.asks("t1", "3.1", "shell", '{"command": "rm b"}')
        await sits.sees("command: rm a")
        await sits.until(lambda: len(sits.talk.questions) == 2)
        assert "command: rm b" not in sits.page.getvalue()
        sits.types("s\r")
        await sits.sees("command: rm b")
        assert "2 of 2, destructive" in sits.page.getvalue()
        sits.types("n\r")
        await sits.door.until(answers=2)
        assert [answer for _, _, answer, _ in sits.door.answers] == [Answer.SESSION, Answer.DENY]


async def test_a_question_answered_elsewhere_is_asked_no_more(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "shell", '{"command": "rm a"}')
        await sits.until(lambda: sits.talk.screen.question)
        sits.door.questions.clear()
        sits.door.happens(
            "t1", "approval.answered", call_id="3.0", answer="always", by="phone", reason=""
        )
        await sits.sees("always allowed from now on: shell rm a")
        await sits.until(lambda: not sits.talk.screen.question)


async def test_yes_and_deny_all_answer_without_asking(tmp_path: Path) -> None:
    async with sitting(tmp_path, standing=Answer.ONCE) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "shell", '{"command": "rm a"}')
        await sits.door.until(answers=1)
        assert sits.door.answers[0][2] is Answer.ONCE and not sits.talk.screen.question


async def test_ctrl_c_stops_the_turn_and_a_second_one_leaves(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("long work\r")
        await sits.door.until(sent=1)
        sits.types(CTRL_C)
        await sits.door.until(stops=1)
        assert "again to leave" in sits.talk.screen.status.hint
        sits.types(CTRL_C)
        await sits.left()


async def test_ctrl_c_clears_the_line_and_typing_on_disarms_the_next_one(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("half a th" + CTRL_C)
        await sits.until(lambda: sits.talk.screen.status.hint)
        assert typed(sits) == ""
        sits.types("on" + CTRL_C)
        await sits.door.until(stops=2)
        assert not sits.running.done()


async def test_ctrl_d_and_quit_leave(tmp_path: Path) -> None:
    for leaving in (CTRL_D, "/quit\r"):
        async with sitting(tmp_path) as sits:
            sits.types(leaving)
            await sits.left()


async def test_replies_that_were_missed_are_shown_at_the_start_and_only_once(
    tmp_path: Path,
) -> None:
    door = FakeClient(
        waiting=[
            UndeliveredText("t0", 1, "reply", "the answer you missed"),
            UndeliveredText("t0", 2, "notice", "by the way"),
        ]
    )
    async with sitting(tmp_path, door) as sits:
        await sits.sees("the answer you missed")
        await sits.sees("· by the way")
        await door.until(marked=2)
        assert sits.page.getvalue().count("the answer you missed") == 1


async def test_an_unfinished_run_is_followed_to_its_answer_without_a_key(tmp_path: Path) -> None:
    door = FakeClient(open=["t0"])
    async with sitting(tmp_path, door) as sits:
        await sits.sees("resuming the interrupted run")
        await sits.sees("› the question of t0")
        door.ends("t0", "here it is")
        await sits.sees("here it is")


async def test_history_is_kept_for_the_owner_alone_and_without_answers_to_questions(
    tmp_path: Path,
) -> None:
    async with sitting(tmp_path / "new") as sits:
        sits.types("remember me\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "shell", '{"command": "rm a"}')
        await sits.until(lambda: sits.talk.screen.question)
        sits.types("y\r")
        await sits.door.until(answers=1)
    kept = tmp_path / "new" / "history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [line for line in kept.read_text().split("\n") if line.startswith("+")] == [
        "+remember me"
    ]


BUDGET = '{"budget": "turn", "limit": 2.0, "more": 2.0, "of": "usd", "used": 2.0}'


async def test_A17_what_a_sub_agent_asks_is_asked_at_this_prompt_and_what_it_says_is_not_the_reply(
    tmp_path: Path,
) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.spawns("t1", "3.0", "c1", "tidy the workspace")
        await sits.sees("• agent scout: tidy the workspace")
        sits.door.happens("c1", "model.response", text="I am the child.", tool_calls=0)
        sits.door.asks("c1", "2.0", "shell", '{"command": "rm x"}', session="sub-1-c1")
        await sits.sees("agent scout: allow shell?")
        sits.types("y\r")
        await sits.door.until(answers=1)
        assert sits.door.answers == [("c1", "2.0", Answer.ONCE, "")]
        await sits.sees("agent scout: allowed once: shell rm x")
        sits.door.happens("c1", "run.completed", reply="I am the child.", stop_reason="done")
        text = '{"turn": "c1", "stop_reason": "done"}\nI am the child.'
        sits.door.happens(
            "t1", "tool_result", call_id="3.0", tool="spawn_agent", outcome="ok", text=text
        )
        sits.door.ends("t1", "All is tidy.")
        await sits.sees("All is tidy.")
        lines = [line.strip() for line in sits.page.getvalue().splitlines()]
        assert (
            "• agent scout: tidy the workspace → done: I am the child." in lines
            and "I am the child." not in lines
        )


async def test_A17_an_agent_below_an_agent_is_followed_too(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.spawns("t1", "3.0", "c1", "look")
        sits.door.spawns("c1", "3.0", "c2", "look deeper", "digger")
        sits.door.asks("c2", "2.0", "shell", '{"command": "rm deep"}', session="sub-2-c2")
        await sits.sees("• agent digger: look deeper")
        await sits.sees("agent digger: allow shell?")


async def test_A17_a_background_agent_goes_on_being_followed_when_the_reply_is_there(
    tmp_path: Path,
) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.spawns("t1", "3.0", "c1", "look", background=True)
        sits.door.ends("t1", "It is under way.")
        await sits.sees("It is under way.")
        sits.door.asks("c1", "2.0", "shell", '{"command": "rm late"}', session="sub-1-c1")
        await sits.sees("command: rm late")
        sits.types("n\r")
        await sits.door.until(answers=1)
        sits.door.happens("c1", "run.completed", reply="Found it.", stop_reason="done")
        await sits.sees("• agent scout: look → done: Found it.")


async def test_A17_a_sub_agent_that_is_stopped_while_it_asks_leaves_no_question_behind(
    tmp_path: Path,
) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.spawns("t1", "3.0", "c1", "look")
        sits.door.asks("c1", "2.0", "shell", '{"command": "rm x"}', session="sub-1-c1")
        await sits.until(lambda: sits.talk.screen.question)
        sits.door.happens("c1", "run.completed", reply="", stop_reason="cancelled")
        await sits.until(lambda: not sits.talk.screen.question)


async def test_F2_a_used_up_budget_is_a_yes_or_no_in_words(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "budget.1", "extend_budget", BUDGET, "write")
        await sits.sees("The turn's money is used up ($2.00 of $2). Go on with $2 more?")
        await sits.until(lambda: sits.talk.screen.question == "yes or no? ")
        sits.types("always\r")
        await sits.door.until(answers=1)
        assert sits.door.answers == [
            ("t1", "budget.1", Answer.DENY, "always")
        ]  # nothing is allowed for longer than once


async def test_F2_yes_on_the_command_line_raises_the_budget_of_a_run_once(tmp_path: Path) -> None:
    async with sitting(tmp_path, standing=Answer.ONCE) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "budget.1", "extend_budget", BUDGET, "write")
        sits.door.asks("t1", "4.0", "shell", '{"command": "rm a"}')
        sits.door.asks("t1", "budget.2", "extend_budget", BUDGET, "write")
        await sits.door.until(answers=3)
        assert [answer for _, _, answer, _ in sits.door.answers] == [
            Answer.ONCE,
            Answer.ONCE,
            Answer.DENY,
        ]
        assert "once" in sits.door.answers[-1][3]


async def test_g_the_terminal_answers_the_question_that_it_shows_and_no_other_about_the_call(
    tmp_path: Path,
) -> None:
    """Which one is known of an open question, so a yes does not fall to the same call asked anew."""
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "3.0", "shell", '{"command": "sh a.sh"}', question="first")
        await sits.sees("allow shell?")
        sits.types("y\r")
        await sits.door.until(answers=1)
        assert sits.door.answers == [("t1", "3.0/first", Answer.ONCE, "")]


async def test_E10_words_at_a_review_are_what_is_to_be_changed(tmp_path: Path) -> None:
    async with sitting(tmp_path) as sits:
        sits.types("go\r")
        await sits.door.until(sent=1)
        sits.door.asks("t1", "review.3", "review_answer", '{"answer": "Four."}', "write")
        await sits.sees("Is this answer all right?")
        assert "Four." in sits.page.getvalue()
        sits.types("say why\r")
        await sits.door.until(answers=1)
        assert sits.door.answers == [("t1", "review.3", Answer.DENY, "say why")]


async def test_A17_a_question_that_a_sub_agent_asked_before_this_visit_is_asked_under_its_name(
    tmp_path: Path,
) -> None:
    door = FakeClient(
        views={"c1": RunView("c1", "sub-1-c1", "suspended", agent="scout", parent="t0")}
    )
    door.questions.append(
        ApprovalView(
            "c1", "2.0", "sub-1-c1", "shell", '{"command": "rm x"}', "destructive", "trusted", FAR
        )
    )
    async with sitting(tmp_path, door) as sits:
        await sits.sees("agent scout: allow shell?")
        door.questions.clear()
        await sits.until(lambda: not sits.talk.screen.question)  # it was answered elsewhere


async def test_A6_a_strangers_question_takes_no_line_that_is_meant_for_the_chat(
    tmp_path: Path,
) -> None:
    async with sitting(tmp_path) as sits:
        sits.door.asks("e1", "2.0", "wipe", "{}", session="event_1")
        await sits.sees("all else goes to the chat")
        sits.types("what is the weather like?\r")
        await sits.door.until(sent=1)
        assert (sits.door.sent, sits.door.answers) == (["what is the weather like?"], [])
        sits.types("n\r")
        await sits.door.until(answers=1)
        assert sits.door.answers == [("e1", "2.0", Answer.DENY, "")]
