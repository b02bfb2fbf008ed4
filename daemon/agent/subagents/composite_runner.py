"""The agents of a composite at work: each a turn of its own, with its slice of the budget (B11)."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from daemon.agent.context.builder import TurnContext
from daemon.agent.subagents.composite import (
    CompositeStep,
    StepResults,
    budget_share,
    next_steps,
    partial_answers,
)
from daemon.agent.subagents.manager import SubagentManager, SubagentResult, remaining_caps
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.events import ChildReturned, ChildSpawned, Event, TurnEnded, UserSaid
from daemon.core.messages import MessageRole
from daemon.core.trust import Stop
from daemon.core.turn import Turn
from daemon.tools.results import truncate_middle

RECENT_MESSAGES, MAX_MESSAGE_CHARS = 6, 800
TASK_IN_CONTEXT = "<conversation>\n{said}\n</conversation>\nThe user now says:\n{text}"
TOO_DEEP = "I cannot begin: agents may be {most} deep at work for each other (max_depth in [subagents]), and I am that deep."


@value
class CompositeRunner:
    """Sets the next agents of a composite to work, and waits for them."""

    subagents: SubagentManager
    now: Callable[[], datetime]

    async def advance(self, turn: Turn, scene: TurnContext) -> Sequence[Event]:
        """The end, where everything for it is known; else nothing, once the next steps are done and written down."""
        composite, first = turn.spec.composite, turn.events[0].event
        if composite is None or not isinstance(first, UserSaid):
            return []
        steps = next_steps(
            composite, task_in_context(first.full_text, scene), collect_results(turn)
        )
        if isinstance(steps, TurnEnded):
            return [steps]
        if turn.spec.depth >= self.subagents.config.max_depth:
            return [
                TurnEnded(
                    Stop.FAILED, "too deep", TOO_DEEP.format(most=self.subagents.config.max_depth)
                )
            ]
        try:
            events = self._record_spawns(
                turn, scene, steps, budget_share(composite, collect_results(turn))
            )
        except ConfigError as error:
            told = (f"I cannot go on: {error}", self.partial_answers(turn))
            return [TurnEnded(Stop.FAILED, "agent", "\n\n".join(part for part in told if part))]
        await self._run_steps(turn, events)
        return []

    def partial_answers(self, turn: Turn) -> str:
        """The answers there are, for a composite that is cut."""
        return (
            partial_answers(turn.spec.composite, collect_results(turn))
            if turn.spec.composite
            else ""
        )

    def _record_spawns(
        self, turn: Turn, scene: TurnContext, steps: Sequence[CompositeStep], part: float
    ) -> list[ChildSpawned]:
        """All of them or none. Those that a crash left behind are there already, and are only waited for."""
        known = {
            step.key: child.spawned for step in steps if (child := turn.children.get(step.key))
        }
        spent = scene.account.spent  # its children's too
        room = remaining_caps(turn.limits, spent.input_tokens, spent.usd, part)
        new = [
            self.subagents.spawn_event(turn, step.key, step.task, agent=step.agent, room=room)
            for step in steps
            if step.key not in known
        ]
        for event in new:
            turn.record(event, self.now())
        return [*known.values(), *new]

    async def _run_steps(self, turn: Turn, events: Sequence[ChildSpawned]) -> None:
        """Each result is written down as it comes."""
        await turn.commit()
        for event in events:
            await self.subagents.deliver_input(event.child)
        spawned = {event.child: event for event in events}
        waiting = [
            asyncio.ensure_future(self.subagents.wait_for_result(turn, event)) for event in events
        ]
        try:
            for coming in asyncio.as_completed(waiting):
                done = await coming
                turn.record(_return_event(spawned[done.turn], done), self.now())
                await turn.commit()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


def collect_results(turn: Turn) -> StepResults:
    """What its children have given back, by their step."""
    return {key: child.returned for key, child in turn.children.items() if child.returned}


def task_in_context(text: str, scene: TurnContext) -> str:
    """The user's words, after what was said last in this conversation, of which other agents know nothing."""
    told = {MessageRole.USER: "User", MessageRole.ASSISTANT: "Assistant"}
    latest = [
        message for message in scene.history.messages if message.role in told and message.text
    ][-RECENT_MESSAGES:]
    said = "\n".join(
        f"{told[message.role]}: {truncate_middle(message.text, MAX_MESSAGE_CHARS)}"
        for message in latest
    )
    return TASK_IN_CONTEXT.format(said=said, text=text) if said else text


def _return_event(event: ChildSpawned, returned: SubagentResult) -> ChildReturned:
    return ChildReturned(
        event.key, event.child, returned.stop_reason, returned.text, returned.label
    )
