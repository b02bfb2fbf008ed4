"""Sub-agents in a replay: their starts and answers as the parent's record has them, and what they
had done when the parent ended, from records of their own.
"""

from asyncio import sleep
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from daemon.agent.budget_tree import Caps, Cost
from daemon.agent.budgets import compute_spent
from daemon.agent.config import SubagentsConfig
from daemon.agent.context.history import rebuild_turn
from daemon.agent.final_messages import render_outcomes
from daemon.agent.subagents.composite import render_partial_answers
from daemon.agent.subagents.manager import (
    ChildWork,
    SubagentManager,
    list_unreported_work,
)
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.events import (
    ChildReturned,
    ChildSpawned,
    Event,
    RecordedEvent,
    TurnEnded,
    UserSaid,
)
from daemon.core.trust import Label, Outcome
from daemon.core.turn import Turn
from daemon.core.turn_spec import Limits
from daemon.ops.replay.record import Differs, ReplayedTurn, StepCut

MAX_DEPTH, MOST_WAITS = 10, 10_000
CANNOT, AGENT_FAULT, TOO_DEEP_DETAIL = "I cannot continue: ", "agent", "too deep"


@value
class ChildRecords:
    """The records of all agents below a turn, by turn."""

    events: Mapping[str, Sequence[RecordedEvent]]

    def load(self, turn_id: str, until: datetime) -> ChildWork:
        """The turn as it was then."""
        known = [one for one in self.events.get(turn_id, ()) if one.at <= until]
        turn = rebuild_turn(turn_id, "", known) if known else None
        return ChildWork(turn, turn is not None and turn.ended is not None)

    def list_times(self, until: datetime) -> list[datetime]:
        """When something was recorded, the latest first; before all that, too."""
        known = {one.at for events in self.events.values() for one in events if one.at <= until}
        return [until, *sorted(known, reverse=True), datetime.min.replace(tzinfo=UTC)]

    def sum_spent(self, turn: Turn, until: datetime) -> Cost:
        """What the agents below the turn had used up by then."""
        total = Cost()
        for child in turn.children.values():
            if found := self.load(child.spawned.child, until).turn:
                total += compute_spent(found) + self.sum_spent(found, until)
        return total


class RecordedSubagents(SubagentManager):
    """Starts nobody."""

    def __init__(self, turn: ReplayedTurn, records: ChildRecords) -> None:
        self.turn, self.records = turn, records
        end = turn.record_[-1].event
        too_deep = isinstance(end, TurnEnded) and end.detail == TOO_DEEP_DETAIL
        first = turn.record_[0].event
        depth = first.terms.depth if too_deep and isinstance(first, UserSaid) else MAX_DEPTH
        self.config = SubagentsConfig(max_depth=depth)

    def spawn_event(
        self,
        turn: Turn,
        key: str,
        task: str,
        *,
        agent: str,
        background: bool = False,
        caps: Caps | None = None,
    ) -> ChildSpawned:
        """The recorded start, for this key, agent and task. Raises ConfigError where that is
        recorded.
        """
        rest = [one.event for one in self.turn.record_[self.turn.seq :]]
        for event in rest:
            if isinstance(event, ChildSpawned) and event.key == key:
                return replace(event, agent=agent, task=task)
        end = rest[0] if rest else None
        if isinstance(end, TurnEnded) and end.detail == AGENT_FAULT:
            partial = render_partial_answers(turn)
            why = end.reply.removeprefix(CANNOT)
            raise ConfigError(why.removesuffix(f"\n\n{partial}") if partial else why)
        return ChildSpawned(key, "", "", "", agent, task, "", Label.TRUSTED, Limits(), 0)

    async def wait_for_result(self, turn: Turn, event: ChildSpawned) -> ChildReturned:
        """The recorded answer, in the recorded order. Raises Differs where the next one is of an
        agent that is not waited for.
        """
        for _ in range(MOST_WAITS):
            found = self.turn.expect()
            if not isinstance(found, ChildReturned):
                raise StepCut()
            if found.key == event.key:
                return found
            await sleep(0)  # another one answers first
        raise Differs(self.turn.differ_from(f"waits for {event.key}"))

    async def list_unreported_work(self, turn: Turn) -> list[tuple[str, Outcome]]:
        """What was on disk of their records when the parent looked: the latest state that fits to
        the recorded reply, else all up to now.
        """
        end = self.turn.next
        if end is None or not turn.children:
            return []
        states = (self._list_work(turn, until) for until in self.records.list_times(end.at))
        fits = (work for work in states if _is_told(turn, work, end.event))
        found = next(fits, None)
        return self._list_work(turn, end.at) if found is None else found

    def _list_work(self, turn: Turn, until: datetime) -> list[tuple[str, Outcome]]:
        return list_unreported_work(turn, lambda name: self.records.load(name, until))


def _is_told(turn: Turn, work: Sequence[tuple[str, Outcome]], end: Event) -> bool:
    lines = "\n".join(render_outcomes(turn, work))
    return isinstance(end, TurnEnded) and bool(lines) and lines in end.reply
