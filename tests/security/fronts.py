"""A house behind one platform's front door, strangers and members before it, and what came of what they tried (A6, issue 5)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from daemon.app.channels import ChannelTimeouts, run_channels
from daemon.app.config import load_config
from daemon.app.daemon import Daemon, Overrides, open_daemon
from daemon.core.rows import ApprovalRow
from daemon.gateway.admission import STRANGER_NOTICE, WRONG_CODE
from tests.fakes.house import write_config
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.platform import OWNER, Button, Platform, Shown
from tests.fakes.platforms import NAMES, comings, fake
from tests.fakes.wordy_model import Script, shell

PLATFORMS = NAMES
TOLD = {"telegram": "answerCallbackQuery", "slack": "chat.postEphemeral"}
AT_ONCE = ChannelTimeouts(flush_s=0.0)
POLITE = (STRANGER_NOTICE, WRONG_CODE)
Tables = dict[str, object]


@dataclass(slots=True)
class Tally:
    """How often something was tried, and how often it got what it wanted."""

    tries: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Input:
    """A message as the journal has it."""

    sender: str
    role: str
    body: str
    label: str
    state: str


@dataclass(slots=True)
class Front:
    """One platform with a house behind it. Words that an attacker says carry a mark, by which they are found again."""

    platform: Platform
    model: FakeOpenAI
    script: Script
    home: Path
    house: Daemon | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)
    _marks: dict[str, str] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def note(self, attack: str, accepted: bool) -> None:
        """One try is over."""
        tally = self.tallies.setdefault(f"{self.platform.name}: {attack}", Tally())
        tally.tries, tally.accepted = tally.tries + 1, tally.accepted + accepted

    def mark(self, attack: str, text: str = "") -> str:
        """What an attacker says; whether anything came of it is found out by `heard`."""
        word = f"evil{next(self._numbers):04d}"
        self._marks[word] = attack
        return f"{text} {word}".strip()

    def heard(self) -> None:
        """Note for every mark whether the model or the journal has it."""
        written = b"".join(one.read_bytes() for one in self.home.glob("journal.db*"))
        asked = b"".join(asked.raw for asked in self.model.requests)
        for word, attack in self._marks.items():
            self.note(attack, word.encode() in written or word.encode() in asked)
        self._marks.clear()

    async def question(self, chat: str, text: str, command: str = "", *, who: str = OWNER) -> Shown:
        """Somebody asks for what needs a yes; the question as it stands in the chat, with its buttons."""
        number = next(self._numbers)
        word = f"work{number}"
        self.script.on(word, shell(command or f"touch hit{number}; rm -f x"), says(f"done{number}"))
        before = {one.id for one in self.shown(chat)}
        self.platform.say(who, chat, f"{text} {word}")
        await self.platform.until(
            lambda: any(one.id not in before and one.buttons for one in self.shown(chat))
        )
        return next(
            one for one in reversed(self.shown(chat)) if one.buttons and one.id not in before
        )

    def shown(self, chat: str) -> list[Shown]:
        """What stands in the chat and in the threads of it."""
        return self.platform.shown(chat)

    async def answered(self) -> None:
        """The owner says something in a group of their own, and is answered: all that came before has been heard by then."""
        word = f"ping{next(self._numbers)}"
        self.script.on(word, says(f"pong-{word}"))
        chat = self.platform.group(OWNER)
        self.platform.say(OWNER, chat, self.platform.mention(f"how are you? {word}"))
        await self.platform.until(
            lambda: any(f"pong-{word}" in one.text for one in self.shown(chat))
        )

    async def pressed(self, person: str, message: str, data: str) -> str:
        """Somebody presses; what they are shown, "" where the platform shows them nothing."""
        shown, told = len(self.platform.pressed()), self._told()
        self.platform.press(person, message, data)
        await self.platform.until(lambda: self._told() > told)
        return (self.platform.pressed()[shown:] or [""])[-1]

    def _told(self) -> int:
        """How often somebody was told something after pressing, whether they could see it or not."""
        method = TOLD.get(self.platform.name)
        return len(self.platform.calls.of(method)) if method else len(self.platform.pressed())

    async def waiting(self) -> list[ApprovalRow]:
        """The questions that wait."""
        assert self.house
        return await self.house.store.read(lambda tx: tx.list_approvals("pending"))

    async def ended(self, turn: str) -> None:
        """The turn is over."""
        assert self.house
        await asyncio.wait_for(self.house.client.wait_until_ended(turn), 20)

    def inputs(self) -> list[Input]:
        """What was accepted into the journal, in order."""
        with sqlite3.connect(self.home / "journal.db") as db:
            rows = db.execute(
                "SELECT sender, role, body, iif(quoted = '[]', label, 'untrusted'), state"
                " FROM inbox ORDER BY rowid"
            ).fetchall()
        return [Input(*row) for row in rows]

    def hits(self) -> list[str]:
        """What ran."""
        return sorted(path.name for path in (self.home / "workspace").glob("hit*"))


def button(shown: Shown, label: str = "Once") -> Button:
    """The button with this label."""
    return next(one for one in shown.buttons if one.label == label)


@asynccontextmanager
async def opened(
    front: Front, *more: Platform, config: Tables | None = None, parts: Overrides | None = None
) -> AsyncIterator[Front]:
    """The house, listening."""
    before = comings(front.platform)
    platforms = {one.name: one.config() for one in (front.platform, *more)}
    tables = {"agent": {"drain_seconds": 0}, **platforms, **(config or {})}
    paths = write_config(front.home, front.model.base_url, tables)
    loaded = load_config(paths.config, env={}, secrets={})
    async with (
        open_daemon(paths, loaded, parts) as front.house,
        run_channels(front.house, times=AT_ONCE),
    ):
        await front.house.sessions.recover()
        await front.house.commands.settle_interrupted()
        await front.platform.until(lambda: comings(front.platform) > before)
        yield front


@asynccontextmanager
async def alone(name: str, home: Path) -> AsyncIterator[Front]:
    """A platform of its own and a model, without a house yet."""
    async with FakeOpenAI() as model:
        platform = fake(name)
        await platform.start()
        try:
            yield Front(platform, model, Script(model), home)
        finally:
            await platform.stop()


@asynccontextmanager
async def front_of(
    name: str, home: Path, *more: Platform, config: Tables | None = None
) -> AsyncIterator[Front]:
    """The same with a house."""
    async with alone(name, home) as front, opened(front, *more, config=config):
        yield front


def polite(shown: Sequence[Shown]) -> bool:
    """The bot has said nothing there but what everybody may hear."""
    said = [one.text for one in shown if one.by_bot]
    return all(any(_same(text, line) for line in POLITE) for text in said)


def _same(text: str, line: str) -> bool:
    letters = [char for char in text if char.isalnum()]
    return letters == [char for char in line if char.isalnum()]
