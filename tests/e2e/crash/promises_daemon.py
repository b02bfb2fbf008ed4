"""What must hold of what the house asks and does by itself: more budget, reviews, a shorter history (F2, E10, B4; B5)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from daemon.agent.system_questions import ANSWER_REVIEW_TOOL as REVIEW
from daemon.agent.system_questions import EXTEND_TOOL as EXTEND
from daemon.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    BudgetRaised,
    Coached,
    Event,
    ModelAsked,
    ModelReplied,
    RecordedEvent,
    Steered,
    Stop,
    TurnEnded,
    UserSaid,
)
from daemon.core.trust import APPROVALS
from tests.e2e.crash.model import is_summary, markers, names
from tests.e2e.crash.remains import Remains


def questions_are_put_once(it: Remains) -> Iterator[str]:
    """Each is asked once and answered once (K15, #16)."""
    for turn in it.turns:
        asked = Counter(one.call_id for one in it.of(turn, ApprovalAsked))
        answered = Counter(one.call_id for one in it.of(turn, ApprovalAnswered))
        yield from (
            f"turn {turn}: {name} was asked {n} times" for name, n in asked.items() if n > 1
        )
        yield from (
            f"turn {turn}: {name} was answered {n} times" for name, n in answered.items() if n > 1
        )
        posted = Counter(
            row["turn"] for row in it.outbox if row["turn"] == turn and row["kind"] == "approval"
        )
        rows = sum(row["turn"] == turn for row in it.approvals)
        if posted[turn] != rows:
            yield f"turn {turn}: {rows} questions, {posted[turn]} of them were put to somebody"


def a_yes_to_more_counts_once(it: Remains) -> Iterator[str]:
    """The limit grows by what was asked for, once for each yes (F2)."""
    for turn in it.turns:
        agreed = {one.call_id for one in it.of(turn, ApprovalAnswered) if one.answer in APPROVALS}
        asked = [
            one.call_id
            for one in it.of(turn, ApprovalAsked)
            if one.tool == EXTEND and one.call_id in agreed
        ]
        raised = it.of(turn, BudgetRaised)
        if [one.question for one in raised] != asked:
            yield f"turn {turn}: a yes to {asked}, raised for {[one.question for one in raised]}"
        first = it.of(turn, UserSaid)[0].limits.max_input_tokens or 0
        limits = [
            one.limits.max_input_tokens for one in raised if one.limits.max_input_tokens != first
        ]
        if limits and limits != [first * (n + 2) for n in range(len(limits))]:
            yield f"turn {turn}: limits of {limits}, at first {first}"


def answers_are_looked_at(it: Remains) -> Iterator[str]:
    """Where a person is to look at answers, each is shown once, and none is delivered without a yes (E10)."""
    for turn in it.turns:
        ended = it.of(turn, TurnEnded)
        if (
            not any(check.kind == "manual" for check in it.of(turn, UserSaid)[0].terms.checks)
            or not ended
        ):
            continue
        answers = [
            one.seq
            for one in it.events[turn]
            if isinstance(one.event, ModelReplied) and not one.event.calls
        ]
        asked = [one.call_id for one in it.of(turn, ApprovalAsked) if one.tool == REVIEW]
        agreed = [
            one.call_id
            for one in it.of(turn, ApprovalAnswered)
            if one.answer in APPROVALS and one.call_id in asked
        ]
        if asked != [f"review.{seq}" for seq in answers]:
            yield f"turn {turn}: answers {answers}, looked at {asked}"
        if ended[0].reason is Stop.DONE and agreed != asked[-1:]:
            yield f"turn {turn} was delivered with a yes to {agreed} of {asked}"


def what_people_say_is_always_shown(it: Remains) -> Iterator[str]:
    """However short the history gets: every request of a turn has what people said in it until then (B4, D7)."""
    for turn, row in it.turns.items():
        cuts = it.kills + (row.stop_reason is Stop.CANCELLED)
        for one in it.events[turn]:
            for name in names(one.event.text) if isinstance(one.event, UserSaid | Steered) else ():
                asked = sum(
                    _is_asked(later.event) for later in _until_answered(it.events[turn], one.seq)
                )
                shown = sum(name in markers(request) for request in it.requests)
                if shown < asked - cuts:
                    yield f"turn {turn}: {name} was shown {shown} times in {asked} requests, with {cuts} cuts"


def _until_answered(recorded: Sequence[RecordedEvent], after: int) -> Iterator[RecordedEvent]:
    """What followed, up to a final text that was complete when the person went on: the model may take that for the end of it."""
    final = False
    for one in recorded:
        if one.seq <= after:
            continue
        if final and isinstance(one.event, Steered):
            return
        final = (isinstance(one.event, ModelReplied) and not one.event.calls) or (
            final and not isinstance(one.event, Coached)
        )
        yield one


def _is_asked(event: Event) -> bool:
    return isinstance(event, ModelAsked)


def talk(it: Remains) -> list[str]:
    """What the model was shown, request after request; one that is asked again after a crash is the same one."""
    shown = [str(one["messages"]) for one in it.requests if not is_summary(one.body)]
    return [text for text, _ in groupby(shown)]


OF_HOUSE = (
    questions_are_put_once,
    a_yes_to_more_counts_once,
    answers_are_looked_at,
    what_people_say_is_always_shown,
)
