"""Runs the loop's own code on a recorded turn, offline, and says at which event it would now do
something else.

From the record: what models, people, tools, sub-agents, the clock and other turns did. Computed
again: which step comes next, coaching, refunds, stops and why, checks of the answer, the reply.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from channels.markup.sanitize import escape_controls
from daemon.agent.answer_checks import NOBODY, AnswerChecker
from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history import ReadOnlySink
from daemon.agent.loop import AgentLoop
from daemon.agent.models import ModelChoice
from daemon.agent.system_questions import ANSWER_REVIEW_TOOL
from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ChildSpawned,
    Coached,
    RecordedEvent,
    TodosSet,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from daemon.core.messages import Message, MessageRole
from daemon.core.provenance import TrustContext
from daemon.core.turn import Turn
from daemon.ops.replay.collaborators import (
    NoProvider,
    RecordedAccount,
    RecordedBudgets,
    RecordedBuilder,
    RecordedClock,
    RecordedCriteria,
    RecordedModels,
    RecordedRouting,
    RecordedStops,
    RecordedTools,
    make_history,
)
from daemon.ops.replay.record import (
    NOTHING,
    Difference,
    Differs,
    RecordEnds,
    ReplayedTurn,
    Resumed,
)
from daemon.ops.replay.subagents import ChildRecords, RecordedSubagents
from daemon.providers.chain import ModelRoute
from daemon.tools.registry import ToolRegistry

PRIMARY, FAST, RECALL = "primary", "fast", "recall"
CANNOT_BEGIN = "I cannot begin: "
SAID_BEFORE = "<conversation>\n"
THEN = "\n</conversation>\nThe user now says:\n"
SPEAKERS = {"User": MessageRole.USER, "Assistant": MessageRole.ASSISTANT}
SPEAKER = re.compile(r"^(User|Assistant): ", re.MULTILINE)


@value
class TurnRecord:
    """A turn as the journal has it, and the turns of the agents below it. `parent`: see Turn."""

    id: str
    session: str
    events: Sequence[RecordedEvent]
    parent: str = ""
    children: Mapping[str, Sequence[RecordedEvent]] = field(default_factory=dict)


@value
class ReplayResult:
    """How far it was the same. `ended`: the turn has come to its end in the record."""

    turn: str
    events: int
    ended: bool
    difference: Difference | None = None

    @property
    def identical(self) -> bool:
        """Nothing came out otherwise."""
        return self.difference is None

    @property
    def told(self) -> str:
        """What came out otherwise, in words; "" for nothing."""
        if not (found := self.difference):
            return ""
        fields = [f"{one.field}: recorded {one.recorded}, now {one.now}" for one in found.fields]
        lines = "\n  ".join(map(escape_controls, fields))
        return f"differs at event {found.seq} ({found.kind}): {lines}"


async def replay(record: TurnRecord) -> ReplayResult:
    """Run the loop on it. Raises AidaemonError for a record without a beginning."""
    if not record.events or not isinstance(record.events[0].event, UserSaid):
        raise AidaemonError(
            f"turn {record.id} cannot be replayed: its record does not begin with a message."
            " Nothing was changed; `aidaemon show` tells what is left of it."
        )
    turn = ReplayedTurn(
        id=record.id,
        session=record.session,
        sink=ReadOnlySink(),
        parent=record.parent,
        record_=record.events,
    )
    turn.begin()
    try:
        await _run(turn, ChildRecords(record.children))
    except Differs as found:
        return ReplayResult(turn.id, turn.seq, turn.ended is not None, found.difference)
    return ReplayResult(turn.id, turn.seq, turn.ended is not None)


async def _run(turn: ReplayedTurn, children: ChildRecords) -> None:
    """One worker after the other. Raises Differs."""
    loop = _build_loop(turn, children)
    context = _build_context(turn, children)
    _take_opening(turn)
    try:
        while not turn.ended:
            turn.renew_control()
            with suppress(Resumed):
                await loop.run(turn, context, turn.control)
            if turn.ended or turn.next is None:
                break
            if not isinstance(turn.peek(), TurnResumed):
                raise Differs(turn.differ_from(NOTHING))
            turn.take()
            while isinstance(turn.peek(), ApprovalAnswered):
                turn.take()
    except RecordEnds:
        return
    if turn.next:
        raise Differs(turn.differ_from(NOTHING))


def _take_opening(turn: ReplayedTurn) -> None:
    """What is recorded before the loop begins."""
    turn.take()
    event = turn.peek()
    if isinstance(event, TodosSet) and not event.call_id:
        turn.take()
        event = turn.peek()
    if isinstance(event, TurnEnded) and event.reply.startswith(CANNOT_BEGIN):
        turn.take()


def _build_loop(turn: ReplayedTurn, children: ChildRecords) -> AgentLoop:
    clock = RecordedClock(turn)
    choice = ModelChoice(ModelRoute(NoProvider(PRIMARY), PRIMARY), fast=FAST)
    models = RecordedModels(turn, clock, RecordedRouting(choice))

    async def keep_reflection(text: str, of: Turn) -> None:
        """It was kept when it was made."""

    async def may_find(text: str, of: Turn) -> bool:
        event = turn.peek()
        return isinstance(event, Coached) and event.kind == RECALL

    checker = AnswerChecker(
        RecordedCriteria(turn), models, keep_reflection, may_find, ToolRegistry(())
    )
    return AgentLoop(
        builder=RecordedBuilder(ToolRegistry(()), (), turn=turn),
        models=models,
        tools=RecordedTools(turn, clock),
        budgets=RecordedBudgets(turn, clock),
        answer_checker=checker,
        subagents=RecordedSubagents(turn, children),
        stop_stats=RecordedStops(turn),
        clock=clock,
    )


def _build_context(turn: ReplayedTurn, children: ChildRecords) -> TurnContext:
    events = [one.event for one in turn.record_]
    reviewed = any(
        isinstance(event, ApprovalAsked) and event.tool == ANSWER_REVIEW_TOOL for event in events
    )
    unseen = isinstance(end := events[-1], TurnEnded) and end.detail == NOBODY
    account = RecordedAccount(turn.id, turn=turn, children=children)
    trust = TrustContext(can_ask=reviewed or not unseen)
    return TurnContext(trust, make_history(_find_earlier(turn)), account=account)


def _find_earlier(turn: ReplayedTurn) -> tuple[Message, ...]:
    """What a composite told its agents of the conversation before."""
    first = turn.record_[0].event
    end = f"{THEN}{first.full_text}" if isinstance(first, UserSaid) else THEN
    for one in turn.record_:
        if isinstance(one.event, ChildSpawned) and end in one.event.task:
            said = one.event.task.partition(end)[0].rpartition(SAID_BEFORE)[2]
            _, *parts = SPEAKER.split(said)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return tuple(Message(SPEAKERS[who], text.removesuffix("\n")) for who, text in pairs)
    return ()
