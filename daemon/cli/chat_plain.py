"""chat without a screen: one message a line, or one message in all; replies on stdout, everything else on stderr."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TextIO

from channels.terminal_items import Activity, Errand, Item, Note, Question, Spoken, Step, plain
from channels.terminal_lines import Lines
from channels.terminal_text import readable
from daemon.cli.chat_answers import BY, NOBODY, Places, Standing, understood, wants_view
from daemon.cli.chat_follow import Follower
from daemon.core.clock import Clock
from daemon.core.events import Answer
from daemon.door.base import Delivery, Door, RunView

FAILURES = {"failed", "quarantined"}
INTERRUPTED = 130
LOOK_EVERY_S = 0.5


@dataclass(slots=True)
class Pages:
    """Where lines go: replies to `out`, what happens on the way to `err`. `prompt` is what waits for a line to be typed."""

    out: TextIO
    err: TextIO
    prompt: str = ""

    async def show(self, *items: Item) -> None:
        """What happens on the way. The reply is printed by who asked for it, when the run has ended."""
        for item in items:
            if isinstance(item, Note | Step | Errand | Question) or (isinstance(item, Spoken) and item.interim):
                self.tell(plain(item) + "\n")

    def tell(self, text: str) -> None:
        """To stderr, now; below the line of an open prompt, which is then shown again."""
        self.err.write(f"\n{text}{self.prompt}" if self.prompt else text)
        self.err.flush()

    async def ask(self, prompt: str, lines: Lines) -> str | None:
        """The line that is typed at this prompt."""
        self.tell(prompt)
        self.prompt = prompt
        try:
            return await lines.next()
        finally:
            self.prompt = ""

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
    _places: Places = field(default_factory=Places)
    _always: Standing = field(init=False)
    _prompt: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asking: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    _group: asyncio.TaskGroup | None = None

    def __post_init__(self) -> None:
        """The follower tells on these pages."""
        self.follower = Follower(self.door, self.session, self.pages, self, self.clock)
        self._always = Standing(self.standing)

    async def converse(self) -> int:
        """Every line a message, until there are no more; first what an earlier visit left open."""
        self.lines.start()
        async with self._attending():
            await self._catch_up()
            while not self.cut:
                line = await self._line("> " if self.ask else "")
                if line is None:
                    break
                if line.strip():
                    await self._exchange(line)
        return self._code()

    async def once(self, text: str) -> int:
        """One message and its reply."""
        if self.ask:
            self.lines.start()
        async with self._attending():
            await self._exchange(text)
        return self._code()

    @asynccontextmanager
    async def _attending(self) -> AsyncIterator[None]:
        """What is asked meanwhile, by agents and loops at work for this session too, is answered."""
        async with asyncio.TaskGroup() as self._group, self.follower.accompanying():
            looking = self._group.create_task(self._look_out())
            yield
            for task in (looking, *self._asking.values()):
                task.cancel()

    async def _line(self, prompt: str) -> str | None:
        """The next line; who asks for it second waits."""
        async with self._prompt:
            return await self.pages.ask(prompt, self.lines)

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
        await self.follower.follow(turn)
        view = await self.door.run(turn)
        if view:
            self._print(view)

    async def _look_out(self) -> None:
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
        """As the command line said; else a person at the terminal, in their own time; else no. A stranger's waits for one."""
        if question.outside and not self.ask and not self._always.to(question):
            return
        answered = self._always.to(question) or (None if self.ask else (Answer.DENY, NOBODY))
        if answered or self._group is None:
            await self._answer(question, *(answered or (Answer.DENY, NOBODY)))
        else:
            self._asking[question.turn, question.call_id] = self._group.create_task(self._put(question))

    async def settled(self, turn: str, call_id: str) -> None:
        """Nobody need type an answer any more."""
        if asking := self._asking.pop((turn, call_id), None):
            self._places.settle(1, len(self._asking))
            asking.cancel()

    async def _answer(self, question: Question, answer: Answer, reason: str) -> None:
        if not await self.door.answer(question.turn, question.call_id, answer, BY, reason):
            await self.pages.show(Note("that question is not open any more"))

    async def _put(self, question: Question) -> None:
        async with self._prompt:
            question = replace(question, place=self._places.of_first(len(self._asking)))
            text = await self._typed(question)
            while text is not None and question.long and wants_view(text):
                question = replace(question, whole=True)
                text = await self._typed(question)
        if self._asking.pop((question.turn, question.call_id), None):
            self._places.settle(1, len(self._asking))
        if text is not None or not question.outside:
            await self._answer(question, *((Answer.DENY, NOBODY) if text is None else understood(text or "no", question)))

    async def _typed(self, question: Question) -> str | None:
        await self.pages.show(question)
        return await self.pages.ask(f"{question.choices}: ", self.lines)


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
