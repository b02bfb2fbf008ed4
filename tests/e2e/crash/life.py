"""One life of a daemon: the real house, a person who talks to it, and the moments at which it may die."""

import os
from asyncio import TaskGroup
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from daemon.app import Parts, open_house
from daemon.config.load import load
from daemon.core.events import Answer
from daemon.core.label import Effect
from daemon.door.base import Door
from daemon.store.lock import HomeLock
from daemon.store.protocol import Store
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import Tool, ToolContext
from daemon.tools.decorate import bind, tool
from tests.e2e.crash.journal import MortalStore, all_but_starts, everything
from tests.e2e.crash.moments import Moment, Moments, Outside
from tests.fakes.house import write_config


@dataclass(frozen=True, slots=True)
class Said:
    """Something a person says. `at_once`: without waiting for what was said before; `instead`: when asked a question, as the
    answer to it. `twice`: the network repeats it.
    """

    client: str
    text: str
    at_once: bool = False
    instead: bool = False
    twice: bool = False


Plan = Mapping[str, Sequence[Said]]


@dataclass(frozen=True, slots=True)
class Life:
    """How a daemon is to live, and die: `die_at` counts its own moments, `die_asking` is "HOW:N" for its N-th model call,
    `die_after` seconds, wherever it may be then. A `hasty` person answers questions before the turn has come to rest.
    """

    folder: str
    base_url: str
    plan: Plan
    die_at: int = 0
    die_asking: str = ""
    die_after: float = 0.0
    forgetful: bool = False
    hasty: bool = False
    agent: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def read(cls, told: Mapping[str, object]) -> "Life":
        """Back from JSON."""
        plan = told["plan"]
        assert isinstance(plan, dict)
        said = {session: [Said(**one) for one in messages] for session, messages in plan.items()}
        return cls(**{**told, "plan": said})  # type: ignore[arg-type] # asdict wrote it

    def told(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def hands(outside: Outside, moment: Moment) -> list[Tool]:
    """What the model may do: look (inside), note (an effect), send (an effect that needs a yes)."""

    def act(context: ToolContext, name: str, text: str) -> str:
        moment(f"before {name}")
        outside.effects.note(turn=context.turn.id, call=context.call_id, tool=name, text=text)
        moment(f"after {name}")
        return f"{name} done"

    @tool(effect=Effect.READ)
    async def look(context: ToolContext, text: str) -> str:
        """Look at something."""
        moment("before look")
        moment("after look")
        return f"saw {text}"

    @tool(effect=Effect.WRITE)
    async def note(context: ToolContext, text: str) -> str:
        """Note something down."""
        return act(context, "note", text)

    @tool(effect=Effect.EGRESS)
    async def send(context: ToolContext, text: str) -> str:
        """Send something away."""
        return act(context, "send", text)

    return bind([look, note, send], {})


async def live(life: Life) -> list[str]:
    """From start to good end: everything said, answered, shown. Gives the moments that were passed."""
    folder = Path(life.folder)
    outside = Outside(folder)
    moments = Moments(life.die_at, outside.deaths)
    headers = {"X-Pid": str(os.getpid()), "X-Die": life.die_asking}
    config = {"provider": {"extra_headers": headers}, "agent": {"drain_seconds": 1, **life.agent}}
    paths = write_config(folder / "home", life.base_url, config)

    async def open_store(path: Path) -> Store:
        return MortalStore(await SqliteStore.open(path), moments, outside, all_but_starts if life.forgetful else everything)

    parts = Parts(hands(outside, moments), open_store)
    with HomeLock(paths.home):
        async with open_house(paths, load(paths.config, env={}, secrets={}), parts) as house:
            await house.sessions.recover()
            await Person(house.door, outside, moments, life.hasty).talk(life.plan)
    return moments.passed


@dataclass(frozen=True, slots=True)
class Person:
    """Says what is in the plan and has not been taken yet, answers questions, reads what is delivered."""

    door: Door
    outside: Outside
    moment: Moment
    hasty: bool

    async def talk(self, plan: Plan) -> None:
        """In all sessions at once."""
        taken = {line["client"] for line in self.outside.accepted.lines()}
        async with TaskGroup() as tasks:
            for session, messages in plan.items():
                tasks.create_task(self._converse(session, [said for said in messages if said.client not in taken]))

    async def _converse(self, session: str, messages: Sequence[Said]) -> None:
        for said in messages:
            if said.instead:
                await self._until_asked(session)
            elif not said.at_once:
                await self._see_to_the_end(session)
            await self._say(session, said)
        await self._see_to_the_end(session)

    async def _say(self, session: str, said: Said) -> None:
        accepted = await self.door.send(session, said.text, said.client)
        if said.twice:
            self.moment("before a repeated message")
            assert await self.door.send(session, said.text, said.client) == accepted
        turn = accepted.turn or accepted.steered
        self.outside.accepted.note(client=said.client, session=session, text=said.text, turn=turn)

    async def _until_asked(self, session: str) -> None:
        for turn in await self.door.unfinished(session):
            async for event in self.door.events(turn):
                if event.name == "approval.asked":
                    return

    async def _see_to_the_end(self, session: str) -> None:
        while turns := await self.door.unfinished(session):
            for turn in turns:
                await self._follow(turn)
        for item in await self.door.undelivered(session):
            self.moment("before it is shown")
            shown = {"turn": item.turn, "part": str(item.part), "kind": item.kind, "body": item.body}
            self.outside.shown.note(session=session, **shown)
            self.moment("after it was shown")
            await self.door.delivered(item.turn, item.part)

    async def _follow(self, turn: str) -> None:
        asked: list[str] = []
        async for event in self.door.events(turn):
            if event.name == "approval.asked":
                asked.append(str(event.data["call_id"]))
            if self.hasty or event.name == "run.suspended":
                while asked:
                    await self._answer(turn, asked.pop(0))

    async def _answer(self, turn: str, call: str) -> None:
        if all((line["turn"], line["call"]) != (turn, call) for line in self.outside.questions.lines()):
            self.outside.questions.note(turn=turn, call=call, what="seen")
        self.moment("while a question is open")
        if await self.door.answer(turn, call, Answer.ONCE, "owner"):
            self.outside.questions.note(turn=turn, call=call, what="answered")
            self.moment("after a question was answered")
