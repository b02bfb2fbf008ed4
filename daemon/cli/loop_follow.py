"""Following a loop to its end: attempts are told as they come, questions are put to whoever sits there."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from channels.terminal_items import plain
from channels.terminal_lines import Lines
from daemon.cli.chat_answers import BY, NOBODY, question_of, understood, wants_view
from daemon.core.events import Answer
from daemon.door.base import ApprovalView, Door
from daemon.door.loops import LoopView, named

LOOK_EVERY_S = 0.3
FAILED, INTERRUPTED = 1, 130
LEFT = "the daemon goes on with it; `aidaemon loop stop` ends it"


@dataclass(slots=True)
class LoopFollower:
    """Looks again and again: so it does not matter where the loop runs, nor who else answers. `remote`: a daemon runs it."""

    door: Door
    loop: LoopView
    standing: Answer | None
    ask: bool
    remote: bool
    lines: Lines
    tell: Callable[[str], None]
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    _told: int = 0
    _begun: int = 0

    async def follow(self) -> LoopView:
        """The loop when it has ended, or when the person has left."""
        if self.ask:
            self.lines.start()
        while True:
            self._show()
            if self.loop.ended or (self.cut.is_set() and self.remote):
                return self.loop
            if not self.cut.is_set():
                await self._questions()
            await self._pause()
            self.loop = named(await self.door.loops().all(self.loop.agent), self.loop.loop_id, open_only=False) or self.loop

    async def interrupt(self) -> None:
        """Ctrl-C: a loop of this process is stopped, one of a daemon is only left."""
        self.cut.set()
        self.lines.close()
        if self.remote:
            self.tell(LEFT)
        else:
            await self.door.loops().stop(self.loop)

    def code(self, done: LoopView) -> int:
        """The exit code."""
        return INTERRUPTED if self.cut.is_set() else FAILED if done.status == "failed" else 0

    def _show(self) -> None:
        view = self.loop
        for number, line in enumerate(view.progress_log[self._told :], self._told + 1):
            self.tell(f"  attempt {number}: {line}")
        self._told = len(view.progress_log)
        if view.iteration > max(self._begun, self._told) and view.status == "running":
            self._begun = view.iteration
            self.tell(f"attempt {view.iteration} of {view.max_iterations} …")

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self.cut.wait(), LOOK_EVERY_S)
        except TimeoutError:
            return

    async def _open(self) -> list[ApprovalView]:
        return await self.door.approvals("pending", f"loop:{self.loop.loop_id}")

    async def _questions(self) -> None:
        for asked in await self._open():
            answered = (self.standing, "") if self.standing else await self._put(asked)
            if answered and not await self.door.answer(asked.turn, asked.call_id, answered[0], BY, answered[1]):
                self.tell("that question is not open any more")

    async def _put(self, asked: ApprovalView) -> tuple[Answer, str] | None:
        """What the person says; None when somebody else has said it, or is to say it."""
        if not self.ask:
            return None if self.remote else (Answer.DENY, NOBODY)
        question = question_of(asked)
        while True:
            self.tell(f"{plain(question)}\n{question.choices}: ")
            text = await self._line(asked)
            if text is None:
                return None
            if not (question.long and wants_view(text)):
                return understood(text or "no", question)
            question = replace(question, whole=True)

    async def _line(self, asked: ApprovalView) -> str | None:
        """A line, unless the question is settled meanwhile."""
        typing = asyncio.ensure_future(self.lines.next())
        try:
            while not typing.done():
                await asyncio.wait((typing,), timeout=LOOK_EVERY_S)
                if not typing.done() and asked not in await self._open():
                    return None
            if typing.result() is None:
                self.ask = False  # nobody types any more
            return typing.result()
        finally:
            typing.cancel()


async def interruptible(follower: LoopFollower) -> LoopView:
    """Follow it; the first SIGINT or SIGTERM interrupts in good order, a second one leaves at once."""
    loop = asyncio.get_running_loop()
    pressed = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, pressed.set)

    async def stop() -> None:
        await pressed.wait()
        for number in signals:
            loop.remove_signal_handler(number)
        await follower.interrupt()

    async with asyncio.TaskGroup() as group:
        stopper = group.create_task(stop())
        done = await follower.follow()
        if not pressed.is_set():
            stopper.cancel()
    return done
