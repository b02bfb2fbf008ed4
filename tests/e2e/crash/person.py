"""Who talks to the daemon: says what is in the plan, answers questions, stops what takes for ever, reads what is delivered."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from daemon.app.daemon import Daemon
from daemon.client.loop_view import LoopAction, LoopView
from daemon.client.protocol import DaemonClient
from daemon.client.view_types import LiveEvent
from daemon.commands.registry import INTERRUPTED, RESULT_UNKNOWN
from daemon.core.events import Answer
from daemon.core.rows import EVENT_CHANNEL, EXACT_CALL, Criterion, GrantBounds
from daemon.core.rows import REVIEW_QUESTION as LOOP_REVIEW
from daemon.loops.changes import LoopEvent
from daemon.loops.config import LoopOrder
from daemon.store.journal import Tx
from tests.e2e.crash.moments import Moment, Outside
from tests.e2e.crash.stranger import Post

DOUBTED = ("review_answer", "loop_review")
ONCE_ONLY = ("/undo",)
TIMES = 2


@dataclass(frozen=True, slots=True)
class Said:
    """Something a person says. `at_once`: without waiting for what was said before; `instead`: when asked a question, as the
    answer to it. `twice`: the network repeats it. `stranger`: it comes as an event from outside, which its sender sends again at
    each start of the daemon; the people of the session are asked and told.
    """

    client: str
    text: str
    at_once: bool = False
    instead: bool = False
    twice: bool = False
    stranger: bool = False

    @property
    def command(self) -> bool:
        """Not for the model."""
        return self.text.startswith("/")


@dataclass(frozen=True, slots=True)
class Task:
    """A loop that a person starts. `pauses`: holds it up at each attempt that looks, and lets it go on when that is over."""

    session: str
    text: str
    criterion: Criterion = "max_iterations"
    value: str = ""
    most: int = 3
    pauses: bool = False


Plan = Mapping[str, Sequence[Said]]


@dataclass(frozen=True, slots=True)
class Person:
    """Says what is in the plan and has not been taken yet. Where something waits for ever, the person's patience ends."""

    house: Daemon
    outside: Outside
    moment: Moment
    hasty: bool
    chosen: str
    doubts: int
    post: Post | None = None

    @property
    def door(self) -> DaemonClient:
        """Where the person stands."""
        return self.house.client

    async def talk(self, plan: Plan, task: Task | None) -> None:
        """In all sessions at once; then the loop, from its start to its end."""
        taken = {
            line["client"]
            for book in (self.outside.accepted, self.outside.orders)
            for line in book.lines()
        }
        async with TaskGroup() as tasks:
            for session, messages in plan.items():
                tasks.create_task(
                    self._converse(session, [said for said in messages if said.client not in taken])
                )
        if task:
            await self._pursue(task)
            await self._see_to_the_end(task.session)

    async def _converse(self, session: str, messages: Sequence[Said]) -> None:
        if messages and self.chosen:
            await self.door.set_agent(session, self.chosen)
        for said in messages:
            if said.instead:
                await self._until_asked(session)
            elif not said.at_once:
                await self._see_to_the_end(session)
            await self._say(session, said)
        await self._see_to_the_end(session)

    async def _say(self, session: str, said: Said) -> None:
        if said.stranger:
            await self._send(session, said)
        elif said.command:
            await self._order(session, said)
        else:
            await self._tell(session, said)

    async def _send(self, notify: str, said: Said) -> None:
        assert self.post
        self.moment("before an event is sent")
        taken = await self.post(said.client, said.text)
        self.outside.strangers.note(
            client=said.client, notify=notify, session=taken["session"], turn=taken["turn"]
        )
        self.moment("after an event was taken")

    async def _order(self, session: str, said: Said) -> None:
        """Where nobody knows whether it was carried out it is given again, if that does no harm."""
        done = await self.door.send(session, said.text, said.client)
        if (
            done.reply in (RESULT_UNKNOWN, INTERRUPTED.format(text=said.text))
            and said.text not in ONCE_ONLY
        ):
            done = await self.door.send(session, said.text)
        self.outside.orders.note(
            client=said.client, session=session, text=said.text, reply=done.reply
        )
        self.moment("after a command was carried out")

    async def _tell(self, session: str, said: Said) -> None:
        accepted = await self.door.send(session, said.text, said.client)
        if said.twice:
            self.moment("before a repeated message")
            assert await self.door.send(session, said.text, said.client) == accepted
        turn = accepted.turn or accepted.steered
        self.outside.accepted.note(client=said.client, session=session, text=said.text, turn=turn)

    async def _until_asked(self, session: str) -> None:
        for turn in await self.door.list_unfinished(session):
            async for event in self.door.stream_events(turn):
                if event.name == "approval.asked":
                    return

    async def _see_to_the_end(self, session: str) -> None:
        while turns := await self._at_work(session):
            await self._see_to(session, turns)
        for item in await self.door.list_undelivered(session):
            self.moment("before it is shown")
            shown = {
                "turn": item.turn,
                "part": str(item.part),
                "kind": item.kind,
                "body": item.body,
            }
            self.outside.shown.note(session=session, **shown)
            self.moment("after it was shown")
            await self.door.mark_delivered(item.turn, item.part)

    async def _at_work(self, session: str) -> list[str]:
        """What the session waits for, at one glance: its own turns, and agents that work for it in the background."""
        return await self.house.store.read(lambda tx: _at_work(tx, session))

    async def _see_to(
        self, session: str, turns: Sequence[str], pausing: LoopView | None = None
    ) -> None:
        """Until these have ended, and all that they set to work."""
        async with TaskGroup() as tasks:
            followed: set[str] = set()

            def follow(turn: str) -> None:
                if turn not in followed:
                    followed.add(turn)
                    tasks.create_task(watch(turn))

            async def watch(turn: str) -> None:
                async for event in self._seen(session, turn, pausing):
                    if event.name == "agent.started":
                        follow(str(event.data["turn"]))

            for turn in turns:
                follow(turn)

    async def _seen(
        self, session: str, turn: str, pausing: LoopView | None
    ) -> AsyncIterator[LiveEvent]:
        asked: list[tuple[str, str]] = []
        async for event in self.door.stream_events(turn):
            match event.name, event.data.get("tool"):
                case "approval.asked", tool:
                    asked.append((str(event.data["call_id"]), str(tool)))
                case "tool.started", "wait":
                    await self._stop(session)
                case "tool.started", "look" if pausing:
                    await self.door.change_loop(pausing, LoopAction.PAUSE)
            if self.hasty or event.name == "run.suspended":
                while asked:
                    await self._answer(turn, *asked.pop(0))
            yield event

    async def _stop(self, session: str) -> None:
        """All of the session; a hasty person only what it can see, the session's own turns."""
        self.moment("before a stop")
        seen = await self.door.list_unfinished(session) if self.hasty else []
        for turn in [
            turn for turn in seen if await self.door.cancel_run(turn)
        ] or await self.door.stop_session(session):
            self.outside.stops.note(turn=turn)
        self.moment("after a stop")

    async def _answer(self, turn: str, call: str, tool: str, loop: LoopView | None = None) -> None:
        if all(
            (line["turn"], line["call"]) != (turn, call) for line in self.outside.questions.lines()
        ):
            self.outside.questions.note(turn=turn, call=call, what="seen", answer="")
        denied = sum(line["answer"] == Answer.DENY.value for line in self.outside.questions.lines())
        answer = Answer.DENY if tool in DOUBTED and denied < self.doubts else Answer.ONCE
        self.moment("while a question is open")
        if loop and not self.hasty:
            taken = (
                await self.door.review_loop(loop, approved=answer is Answer.ONCE, by="owner")
                is not None
            )
        else:
            answer, bounds = await self._for_how_long(tool, answer)
            taken = await self.door.answer_approval(turn, call, answer, bounds=bounds)
        if taken:
            self.outside.questions.note(turn=turn, call=call, what="answered", answer=answer.value)
            self.moment("after a question was answered")

    async def _for_how_long(self, tool: str, answer: Answer) -> tuple[Answer, GrantBounds]:
        """The first time that it is to pay, a person allows it so many times more, everywhere."""
        if (
            tool != "pay"
            or answer is not Answer.ONCE
            or await self.house.store.read(lambda tx: tx.list_grants("*"))
        ):
            return answer, EXACT_CALL
        return Answer.ALWAYS, GrantBounds(uses=TIMES)

    async def _pursue(self, task: Task) -> None:
        """Start the loop, unless a former life did; see to its attempts, answer, go on after a pause; until it is over."""
        with self.house.loops.hub.watch() as happened:
            if not await self.door.list_loops():
                order = LoopOrder(
                    "default",
                    task.text,
                    task.session,
                    task.criterion,
                    task.value,
                    task.most,
                )
                await self.door.start_loop(order)
            while (loop := (await self.door.list_loops())[0]).status not in ("completed", "failed"):
                await self._see_to_loop(loop, task, happened)
            # a stopped loop is over before its attempt is; what the attempt says counts, too
            await self._see_to(
                task.session,
                [one.turn for one in loop.attempts if await self._goes_on(one.turn)],
            )

    async def _see_to_loop(
        self, loop: LoopView, task: Task, happened: AsyncIterator[LoopEvent]
    ) -> None:
        attempt = loop.attempts[-1]
        if loop.review:
            await self._answer(attempt.turn, LOOP_REVIEW, "loop_review", loop)
            await anext(happened)
        elif await self._goes_on(attempt.turn):
            await self._see_to(task.session, [attempt.turn], loop if task.pauses else None)
        elif loop.status == "paused":
            await self.door.change_loop(loop, LoopAction.RESUME)
        else:
            await anext(happened)

    async def _goes_on(self, turn: str) -> bool:
        view = await self.door.get_run(turn)
        return view is not None and view.state in ("queued", "running", "suspended")


def _at_work(tx: Tx, session: str) -> list[str]:
    """Of the session itself, and of what strangers sent to it."""
    sent = [
        row.id for row in tx.list_sessions() if row.channel == EVENT_CHANNEL and row.root == session
    ]
    return [turn for name in (session, *sent) for turn in _waited_for(tx, name)]


def _waited_for(tx: Tx, session: str) -> list[str]:
    begun, below = (
        [row.id for row in tx.list_unfinished_turns(session)],
        [child.turn for child in tx.list_running_children(session)],
    )
    return [
        *begun,
        *(
            row.turn
            for row in tx.list_waiting_inputs(session)
            if not row.steers and row.turn not in begun
        ),
        *below,
    ]
