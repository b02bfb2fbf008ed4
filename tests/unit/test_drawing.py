"""A run drawn as a tree of its iterations: every kind of event has a place in it (B9)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from daemon.cli.review.render_run import render_run
from daemon.cli.review.runs import render_runs
from daemon.client.view_types import RunLine, RunView, UsageView
from daemon.client.views import RunBundle
from daemon.core.events import (
    Alarm,
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetExtended,
    BudgetRaised,
    CallJudged,
    ChildReturned,
    ChildSpawned,
    Classified,
    Coached,
    Consulted,
    Consulting,
    Event,
    HistoryCompressed,
    IterationRefunded,
    Limits,
    MemoryHit,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    Outcome,
    RecordedEvent,
    Steered,
    Stop,
    Suspended,
    Todo,
    TodosSet,
    ToolFinished,
    ToolRetried,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    UserSaid,
    Verified,
)
from daemon.core.messages import ToolCall, Usage
from daemon.core.trust import Decision, Effect, Label
from daemon.core.turn_spec import Intent
from daemon.store.transcript import transcript_line

BUDGET = '{"budget": "turn", "limit": 2.0, "more": 2.0, "of": "usd", "used": 2.0004}'
AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SAID = UserSaid("tidy up", "me", "i1", Label.TRUSTED, 0.5, Limits())


def asked(iteration: int, *, closing: bool = False) -> ModelAsked:
    return ModelAsked(
        iteration, "openai", "small", "h", "h", ("shell",), (), AT, 1, 100, None, closing
    )


def replied(text: str, *calls: ToolCall, usd: float | None = 0.001) -> ModelReplied:
    return ModelReplied(text, calls, Usage(10, 5, 2, usd), "openai", "small", "stop", 0.5, 1.2)


def lines_of(events: Sequence[Event]) -> list[dict[str, object]]:
    return [transcript_line(RecordedEvent(seq, AT, event)) for seq, event in enumerate(events, 1)]


def drawn(
    events: Sequence[Event],
    run: RunView | None = None,
    children: Sequence[RunBundle] = (),
    width: int = 200,
) -> list[str]:
    """The picture's lines."""
    lines = lines_of(events)
    console = Console(file=(out := StringIO()), width=width, color_system=None)
    console.print(
        render_run(
            RunBundle(run or RunView("t1", "terminal:main", "ended", "done"), lines, children)
        )
    )
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
            CallJudged(
                "4.0", "shell", Effect.DESTRUCTIVE, Decision.ASK, "commands are asked about"
            ),
            ApprovalAsked("4.0", "shell", "{}", "h", Effect.DESTRUCTIVE, "t", AT),
            Suspended(("4.0",)),
            ApprovalAnswered("4.0", Answer.ONCE, "me"),
            TurnResumed("answered"),
            ToolStarted("4.0", "shell", Effect.DESTRUCTIVE),
            ToolRetried("4.0", 2, "busy", 0.5),
            ToolFinished(
                "4.0",
                "shell",
                Outcome.OK,
                "a.txt",
                Effect.DESTRUCTIVE,
                0.3,
                exit_code=0,
                seconds=0.25,
            ),
            asked(2),
            replied("Tidy."),
            TurnEnded(Stop.DONE, "", "Tidy."),
        ]
    )
    parts = (
        "iteration 1",
        "retry (rate_limit)",
        "I look.",
        "shell  {",
        "destructive: ask",
        "once by me",
        "exit code 0",
        "a.txt",
    )
    at = {part: next(line for line in lines if part in line) for part in parts}
    order = [depth(at[part]) for part in ("iteration 1", "shell  {", "exit code 0", "a.txt")]
    assert order == sorted(set(order))
    assert depth(at["retry (rate_limit)"]) == depth(at["I look."]) == depth(at["shell  {"])
    assert depth(at["destructive: ask"]) == depth(at["once by me"]) == depth(at["exit code 0"])
    assert any("waits for a person" in line for line in lines) and any(
        "resumed  answered" in line for line in lines
    )


def test_what_the_daemon_did_and_how_it_ended_are_told():
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
    run = RunView(
        "t1", "s", "ended", usage=UsageView(10, 5, 0, None), notices=["outcome of shell is unknown"]
    )
    lines = drawn([SAID, asked(1), replied("x", usd=None)], run)
    assert "price unknown" in lines[-1] and not any("0.0000 USD" in line for line in lines)
    assert any("notice: outcome of shell is unknown" in line for line in lines)


def test_a13_what_people_thought_of_it_is_shown():
    lines = drawn([SAID], RunView("t1", "s", "ended", reactions=["👍", "\x1b[31mno"]))
    assert any(line.endswith("reactions: 👍 \ufffd[31mno") for line in lines), lines
    assert not any("reactions" in line for line in drawn([SAID], RunView("t1", "s", "ended")))


def test_text_from_outside_cannot_colour_or_move_anything():
    lines = drawn(
        [UserSaid("\x1b[2J\x07[red]x[/red]", "me\x1b", "i1", Label.UNTRUSTED, 0.5, Limits())]
    )
    assert any("[red]x[/red]" in line for line in lines)
    assert not any(sign in line for line in lines for sign in "\x1b\x07")


def test_runs_are_one_line_each():
    console = Console(file=(out := StringIO()), width=200, color_system=None)
    lines = [
        RunLine("t2", "web:a", "running", None, AT.isoformat(), None),
        RunLine("t1", "web:b", "ended", "done", None, None),
    ]
    console.print(render_runs(lines, 200))
    head, second, first = out.getvalue().splitlines()
    child = RunLine("c1", "sub-1-0123", "ended", "done", None, None, "scout", "t1")
    lead = RunLine("t3", "web:a", "ended", "done", None, None, "lead")
    console.print(render_runs([child, lead], 200))
    assert [line.split()[1:3] for line in out.getvalue().splitlines()[-2:]] == [
        ["agent", "scout"],
        ["web:a", "(lead)"],
    ]
    assert (
        head.startswith("turn")
        and second.split()[:3] == ["t2", "web:a", "running"]
        and "done" in first
    )


def below(lines: Sequence[str], part: str) -> list[str]:
    """The lines of the branch whose head has this in it."""
    at = next(place for place, line in enumerate(lines) if part in line)
    rest = [*lines[at + 1 :]]
    return rest[
        : next((n for n, line in enumerate(rest) if depth(line) <= depth(lines[at])), len(rest))
    ]


def spawned(key: str, child: str, report: str = "") -> ChildSpawned:
    return ChildSpawned(
        key,
        child,
        "sub-1-x",
        "in2",
        "scout",
        "look around",
        "me",
        Label.TRUSTED,
        Limits(),
        1,
        report=report,
    )


def child_run(turn: str, *events: Event) -> RunBundle:
    run = RunView(turn, "sub-1-x", "ended", "done", "found", agent="scout", parent="t1")
    return RunBundle(
        run, lines_of([UserSaid("look around", "me", "i", Label.TRUSTED, 0.5, Limits()), *events])
    )


def test_b9_a_plan_is_a_check_list_at_the_call_that_wrote_it():
    """B9, E3"""
    plan = (Todo("read", "done"), Todo("write", "doing"), Todo("check"))
    lines = drawn([SAID, asked(1), replied("", ToolCall("c", "todo", "{}")), TodosSet("3.0", plan)])
    twig = below(lines, "todo")
    assert "plan  1 of 3 done" in twig[0]
    assert [line.lstrip("│├└─ ") for line in twig[1:]] == ["[x] read", "[>] write", "[ ] check"]


def test_b9_a_compression_says_from_how_many_tokens_to_how_many_and_shows_the_summary():
    """B9, B4"""
    lines = drawn(
        [SAID, HistoryCompressed("periodic-summary", 30_000, 9_500, 3, 4, "They like tea.")]
    )
    (head,) = [line for line in lines if "compressed (periodic-summary)" in line]
    assert (
        "30,000 -> 9,500 tokens" in head
        and "3 turns before this one" in head
        and "4 messages of this one" in head
    )
    assert "They like tea." in below(lines, "compressed (periodic-summary)")[0]


def test_b9_a_check_hangs_at_the_reply_that_it_was_held_against_and_says_what_failed():
    """B9, E10, F6"""
    lines = drawn(
        [
            SAID,
            asked(1),
            replied("I sent it."),
            Verified("claims", False, "no result shows it", "(Nothing was sent.)"),
            Verified("contains: x", True),
            Consulting("judge", "openai", "small", 10, 0.1),
            Consulted(
                "judge", "FAIL it is short", Usage(7, 3, 0, 0.002), "openai", "small", seconds=0.4
            ),
            Coached("claims", "put it right"),
        ]
    )
    branch = below(lines, "iteration 1")
    assert "no result shows it" in below(lines, "check claims  failed")[0]
    assert "(Nothing was sent.)" in below(lines, "check claims  failed")[1]
    assert any("check contains: x  passed" in line for line in branch)
    (judge,) = [line for line in branch if "consulted (judge)" in line]
    assert "openai/small" in judge and "7 in (0 cached), 3 out, 0.0020 USD" in judge
    assert "FAIL it is short" in below(lines, "consulted (judge)")[0]
    assert not any("coached" in line for line in branch)


def test_b9_a_model_that_nobody_reached_and_one_that_was_never_heard_of_say_so():
    begun = Consulting("summary", "openai", "small", 9, 0.1)
    failed = drawn([SAID, begun, Consulted("summary", "", Usage(), "", "", error="slow")])
    assert "no model answered" in failed[2] and "failed  slow" in failed[3]
    lost = drawn([SAID, begun])
    assert "consulted (summary)  openai/small  no answer is known; counted as spent" in lost[2]


def test_b9_limits_alarms_intents_memories_and_refunds_are_told():
    """B9, D6, E3, E4, F2"""
    said = UserSaid(
        "tidy up",
        "me",
        "i1",
        Label.TRUSTED,
        0.5,
        Limits(),
        (MemoryHit("m1", "likes order"),),
        intent=Intent.MULTI_STEP,
    )
    lines = drawn(
        [
            said,
            Classified(Intent.COMPLEX),
            ApprovalAsked("budget.1", "extend_budget", BUDGET, "h", Effect.WRITE, "t", AT),
            ApprovalAnswered("budget.1", Answer.ONCE, "me"),
            BudgetRaised("budget.1", Limits(max_usd=4.0, max_input_tokens=900_000)),
            BudgetRaised("budget.2", Limits(), day_usd=2.5),
            IterationRefunded(("3.0",)),
            Alarm("budget_exhausted", "again and again"),
        ]
    )
    for part in (
        "user me  tidy up  (multi_step)", "memory  likes order", "intent  complex",
        "asked: The turn's money is used up ($2.00 of $2). Go on with $2 more?", "answered  once by me",
        "budget raised  up to $4 and 900,000 tokens", "budget raised  $2.5 more today",
        "does not count", "alarm (budget_exhausted)  again and again",
    ):  # fmt: skip
        assert any(part in line for line in lines), (part, lines)


def test_b9_a_sub_agent_is_a_tree_at_the_call_that_set_it_to_work():
    """B9, A17"""
    inner = child_run("c2", asked(1), replied("deep"), TurnEnded(Stop.DONE, "", "deep"))
    child = child_run(
        "c1",
        asked(1),
        replied("", ToolCall("c", "spawn_agent", '{"task": "deeper"}')),
        spawned("3.0", "c2"),
    )
    events = [
        SAID,
        asked(1),
        replied("", ToolCall("c", "spawn_agent", '{"task": "look"}')),
        spawned("3.0", "c1"),
        ToolFinished("3.0", "spawn_agent", Outcome.OK, "found", Effect.READ, 0.3),
    ]
    lines = drawn(events, children=[RunBundle(child.run, child.transcript, [inner])])
    tree = below(lines, "agent scout  turn c1")
    assert "task  look around" in tree[0] and any("iteration 1" in line for line in tree)
    deeper = below(tree, "agent scout  turn c2")
    assert any("ended  done" in line for line in deeper) and any(
        "0 iterations" in line for line in deeper
    )
    assert depth(next(line for line in lines if "turn c1" in line)) == depth(
        next(line for line in lines if "ok  0.00 s" in line)
    )


def test_b9_the_steps_of_a_composite_stand_side_by_side_and_a_background_agent_is_called_one():
    """B9, B11"""
    kids = [child_run(name, asked(1), replied(name)) for name in ("c1", "c2")]
    returned = [
        ChildReturned(f"agent.{n}", f"c{n + 1}", "done", "found", Label.TRUSTED) for n in range(2)
    ]
    lines = drawn(
        [SAID, spawned("agent.0", "c1"), spawned("agent.1", "c2", "r1"), *returned], children=kids
    )
    first = next(line for line in lines if "agent scout  agent.0  turn c1  ended" in line)
    second = next(
        line for line in lines if "agent scout  agent.1  in the background  turn c2" in line
    )
    assert depth(first) == depth(second) == depth(next(line for line in lines if "user me" in line))


def test_b9_a_long_run_of_a_sub_agent_is_folded_to_its_head_and_its_end():
    many = [event for n in range(1, 60) for event in (asked(n), replied(f"word {n}"))]
    child = child_run("c1", *many, TurnEnded(Stop.DONE, "", "the end"))
    lines = drawn([SAID, spawned("agent.0", "c1")], children=[child])
    tree = below(lines, "agent scout")
    assert any("word 3" in line for line in tree) and not any("word 40" in line for line in tree)
    assert any("94 events more: aidaemon show c1" in line for line in tree) and any(
        "the end" in line for line in tree
    )
    assert any("word 59" in line for line in drawn([SAID, *many]))


def test_b9_a_sub_agent_s_own_picture_says_who_set_it_to_work():
    child = child_run("c1", asked(1))
    console = Console(file=(out := StringIO()), width=200, color_system=None)
    console.print(render_run(child))
    lines = out.getvalue().splitlines()
    assert (
        "agent scout" in lines[0]
        and "started by  turn t1" in lines[1]
        and "task  look around" in lines[2]
    )


@pytest.mark.parametrize("width", [40, 80, 130])
def test_b9_every_line_fits_the_window(width: int):
    events: list[Event] = [
        SAID,
        asked(1),
        replied("word " * 80, ToolCall("c", "shell", '{"command": "' + "ls " * 80 + '"}')),
        TodosSet("3.0", (Todo("step " * 30),)),
        Verified("regex: " + "x" * 200, False, "feedback " * 40),
        spawned("3.0", "c1"),
        HistoryCompressed("rolling-window", 10**6, 10**5, 3, 4, "summary " * 50),
        Alarm("budget_exhausted", "again " * 50),
    ]
    child = child_run("c1", asked(1), replied("word " * 90))
    assert max(map(len, drawn(events, children=[child], width=width))) <= width


def test_a_list_of_runs_is_readable_in_eighty_columns():
    console = Console(file=(out := StringIO()), width=80, color_system=None)
    at = AT.isoformat()
    lines = [
        RunLine(
            "3e3f9451d1b0502a9ce5",
            "sub-1-3e3f9451-d1b0-502a-9ce5-1bb3a28b571a",
            "ended",
            "done",
            at,
            at,
            "scout",
            "t",
        ),
        RunLine(
            "1m80j8mehz4j5ecn", "terminal:main", "suspended", None, at, None, text="word " * 40
        ),
    ]
    console.print(render_runs(lines, 80))
    shown = out.getvalue().splitlines()
    assert max(map(len, shown)) <= 80 and len(shown) == 6
    assert shown[1] == "    session · started · words" and "suspended" in shown[4]
    assert shown[5].startswith("    terminal:main · 2026-11-21 12:00 · word word")


def test_a17_what_the_agents_used_up_is_in_the_sum_and_an_unknown_price_makes_it_unknown():
    def used(turn: str, usd: float | None) -> RunBundle:
        return RunBundle(RunView(turn, "s", "ended", "done", usage=UsageView(10, 5, 1, usd)), [])

    whole = RunBundle(
        RunView("t1", "s", "ended", "done", usage=UsageView(1, 2, 0, 0.5)),
        [],
        [used("c1", 0.25), used("c2", 0.25)],
    )
    assert whole.usage == UsageView(21, 12, 2, 1.0)
    lines = drawn([SAID], RunView("t1", "s", "ended", "done"), [used("c1", None)])
    assert "with its agents: 10 tokens in (1 cached), 5 out, price unknown" in lines[-1]
