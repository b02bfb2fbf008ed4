"""A scripted `Door`: the test says what happens in a run, and when; it keeps what a client asked for."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field, replace

from daemon.client.protocol import DaemonClient
from daemon.client.view_types import (
    ApprovalView,
    HealthView,
    LiveEvent,
    RunLine,
    RunView,
    SendResult,
    SessionView,
    UndeliveredText,
)
from daemon.core.events import Answer
from daemon.core.rows import GrantBounds
from daemon.core.trust import OWNER, Person

FAR = "2999-01-01T00:00:00+00:00"


@dataclass(slots=True)
class FakeClient(DaemonClient):
    """Runs are queues of events; `ends` puts the last one. What is said to it is in `sent`, answers are in `answers`."""

    sent: list[str] = field(default_factory=list)
    data: list[tuple[str, ...]] = field(default_factory=list)
    answers: list[tuple[str, str, Answer, str]] = field(default_factory=list)
    chosen: list[tuple[str, str]] = field(default_factory=list)
    stops: int = 0
    marked: list[tuple[str, int]] = field(default_factory=list)
    waiting: list[UndeliveredText] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    views: dict[str, RunView] = field(default_factory=dict)
    questions: list[ApprovalView] = field(default_factory=list)
    replies: list[SendResult] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _runs: dict[str, asyncio.Queue[LiveEvent]] = field(default_factory=dict)

    async def find_private(self, sessions: Collection[str]) -> set[str]:
        return set()

    def happens(self, turn: str, name: str, **data: object) -> None:
        """One more event of this run."""
        self._events(turn).put_nowait(LiveEvent(name, data))

    def asks(
        self,
        turn: str,
        call_id: str,
        tool: str,
        arguments: str,
        effect: str = "destructive",
        session: str = "terminal:main",
        question: str = "",
    ) -> None:
        """A call of this run waits for a person; or the house itself asks, where the id is no number."""
        view = ApprovalView(turn, call_id, session, tool, arguments, effect, "trusted", FAR)
        self.questions.append(replace(view, question=question))
        if call_id[0].isdigit():
            self.happens(turn, "tool_call", call_id=call_id, tool=tool, arguments=arguments)
        self.happens(
            turn,
            "approval.asked",
            call_id=call_id,
            tool=tool,
            arguments=arguments,
            effect=effect,
            expires=FAR,
        )

    def spawns(
        self,
        turn: str,
        key: str,
        child: str,
        task: str,
        agent: str = "scout",
        *,
        background: bool = False,
    ) -> None:
        """This run sets an agent to work."""
        told = {
            "key": key,
            "turn": child,
            "session": f"sub-1-{child}",
            "agent": agent,
            "task": task,
            "background": background,
        }
        self._events(turn).put_nowait(LiveEvent("agent.started", told))

    def ends(self, turn: str, reply: str, reason: str = "done") -> None:
        """The run is over."""
        self.views[turn] = RunView(turn, "terminal:main", "ended", reason, reply)
        self.waiting.append(UndeliveredText(turn, 1, "reply", reply))
        self.open = [name for name in self.open if name != turn]
        self.happens(
            turn,
            "run.completed",
            reply=reply,
            stop_reason=reason,
            iterations=0,
            usage={},
            label="trusted",
        )

    async def until(
        self, *, sent: int = 0, answers: int = 0, marked: int = 0, stops: int = 0
    ) -> None:
        """Wait until a client has done so much."""
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(
                lambda: (
                    len(self.sent) >= sent
                    and len(self.answers) >= answers
                    and len(self.marked) >= marked
                    and self.stops >= stops
                )
            )

    def _events(self, turn: str) -> asyncio.Queue[LiveEvent]:
        return self._runs.setdefault(turn, asyncio.Queue())

    async def _note(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
        data: Sequence[str] = (),
        files: Sequence[str] = (),
    ) -> SendResult:
        self.sent.append(text)
        self.data.append(tuple(data))
        await self._note()
        return self.replies.pop(0) if self.replies else SendResult(turn=f"t{len(self.sent)}")

    async def set_agent(self, session: str, agent: str) -> None:
        self.chosen.append((session, agent))

    async def wait_until_ended(self, turn: str) -> RunView:
        async for _ in self.stream_events(turn):
            pass
        return self.views[turn]

    async def get_run(self, turn: str) -> RunView | None:
        return self.views.get(turn)

    async def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        while True:
            event = await self._events(turn).get()
            yield event
            if event.name == "run.completed":
                return

    async def get_transcript(
        self, turn: str, after: int = 0, limit: int = 0
    ) -> list[dict[str, object]]:
        return [{"seq": 1, "at": FAR, "kind": "UserSaid", "text": f"the question of {turn}"}]

    async def list_runs(
        self, session: str | None = None, limit: int = 50, prefix: str = "", agent: str = "", state: str = "", after: str = ""
    ) -> list[RunLine]:
        lines = [
            RunLine(view.turn, view.session, view.state, view.stop_reason, None, None)
            for view in self.views.values()
        ]
        return lines[::-1][:limit]

    async def list_unfinished(self, session: str) -> list[str]:
        return list(self.open)

    async def cancel_run(self, turn: str) -> bool:
        return True

    async def stop_session(self, session: str) -> list[str]:
        self.stops += 1
        await self._note()
        return list(self.open)

    async def list_approvals(
        self, state: str = "pending", session: str | None = None
    ) -> list[ApprovalView]:
        return list(self.questions)

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: GrantBounds | None = None,
    ) -> bool:
        self.answers.append((turn, call_id, answer, reason))
        call_id = call_id.partition("/")[0]
        was_open = any((view.turn, view.call_id) == (turn, call_id) for view in self.questions)
        self.questions = [
            view for view in self.questions if (view.turn, view.call_id) != (turn, call_id)
        ]
        self.happens(
            turn,
            "approval.answered",
            call_id=call_id,
            answer=answer.value,
            by=by.name,
            reason=reason,
        )
        await self._note()
        return was_open

    async def get_session(self, session: str) -> SessionView | None:
        return None

    async def list_sessions(self, limit: int = 100, after: str = "") -> list[SessionView]:
        return []

    async def list_undelivered(self, session: str) -> list[UndeliveredText]:
        return [replace(said) for said in self.waiting]

    async def mark_delivered(self, turn: str, part: int) -> None:
        self.waiting = [said for said in self.waiting if (said.turn, said.part) != (turn, part)]
        self.marked.append((turn, part))
        await self._note()

    async def get_health(self) -> HealthView:
        return HealthView(True, "0")
