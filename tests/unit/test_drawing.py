"""A run drawn as a tree of its iterations: every kind of event has a place in it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO

from rich.console import Console

from daemon.cli.drawing import draw_run, draw_runs
from daemon.core.events import (
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetExtended,
    CallJudged,
    Coached,
    Event,
    Limits,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    Outcome,
    Recorded,
    Steered,
    Stop,
    Suspended,
    ToolFinished,
    ToolRetried,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from daemon.core.label import Decision, Effect, Label
from daemon.core.messages import ToolCall, Usage
from daemon.door.base import RunLine, RunView, UsageView
from daemon.door.views import transcript_line

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SAID = UserSaid("tidy up", "me", "i1", Label.TRUSTED, 0.5, Limits())


def asked(iteration: int, *, closing: bool = False) -> ModelAsked:
    return ModelAsked(iteration, "openai", "small", "h", "h", ("shell",), (), AT, 1, 100, None, closing)


def replied(text: str, *calls: ToolCall, usd: float | None = 0.001) -> ModelReplied:
    return ModelReplied(text, calls, Usage(10, 5, 2, usd), "openai", "small", "stop", 0.5, 1.2)


def drawn(events: Sequence[Event], run: RunView | None = None) -> list[str]:
    """The picture's lines, without the lines of the tree itself."""
    lines = [transcript_line(Recorded(seq, AT, event)) for seq, event in enumerate(events, 1)]
    console = Console(file=(out := StringIO()), width=200, color_system=None)
    console.print(draw_run(run or RunView("t1", "terminal:main", "ended", "done"), lines))
    return out.getvalue().splitlines()


def depth(line: str) -> int:
    return len(line) - len(line.lstrip("│├└─ "))


def test_a_call_hangs_under_its_iteration_with_all_that_happened_to_it():
    lines = drawn(
        [
            SAID,
            asked(1),
            ModelRetried("openai", "small", "rate_limit", "slow down", 1.5, "openai", "large"),
            replied("I look.", ToolCall("call_0", "shell", '{"command": "ls"}')),
            CallJudged("4.0", "shell", Effect.DESTRUCTIVE, Decision.ASK, "commands are asked about"),
            ApprovalAsked("4.0", "shell", "{}", "h", Effect.DESTRUCTIVE, "t", AT),
            Suspended(("4.0",)),
            ApprovalAnswered("4.0", Answer.ONCE, "me"),
            TurnResumed("answered"),
            ToolStarted("4.0", "shell", Effect.DESTRUCTIVE),
            ToolRetried("4.0", 2, "busy", 0.5),
            ToolFinished("4.0", "shell", Outcome.OK, "a.txt", Effect.DESTRUCTIVE, 0.3, exit_code=0, seconds=0.25),
            asked(2),
            replied("Tidy."),
            TurnEnded(Stop.DONE, "", "Tidy."),
        ]
    )
    parts = ("iteration 1", "retry (rate_limit)", "I look.", "shell  {", "destructive: ask", "once by me", "exit code 0", "a.txt")
    at = {part: next(line for line in lines if part in line) for part in parts}
    order = [depth(at[part]) for part in ("iteration 1", "shell  {", "exit code 0", "a.txt")]
    assert order == sorted(set(order))
    assert depth(at["retry (rate_limit)"]) == depth(at["I look."]) == depth(at["shell  {"])
    assert depth(at["destructive: ask"]) == depth(at["once by me"]) == depth(at["exit code 0"])
    assert any("waits for a person" in line for line in lines) and any("resumed  answered" in line for line in lines)


def test_what_the_house_did_and_how_it_ended_are_told():
    lines = drawn(
        [
            SAID,
            Steered("and quickly", "me", "i2", Label.TRUSTED, 0.5),
            Coached("stall", "you go in circles"),
            BudgetExtended("4.0", "many files", 15),
            asked(1, closing=True),
            ModelFailed("auth", "the key is refused"),
            TurnEnded(Stop.FAILED, "auth", "I could not."),
        ]
    )
    for part in (
        "steered me  and quickly", "coached (stall)  you go in circles", "limit raised to 15 iterations  many files",
        "closing answer", "failed (auth)  the key is refused", "ended  failed  auth", "I could not.",
    ):  # fmt: skip
        assert any(part in line for line in lines), (part, lines)


def test_long_results_show_their_head_and_say_what_was_left_out():
    events = [
        SAID,
        asked(1),
        replied("", ToolCall("c", "shell", "{}")),
        ToolFinished("3.0", "shell", Outcome.OK, "line\n" * 500, Effect.READ, 0.3),
    ]
    lines = drawn(events)
    assert sum(line.endswith("line") for line in lines) == 6
    assert any("characters more" in line for line in lines)


def test_an_unknown_price_is_never_shown_as_nothing():
    run = RunView("t1", "s", "ended", usage=UsageView(10, 5, 0, None), notices=["outcome of shell is unknown"])
    lines = drawn([SAID, asked(1), replied("x", usd=None)], run)
    assert "price unknown" in lines[-1] and not any("0.0000 USD" in line for line in lines)
    assert any("notice: outcome of shell is unknown" in line for line in lines)


def test_text_from_outside_cannot_colour_or_move_anything():
    lines = drawn([UserSaid("\x1b[2J\x07[red]x[/red]", "me\x1b", "i1", Label.UNTRUSTED, 0.5, Limits())])
    assert any("[red]x[/red]" in line for line in lines)
    assert not any(sign in line for line in lines for sign in "\x1b\x07")


def test_runs_are_one_line_each():
    console = Console(file=(out := StringIO()), width=200, color_system=None)
    lines = [RunLine("t2", "web:a", "running", None, AT.isoformat(), None), RunLine("t1", "web:b", "ended", "done", None, None)]
    console.print(draw_runs(lines))
    head, second, first = out.getvalue().splitlines()
    assert head.startswith("turn") and second.split()[:3] == ["t2", "web:a", "running"] and "done" in first
