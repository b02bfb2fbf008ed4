"""chat without a screen: one message a line, or one message in all; replies on stdout, everything else on stderr."""

import asyncio
import json
import signal
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field, replace
from typing import TextIO

from channels.terminal_items import CHOICES, Activity, Item, Note, Question, Spoken, Step, plain
from channels.terminal_lines import Lines
from channels.terminal_text import readable
from daemon.cli.chat_answers import BY, understood, wants_view
from daemon.cli.chat_follow import Follower
from daemon.core.clock import Clock
from daemon.core.events import Answer
from daemon.door.base import Delivery, Door, RunView

NOBODY = "nobody could be asked: this is no terminal, and neither --yes nor --deny-all was given"
FAILURES = {"failed", "quarantined"}
INTERRUPTED = 130
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Pages:
    """Where lines go: replies to `out`, what happens on the way to `err`."""

    out: TextIO
    err: TextIO

    async def show(self, *items: Item) -> None:
        """What happens on the way. The reply is printed by who asked for it, when the run has ended."""
        for item in items:
            if isinstance(item, Note | Step | Question) or (isinstance(item, Spoken) and item.interim):
                self.tell(plain(item) + "\n")

    def tell(self, text: str) -> None:
        """To stderr, now."""
        self.err.write(text)
        self.err.flush()

    def reply(self, text: str) -> None:
        """To stdout, now."""
        self.out.write(text + "\n")
        self.out.flush()

    def move(self, turn: str, activity: Activity | None) -> None:
        """Nothing moves on paper."""


@dataclass(slots=True)
class PlainChat:
    """One session, told in plain lines. `ask` says that a person sits there who can be asked."""

    door: Door
    session: str
    clock: Clock
    new_id: Callable[[], str]
    standing: Answer | None
    ask: bool
    pages: Pages
    lines: Lines
    as_json: bool = False
    failed: bool = False
    cut: bool = False
    follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        """The follower tells on these pages."""
        self.follower = Follower(self.door, self.session, self.pages, self, self.clock)

    async def converse(self) -> int:
        """Every line a message, until there are no more; first what an earlier visit left open."""
        self.lines.start()
        await self._catch_up()
        while not self.cut:
            if self.ask:
                self.pages.tell("> ")
            line = await self.lines.next()
            if line is None:
                break
            if line.strip():
                await self._exchange(line)
        return self._code()

    async def once(self, text: str) -> int:
        """One message and its reply."""
        if self.ask:
            self.lines.start()
        await self._exchange(text)
        return self._code()

    def _code(self) -> int:
        return INTERRUPTED if self.cut else int(self.failed)

    async def stop(self) -> None:
        """Ctrl-C: what runs is stopped, and nothing more is read."""
        self.cut = True
        self.lines.close()
        await self.door.stop(self.session)

    async def _catch_up(self) -> None:
        unfinished = await self.door.unfinished(self.session)
        for said in await self.door.undelivered(self.session):
            if said.turn not in unfinished:
                await self._missed(said)
        for turn in unfinished:
            await self.pages.show(Note("picking up where it was cut off …"))
            await self._finish(turn)

    async def _missed(self, said: Delivery) -> None:
        if said.kind == "reply":
            view = await self.door.run(said.turn)
            self._print(view or RunView(said.turn, self.session, "ended", reply=said.body))
        else:
            await self.pages.show(Note(said.body))
        await self.door.delivered(said.turn, said.part)

    async def _exchange(self, text: str) -> None:
        accepted = await self.door.send(self.session, text, self.new_id(), stream=False)
        turn = accepted.turn or accepted.steered
        if turn and not accepted.command:
            await self._finish(turn)
        else:
            self._print(RunView("", self.session, "ended", reply=accepted.reply))

    async def _finish(self, turn: str) -> None:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._look_out())
            await self.follower.follow(turn)
            looking.cancel()
        view = await self.door.run(turn)
        if view:
            self._print(view)

    async def _look_out(self) -> None:
        """Agents that work for this run may ask, too."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.follower.others()

    def _print(self, view: RunView) -> None:
        failed = view.stop_reason in FAILURES or view.state == "quarantined"
        self.failed |= failed
        if self.as_json:
            self.pages.reply(as_object(view))
        elif not failed:
            self.pages.reply(readable(view.reply or ""))
        if failed:
            self.pages.tell(f"aidaemon: {readable(failure(view))}\n")

    async def asked(self, question: Question) -> None:
        """As the command line said; else a person at the terminal; else no."""
        answer, reason = (self.standing, "") if self.standing else await self._put(question)
        if not await self.door.answer(question.turn, question.call_id, answer, BY, reason):
            await self.pages.show(Note("that question is not open any more"))

    async def settled(self, turn: str, call_id: str) -> None:
        """Nothing stays on paper."""

    async def _put(self, question: Question) -> tuple[Answer, str]:
        if not self.ask:
            return Answer.DENY, NOBODY
        while True:
            await self.pages.show(question)
            self.pages.tell(f"{CHOICES}: ")
            text = await self.lines.next()
            if text is None:
                return Answer.DENY, NOBODY
            if not (question.long and wants_view(text)):
                return understood(text or "no")
            question = replace(question, whole=True)


def as_object(view: RunView) -> str:
    """The run as CONTRACT's one object."""
    shown = asdict(view)
    keys = ("reply", "turn", "session", "stop_reason", "iterations", "usage", "label")
    return json.dumps({key: shown[key] for key in keys}, ensure_ascii=False)


def failure(view: RunView) -> str:
    """Why there is no reply."""
    return view.reply or " ".join(view.notices) or f"the message could not be answered; see: aidaemon show {view.turn}"


async def interruptible(chat: PlainChat, work: Coroutine[None, None, int]) -> int:
    """Run it; the first Ctrl-C stops the turn, a second one leaves at once."""
    loop = asyncio.get_running_loop()
    pressed = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, pressed.set)

    async def stop() -> None:
        await pressed.wait()
        loop.remove_signal_handler(signal.SIGINT)
        await chat.stop()

    async with asyncio.TaskGroup() as group:
        stopper = group.create_task(stop())
        code = await work
        stopper.cancel()
    return code
