"""What a person is shown of a run, from its row and its events."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from daemon.client.view_types import ApprovalView, CallView, RunLine, SessionView, UsageView
from daemon.client.views import build_view, queued_view, run_view, view_approval
from daemon.core.events import (
    Alarm,
    BudgetExtended,
    BudgetRaised,
    CallJudged,
    ChildSpawned,
    Coached,
    Event,
    Limits,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Stop,
    ToolFinished,
    ToolStarted,
    Verified,
)
from daemon.core.messages import ToolCall, Usage
from daemon.core.rows import ApprovalRow, ChildRow, InboxRow, SessionRow, TurnRow
from daemon.core.trust import Decision, Effect, Label
from daemon.store.transcript import transcript_line

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ISO = "2026-01-02T12:00:00+00:00"


def row(state: str = "ended", stop: Stop | None = Stop.DONE, detail: str = "") -> TurnRow:
    return TurnRow(
        "t1",
        "web:a",
        "",
        "in1",
        state,
        Label.TRUSTED,
        NOON,
        NOON,
        stop,
        detail,
        "hello",
        2,
        30,
        9,
        4,
        0.5,
    )


def inbox(state: str) -> InboxRow:
    return InboxRow(
        "in1", "web", "", "c1", "web:a", "owner", "hi", Label.TRUSTED, "t1", NOON, state=state
    )


def numbered(*events: Event) -> list[RecordedEvent]:
    return [RecordedEvent(seq, NOON, event) for seq, event in enumerate(events, start=1)]


def two_calls() -> ModelReplied:
    calls = (ToolCall("x", "shell", '{"command": "ls"}'), ToolCall("x", "write_file", "{}"))
    return ModelReplied("", calls, Usage(), "fake", "m", "tool_calls", 0.5)


def finished(call_id: str, tool: str, outcome: Outcome) -> ToolFinished:
    return ToolFinished(call_id, tool, outcome, "text", Effect.WRITE, 0.3)


def test_a_run_shows_each_call_with_decision_and_result() -> None:
    view = run_view(
        row(),
        numbered(
            two_calls(),
            CallJudged("1.0", "shell", Effect.DESTRUCTIVE, Decision.ASK, "a command"),
            CallJudged("1.1", "write_file", Effect.WRITE, Decision.ALLOW, "its workspace"),
            finished("1.0", "shell", Outcome.REJECTED),
        ),
    )
    assert view.calls == [
        CallView("1.0", "shell", '{"command": "ls"}', "destructive", "ask", "text", True),
        CallView("1.1", "write_file", "{}", "write", "allow", None, False),
    ]


def test_a_run_shows_state_reply_usage_and_times() -> None:
    view = run_view(row(), [])
    assert (view.turn, view.session, view.state, view.stop_reason, view.reply) == (
        "t1",
        "web:a",
        "ended",
        "done",
        "hello",
    )
    assert (view.label, view.iterations, view.usage) == ("trusted", 2, UsageView(30, 9, 4, 0.5))
    assert (view.started, view.ended, view.notices) == (ISO, ISO, [])


def test_a_run_that_is_not_over_has_no_reply() -> None:
    assert run_view(row("suspended", None), []).reply is None


def test_an_unknown_outcome_is_told() -> None:
    events = numbered(two_calls(), finished("1.0", "shell", Outcome.UNKNOWN))
    assert run_view(row(), events).notices == [
        "outcome of shell is unknown: it may or may not have happened"
    ]


def test_raised_limits_and_tripped_breakers_are_told() -> None:
    events = numbered(BudgetExtended("1.0", "many files", 20))
    assert run_view(row(stop=Stop.OVER_BUDGET, detail="500 of 400 tokens"), events).notices == [
        "the limit of iterations was raised to 20: many files",
        "stopped by the budget: 500 of 400 tokens",
    ]


def test_a_run_names_its_agent_its_parent_and_the_runs_of_its_sub_agents() -> None:
    """A17"""
    spawned = ChildSpawned(
        "1.0", "c1", "sub-1-x", "in2", "scout", "look", "owner", Label.TRUSTED, Limits(), 1
    )
    view = run_view(
        replace(row(), agent="lead", parent="p1"),
        numbered(spawned, replace(spawned, key="1.1", child="c2")),
    )
    assert (view.agent, view.parent, view.children) == ("lead", "p1", ["c1", "c2"])
    assert (run_view(row(), []).parent, run_view(row(), []).children) == (None, [])


def test_a_sub_agent_that_has_not_begun_is_known_as_one() -> None:
    """A17"""
    kin = ChildRow("t1", "p1", "1.0", "sub-1-x", "web:a", "scout", "look", 1, Limits(), 8000, "")
    view = queued_view(inbox("new"), kin)
    assert (view.state, view.agent, view.parent) == ("queued", "scout", "p1")


def test_notes_of_checks_alarms_and_raised_budgets_are_told() -> None:
    """D6, E10, F2"""
    events = numbered(
        Verified("claims", False, "feedback for the model"),
        Verified("claims", False, note="(Nothing was sent.)"),
        Verified("contains: x", True),
        BudgetRaised("budget.1", Limits(max_usd=4.0, max_input_tokens=900)),
        BudgetRaised("budget.2", Limits(), day_usd=2.0),
        BudgetRaised("budget.3", Limits(), day_tokens=700),
        Alarm("budget_exhausted", "the agent runs out again and again"),
    )
    assert run_view(
        row(stop=Stop.REJECTED, detail="the check 'x' did not pass"), events
    ).notices == [
        "(Nothing was sent.)",
        "a person raised the budget: up to $4 and 900 tokens",
        "a person raised the budget: $2 more today",
        "a person raised the budget: 700 tokens more today",
        "the agent runs out again and again",
        "not accepted: the check 'x' did not pass",
    ]


def test_a_quarantined_run_says_why() -> None:
    assert run_view(row("quarantined", None, "crashed three times"), []).notices == [
        "crashed three times"
    ]


@pytest.mark.parametrize(
    ("inbox_state", "state", "notice"),
    [
        ("new", "queued", None),
        ("quarantined", "quarantined", "three times"),
        ("steered:t7", "ended", "added to run t7"),
        ("answered:t7", "ended", "question of run t7"),
    ],
)
def test_a_message_without_a_run_of_its_own_says_what_became_of_it(
    inbox_state: str, state: str, notice: str | None
) -> None:
    view = queued_view(inbox(inbox_state))
    assert (view.turn, view.session, view.state) == ("t1", "web:a", state)
    assert [notice in told for told in view.notices if notice] == ([True] if notice else [])


def test_lists_show_runs_that_began_and_runs_that_wait() -> None:
    queued = build_view(RunLine, queued_view(inbox("new")), text="hi", usd=0.0)
    assert queued == RunLine("t1", "web:a", "queued", None, None, None, text="hi")
    begun = build_view(RunLine, row(), turn="t1", parent=None, text="hi")
    assert begun == RunLine("t1", "web:a", "ended", "done", ISO, ISO, text="hi", usd=begun.usd)


def test_a_question_is_shown_without_what_an_answer_must_match() -> None:
    question = ApprovalRow(
        "t1",
        "3.0",
        "web:a",
        "shell",
        "{}",
        "args-hash",
        Effect.DESTRUCTIVE,
        Label.TRUSTED,
        "token-hash",
        NOON,
        NOON,
    )
    assert view_approval(question, "t") == ApprovalView(
        "t1", "3.0", "web:a", "shell", "{}", "destructive", "trusted", ISO, question="t", root="web:a"
    )


def test_a_session_is_shown_with_label_and_pause() -> None:
    row = SessionRow("web:a", "web", "a", Label.TRUSTED, NOON, paused=True)
    shown = build_view(SessionView, row, turns=2, used=ISO, text="hi", usd=0.0)
    assert shown == SessionView(
        "web:a", "trusted", True, "", ISO, turns=2, used=ISO, text="hi", usd=0.0
    )


def test_a_transcript_line_keeps_the_payloads_own_kind_beside_the_events() -> None:
    (recorded,) = numbered(Coached("stall", "look again"))
    assert transcript_line(recorded) == {
        "seq": 1,
        "at": ISO,
        "kind": "Coached",
        "kind_": "stall",
        "text": "look again",
    }


def test_a_run_that_was_set_aside_tells_which_effects_were_cut_off() -> None:
    """Promise 3: also where the turn will never say so itself."""
    starts = (
        ToolStarted("1.0", "write_file", Effect.WRITE),
        ToolStarted("1.1", "read_file", Effect.READ),
    )
    aside = row("quarantined", None, "set aside")
    view = run_view(aside, numbered(two_calls(), *starts))
    assert view.notices == [
        "set aside",
        "outcome of write_file is unknown: it may or may not have happened",
    ]
    after = run_view(
        aside, numbered(two_calls(), *starts, finished("1.0", "write_file", Outcome.OK))
    )
    assert after.notices == ["set aside"]
