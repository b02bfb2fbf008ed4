"""The agents of a composite at work: each a turn of its own, with its slice of the budget (B11)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.agent.composite import Results, Step, next_steps, share, so_far
from daemon.agent.context import Scene
from daemon.agent.crew.children import Children, Returned, room_of
from daemon.core.errors import ConfigError
from daemon.core.events import ChildReturned, ChildSpawned, Event, TurnEnded, UserSaid
from daemon.core.messages import Role
from daemon.core.outcomes import Stop
from daemon.core.turn import Turn
from daemon.tools.results import head_and_tail

LATEST, LONGEST = 6, 800
NOW = "<conversation>\n{said}\n</conversation>\nThe user now says:\n{text}"
TOO_DEEP = "I cannot begin: agents may be {most} deep at work for each other (max_depth in [subagents]), and I am that deep."


@dataclass(frozen=True, slots=True)
class Crew:
    """Sets the next agents of a composite to work, and waits for them."""

    children: Children
    now: Callable[[], datetime]

    async def advance(self, turn: Turn, scene: Scene) -> Sequence[Event]:
        """The end, where everything for it is known; else nothing, once the next steps are done and written down."""
        composite, first = turn.terms.composite, turn.events[0].event
        if composite is None or not isinstance(first, UserSaid):
            return []
        steps = next_steps(composite, asked(first.whole, scene), results(turn))
        if isinstance(steps, TurnEnded):
            return [steps]
        if turn.terms.depth >= self.children.config.max_depth:
            return [TurnEnded(Stop.FAILED, "too deep", TOO_DEEP.format(most=self.children.config.max_depth))]
        try:
            events = self._spawned(turn, scene, steps, share(composite, results(turn)))
        except ConfigError as error:
            told = (f"I cannot go on: {error}", self.so_far(turn))
            return [TurnEnded(Stop.FAILED, "agent", "\n\n".join(part for part in told if part))]
        await self._at_work(turn, events)
        return []

    def so_far(self, turn: Turn) -> str:
        """The answers there are, for a composite that is cut."""
        return so_far(turn.terms.composite, results(turn)) if turn.terms.composite else ""

    def _spawned(self, turn: Turn, scene: Scene, steps: Sequence[Step], part: float) -> list[ChildSpawned]:
        """All of them or none. Those that a crash left behind are there already, and are only waited for."""
        known = {step.key: child.spawned for step in steps if (child := turn.children.get(step.key))}
        spent = scene.account.spent  # its children's too
        room = room_of(turn.limits, spent.sent, spent.usd, part)
        new = [
            self.children.spawned(turn, step.key, step.task, agent=step.agent, room=room)
            for step in steps
            if step.key not in known
        ]
        for event in new:
            turn.record(event, self.now())
        return [*known.values(), *new]

    async def _at_work(self, turn: Turn, events: Sequence[ChildSpawned]) -> None:
        """Each result is written down as it comes."""
        await turn.commit()
        for event in events:
            await self.children.rouse(event.child)
        spawned = {event.child: event for event in events}
        waiting = [asyncio.ensure_future(self.children.returned(turn, event)) for event in events]
        try:
            for coming in asyncio.as_completed(waiting):
                done = await coming
                turn.record(_returned(spawned[done.turn], done), self.now())
                await turn.commit()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


def results(turn: Turn) -> Results:
    """What its children have given back, by their step."""
    return {key: child.returned for key, child in turn.children.items() if child.returned}


def asked(text: str, scene: Scene) -> str:
    """The user's words, after what was said last in this conversation, of which other agents know nothing."""
    told = {Role.USER: "User", Role.ASSISTANT: "Assistant"}
    latest = [message for message in scene.earlier.messages if message.role in told and message.text][-LATEST:]
    said = "\n".join(f"{told[message.role]}: {head_and_tail(message.text, LONGEST)}" for message in latest)
    return NOW.format(said=said, text=text) if said else text


def _returned(event: ChildSpawned, returned: Returned) -> ChildReturned:
    return ChildReturned(event.key, event.child, returned.stop, returned.text, returned.label)
